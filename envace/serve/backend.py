"""The seam between the server and whatever writes the answers."""

from typing import Literal, Protocol

from pydantic import Field

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


class ChatRequest(Record):
    """One chat completion to write."""

    model: str
    """Model named by the client; one of `ChatBackend.models()`."""
    messages: tuple[Message, ...]
    """Conversation so far."""
    tools: tuple[Tool, ...] = ()
    """Tools on offer."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature; 0 is greedy."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of an answer; None leaves it to the backend."""
    seed: int | None = None
    """Seed of the sampler; None leaves it to the backend."""
    n: int = Field(default=1, ge=1)
    """How many answers."""


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


class ChatBackend(Protocol):
    """Anything that answers chats; the server calls it from one thread at a time."""

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        ...

    def reply(self, request: ChatRequest) -> ChatReply:
        """Write the answers.

        Raises:
            ContextTooLongError: when the conversation does not fit.
        """
        ...
