"""The seam between the server and whatever writes the answers."""

from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from envace.rehearsal.trace import Trace
from envace.trajectory.records import Message, Record, Tool

FinishReason = Literal["stop", "tool_calls", "length"]


class ContextTooLongError(Exception):
    """The rendered conversation does not fit the model: the client's fault, answered with 400.

    Args:
        tokens: Length of the conversation in tokens.
        limit: Most tokens the model takes.
    """

    def __init__(self, tokens: int, limit: int) -> None:
        self.tokens = tokens
        self.limit = limit
        super().__init__(f"the conversation has {tokens} tokens, the model takes {limit}")


class CallerGoneError(Exception):
    """The client left, so that the rest of the work was not done."""


class ChatRequest(Record):
    """One chat completion to write."""

    model: str
    """Model named by the client."""
    messages: tuple[Message, ...]
    """Conversation so far."""
    tools: tuple[Tool, ...] = ()
    """Tools on offer."""
    forced: str | None = None
    """Tool that must be called, any of them when empty; None leaves it to the model."""
    parallel: bool = True
    """Whether a turn may hold more than one call."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the fewest likeliest tokens whose probabilities reach this sum."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of an answer; None leaves it to the backend."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer; they are not part of it. Nobody looks for them inside calls."""
    seed: int | None = None
    """Seed of the sampler; None leaves it to the backend."""
    n: int = Field(default=1, ge=1)
    """How many answers."""
    alternatives: int | None = Field(default=None, ge=0)
    """Likeliest tokens to report at each place beside the log-probabilities; None wants neither."""
    strategy: str = ""
    """Rehearsal strategy, as in `parallel-4`; empty for what the model's name says."""


class TokenLogprob(Record):
    """One sampled token and how likely it was."""

    token: str
    """Its text, markers spelled out."""
    logprob: float
    """Log-probability under the distribution it was sampled from."""
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens at its place with theirs, likeliest first."""


class ChatReply(Record):
    """The answers to one request, with every token accounted for."""

    messages: tuple[Message, ...]
    """The `n` assistant turns."""
    finish_reasons: tuple[FinishReason, ...]
    """Why each turn ended, in the same order."""
    prompt_tokens: int = 0
    """Tokens of the conversation read."""
    completion_tokens: int = 0
    """Act tokens: those of the turns returned, together."""
    rehearsal_tokens: int = 0
    """Tokens written privately before the turns; never returned, never counted as completion."""
    logprobs: tuple[tuple[TokenLogprob, ...], ...] | None = None
    """Log-probabilities of each turn's tokens, where they were asked for and are known."""
    trace: Trace | None = None
    """The private rehearsal, where there was one."""

    def own_fields(self) -> dict[str, Any]:
        """Fields of the completion that OpenAI's format does not know, beside the trace."""
        return {}


class ChatBackend(Protocol):
    """Anything that answers chats; the server calls it from one thread at a time."""

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        ...

    def reply(self, request: ChatRequest) -> ChatReply:
        """Write the answers.

        Raises:
            ContextTooLongError: when the conversation does not fit.
            RequestError: when it cannot answer this request.
        """
        ...


class Delta(Record):
    """What was written since the last one."""

    choice: int
    """Number of the turn."""
    content: str = ""
    """Text, certain to be part of the answer."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities, where they were asked for; of tokens written, shown or not."""


class Caller(Protocol):
    """The client of one request, as a backend sees it."""

    streaming: bool
    """Whether it reads along."""

    def waiting(self) -> bool:
        """False once it left: the rest of the work is for nobody."""
        ...

    def tell(self, delta: Delta) -> None:
        """Hand it what was written."""
        ...


@runtime_checkable
class ConcurrentBackend(ChatBackend, Protocol):
    """A backend that is entered by many threads, tells what it writes and checks models itself."""

    def answer(self, request: ChatRequest, caller: Caller) -> ChatReply:
        """Write the answers; besides what `reply` raises:

        Raises:
            CallerGoneError: when the caller left.
        """
        ...
