"""The guard in front of a chat backend: a turn with a call that is stopped is not returned.

A chat client executes the calls itself, so the guard can only keep them back. It says so in words, in
place of the turn; consent is given in words too, by the user's next message.
"""

import hmac
import secrets
from collections.abc import Sequence

from envace.guard.asking import stopped
from envace.guard.guard import Guard
from envace.guard.rehearsers import Pending
from envace.guard.verdict import Verdict
from envace.guard.which import Lists
from envace.serve.backend import ChatBackend, ChatReply, ChatRequest
from envace.trajectory import Message, ToolCall

CODE_LENGTH = 8
"""Characters of a consent code."""


class GuardedReply(ChatReply):
    """A reply with the verdicts on its guarded calls."""

    verdicts: tuple[Verdict, ...] = ()
    """In the order of the turns and their calls; stopped calls are among them, read-only ones are not."""


class GuardedBackend:
    """Answers chats through another backend."""

    def __init__(self, inner: ChatBackend, guard: Guard, lists: Lists | None = None) -> None:
        """Wrap a backend.

        Args:
            inner: What writes the turns.
            guard: Gives the verdicts.
            lists: Which tools are guarded whatever is said of them. The chat format has no word for
                irreversible tools, so without this only tools that are not on offer are.
        """
        self.inner = inner
        self.guard = guard
        self.lists = lists or Lists()
        self._secret = secrets.token_bytes(16)

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        return self.inner.models()

    def reply(self, request: ChatRequest) -> GuardedReply:
        """Write the answers; see `guarded`."""
        return self.guarded(request, self.inner.reply(request))

    def guarded(self, request: ChatRequest, reply: ChatReply) -> GuardedReply:
        """A finished reply as a client may have it.

        A turn is returned whole or not at all, because a later call may build on the one that was
        stopped.

        Args:
            request: What was asked for.
            reply: What was written.
        """
        messages, reasons, verdicts = list(reply.messages), list(reply.finish_reasons), []
        logprobs = list(reply.logprobs or ())
        for position, message in enumerate(reply.messages):
            examined = self._examine(request, message)
            verdicts += [verdict for verdict, _ in examined]
            if texts := [text for _, text in examined if text]:
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
            "rehearsal_tokens": reply.rehearsal_tokens + sum(verdict.tokens for verdict in verdicts),
        }
        return GuardedReply(**fields, verdicts=tuple(verdicts))

    def _examine(self, request: ChatRequest, turn: Message) -> list[tuple[Verdict, str]]:
        """Verdicts on the guarded calls of a turn, each with the words in its place, none where it passes."""
        tools = {tool.name: tool for tool in request.tools}
        examined = []
        for call in turn.tool_calls:
            if not self.lists.guards(call.name, call.name not in tools or tools[call.name].irreversible):
                continue
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
            examined.append((verdict, text))
        return examined

    def _code(self, call: ToolCall) -> str:
        """Stands for consent to exactly this call; nobody can guess it who was not asked."""
        return hmac.new(self._secret, call.text().encode(), "sha256").hexdigest()[:CODE_LENGTH]


def _consents(messages: Sequence[Message], code: str) -> bool:
    """Whether the user's latest message allows it; an older one was for an older turn."""
    said = next((message.content for message in reversed(messages) if message.role == "user"), "")
    return f"allow {code}" in said
