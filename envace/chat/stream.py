"""Token streams: ids with one role per token, the form in which both roles are trained."""

from dataclasses import dataclass, field
from enum import IntEnum


class TokenRole(IntEnum):
    """Who is responsible for a token; only ACT and ENV tokens carry loss."""

    CONTEXT = 0
    """Given: prompts, memories, scaffold nobody chose, responses the policy did not write, turns
    marked not trainable."""
    ACT = 1
    """Written by the act role: calls, answers, and the marker that ends them."""
    ENV = 2
    """Written by the environment role: responses, and the marker that ends them."""


@dataclass(frozen=True)
class Span:
    """A run of one role in the tokens behind a prompt."""

    role: TokenRole
    """ACT, ENV, or CONTEXT for scaffold and for responses somebody else wrote."""
    start: int
    """Index of the first token, relative to the end of the prompt."""
    stop: int
    """One past the last token, the end marker included."""
    marker: int | None
    """Id of the marker that ended it; None for scaffold, a cut, or a marker that was not its to write."""


@dataclass
class TokenStream:
    """Token ids with their roles, built left to right."""

    ids: list[int] = field(default_factory=list)
    """Token ids."""
    roles: list[int] = field(default_factory=list)
    """`TokenRole` of each token; same length as `ids`."""

    def add(self, ids: list[int], role: TokenRole) -> None:
        """Append tokens of one role."""
        self.ids.extend(ids)
        self.roles.extend([int(role)] * len(ids))

    def __len__(self) -> int:
        return len(self.ids)
