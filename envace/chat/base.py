"""What the rest of the project needs of a chat template.

Two roles write by turns into one stream. Between their turns a template may need scaffold
tokens, the *bridges*: nobody chose them, so they are context and never carry loss. The compact
template has none, because its end markers do that job.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from envace.chat.stream import Span, TokenStream
from envace.trajectory import Message, Tool


class Template(Protocol):
    """Renders conversations to tokens, token-exact, and reads sampled tokens back."""

    vocabulary: int
    """Number of real token ids."""
    end_ids: frozenset[int]
    """Markers that end an answer."""
    call_end: int
    """Marker by which the act role asks for a response."""
    response_end: int
    """Marker by which the environment role ends the last response of a turn."""
    act_stop_ids: frozenset[int]
    """Markers at which an act turn stops, legal or not."""
    environment_stop_ids: frozenset[int]
    """Markers at which a response stops, legal or not."""
    forbidden_ids: frozenset[int]
    """Markers that no role may sample."""

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; markers in it are not special."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, without markers."""
        ...

    def raw(self, ids: Sequence[int]) -> str:
        """Text of token ids with the markers spelled out."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> TokenStream:
        """Render a conversation up to the point where the next role writes."""
        ...

    def parse_act(self, sampled: Sequence[int]) -> Message:
        """Read an act turn; a turn that is cut or malformed has no calls."""
        ...

    def is_answer(self, sampled: Sequence[int]) -> bool:
        """True when an act turn came to its end and asks for no call."""
        ...

    def call_opening(self, name: str) -> list[int]:
        """The first tokens of an act turn that calls `name`; an empty name is left to the act role."""
        ...

    def after_act(self, context: Sequence[int], sampled: Sequence[int]) -> list[int]:
        """What later turns see of the stream once an act turn with calls is over.

        It extends `context` by `sampled` unless something leaves the history, which forks it.
        """
        ...

    def bridge_to_response(self, last: int) -> list[int]:
        """Scaffold in front of a response, behind an act turn or another response ended by `last`."""
        ...

    def bridge_to_act(self, last: int) -> list[int]:
        """Scaffold in front of the next act turn, behind a response ended by `last`."""
        ...

    def response_ids(self, text: str, more: bool) -> list[int]:
        """A response as the environment role would have written it; `more` when others follow."""
        ...

    def response_text(self, ids: Sequence[int]) -> str:
        """Text of one response, without its end."""
        ...

    def ends_response(self, token: int, more: bool) -> bool:
        """True when the environment role may end a response so; `more` when others must follow."""
        ...


@runtime_checkable
class SeamlessTemplate(Template, Protocol):
    """A template without bridges: a rehearsed episode is one uninterrupted generation."""

    def spans(self, sampled: Sequence[int]) -> list[Span]:
        """Split tokens sampled behind a prompt into the spans of both roles."""
        ...
