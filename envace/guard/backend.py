"""The guard in front of a chat backend: a turn with a call that is stopped is not returned.

A chat client executes the calls itself, so the guard can only keep them back. It says so in words, in
place of the turn; consent is given in words too, by the user's next message.
"""

import hmac
import secrets
from collections.abc import Sequence
from typing import Any

from envace.guard.asking import stopped
from envace.guard.guard import Guard
from envace.guard.rehearsers import Pending
from envace.guard.verdict import Verdict
from envace.guard.which import Lists
from envace.serve.backend import (
    Caller,
    CallerGoneError,
    ChatBackend,
    ChatReply,
    ChatRequest,
    ConcurrentBackend,
)
from envace.trajectory import Message, ToolCall
from envace.trajectory.records import Record

CODE_LENGTH = 8
"""Characters of a consent code."""


class Examined(Record):
    """A guarded call of a reply."""

    choice: int
    """Number of the turn it stood in."""
    call: ToolCall
    """The call."""
    verdict: Verdict
    """What the guard says about it."""


class GuardedReply(ChatReply):
    """A reply with the verdicts on its guarded calls."""

    examined: tuple[Examined, ...] = ()
    """In the order of the turns and their calls; stopped calls are among them, read-only ones are not."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts, in the same order."""
        return tuple(item.verdict for item in self.examined)

    def own_fields(self) -> dict[str, Any]:
        """`guard` with the verdicts, where a call was guarded."""
        found = [{"choice": item.choice, **item.verdict.entry(item.call)} for item in self.examined]
        return {"guard": {"verdicts": found}} if found else {}


class Examiner:
    """Goes over finished replies, whoever wrote them."""

    def __init__(self, guard: Guard, lists: Lists | None = None) -> None:
        """Set up an examiner.

        Args:
            guard: Gives the verdicts.
            lists: Which tools are guarded whatever is said of them. The chat format has no word for
                irreversible tools, so without this only tools that are not on offer are.
        """
        self.guard = guard
        self.lists = lists or Lists()
        self._secret = secrets.token_bytes(16)

    def guarded(self, request: ChatRequest, reply: ChatReply, caller: Caller | None = None) -> GuardedReply:
        """A finished reply as a client may have it.

        A turn is returned whole or not at all, because a later call may build on the one that was
        stopped.

        Args:
            request: What was asked for.
            reply: What was written.
            caller: For whom; whoever left gets no rehearsals.

        Raises:
            CallerGoneError: The caller left.
        """
        messages, reasons = list(reply.messages), list(reply.finish_reasons)
        examined: list[Examined] = []
        logprobs = list(reply.logprobs or ())
        for position, message in enumerate(reply.messages):
            texts = []
            for call in self._guarded_calls(request, message):
                if caller is not None and not caller.waiting():
                    raise CallerGoneError("the caller left")
                verdict, text = self._examine(request, call)
                examined.append(Examined(choice=position, call=call, verdict=verdict))
                texts += [text] if text else []
            if texts:
                words = "\n\n".join([message.content, *texts] if message.content else texts)
                messages[position] = Message(role="assistant", content=words)
                reasons[position] = "stop"
                if logprobs:
                    logprobs[position] = ()  # they would tell the turn
        fields = {name: getattr(reply, name) for name in type(reply).model_fields}
        fields |= {
            "messages": tuple(messages),
            "finish_reasons": tuple(reasons),
            "logprobs": reply.logprobs and tuple(logprobs),
            "rehearsal_tokens": reply.rehearsal_tokens + sum(item.verdict.tokens for item in examined),
        }
        return GuardedReply(**fields, examined=tuple(examined))

    def _guarded_calls(self, request: ChatRequest, turn: Message) -> list[ToolCall]:
        tools = {tool.name: tool for tool in request.tools}
        return [
            call
            for call in turn.tool_calls
            if self.lists.guards(call.name, call.name not in tools or tools[call.name].irreversible)
        ]

    def _examine(self, request: ChatRequest, call: ToolCall) -> tuple[Verdict, str]:
        """The verdict on a call with the words in its place, none where it passes."""
        verdict = self.guard.examine(Pending(call, request.tools, request.messages))
        answer, text = "", ""
        if verdict.decision == "deny":
            text = stopped(call, verdict, "denied", "change the call, or look closer at the state first")
        elif verdict.decision == "ask":
            code = self._code(call)
            answer = "accept" if _consents(request.messages, code) else "posed"
            if answer == "posed":
                text = stopped(call, verdict, "needs consent", f'to allow it, answer "allow {code}"')
        self.guard.record(call, verdict, answer)
        return verdict, text

    def _code(self, call: ToolCall) -> str:
        """Stands for consent to exactly this call; nobody can guess it who was not asked."""
        return hmac.new(self._secret, call.text().encode(), "sha256").hexdigest()[:CODE_LENGTH]


class GuardedBackend(Examiner):
    """Answers chats through another backend."""

    def __init__(self, inner: ChatBackend, guard: Guard, lists: Lists | None = None) -> None:
        """Wrap a backend.

        Args:
            inner: What writes the turns.
            guard: See `Examiner`.
            lists: See `Examiner`.
        """
        super().__init__(guard, lists)
        self.inner = inner

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        return self.inner.models()

    def reply(self, request: ChatRequest) -> GuardedReply:
        """Write the answers; see `guarded`."""
        return self.guarded(request, self.inner.reply(request))


class ConcurrentGuardedBackend(GuardedBackend):
    """Answers many chats at once; text streams as it is written, calls follow once they are decided on."""

    inner: ConcurrentBackend

    def __init__(self, inner: ConcurrentBackend, guard: Guard, lists: Lists | None = None) -> None:
        """Wrap a backend; see `GuardedBackend`."""
        super().__init__(inner, guard, lists)

    def answer(self, request: ChatRequest, caller: Caller) -> GuardedReply:
        """Write the answers; see `ConcurrentBackend`."""
        return self.guarded(request, self.inner.answer(request, caller), caller)


def _consents(messages: Sequence[Message], code: str) -> bool:
    """Whether the user's latest message allows it; an older one was for an older turn."""
    said = next((message.content for message in reversed(messages) if message.role == "user"), "")
    return f"allow {code}" in said
