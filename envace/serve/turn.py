"""One assistant turn while it is written: what of it is certain, and where a stop text ends it."""

from collections.abc import Sequence

from envace.chat import Template
from envace.chat.hermes_text import CALL, THINK
from envace.engines import Completion, Sampled
from envace.serve.backend import Delta, FinishReason, TokenLogprob
from envace.trajectory import Message


class Turn:
    """Tokens of a turn, read again as they come."""

    def __init__(
        self, template: Template, number: int, stop: Sequence[str], opening: Sequence[int], logprobs: bool
    ) -> None:
        """Nothing is written yet.

        Args:
            template: Reads the tokens.
            number: Which of the turns it is.
            stop: Texts that end its prose.
            opening: Tokens of a forced call that stand in front.
            logprobs: Whether the caller wants log-probabilities.
        """
        self.template = template
        self.number = number
        self.stop = stop
        self.opening = list(opening)
        self.sampled: list[Sampled] = []
        self._wanted = logprobs
        self._end = min(template.end_ids)
        self._shown = ""
        self._reported = 0
        self._next = 1

    def add(self, sampled: Sampled) -> bool:
        """Take a token; False when a stop text came, which ends the turn."""
        self.sampled.append(sampled)
        return not self.stop or self._cut(self._prose())[1] is False

    def news(self) -> Delta | None:
        """What became certain since the last time, or None."""
        if len(self.sampled) < self._next:
            return None
        # A long turn is read again in steps that grow with it, or reading would cost its square.
        self._next = len(self.sampled) + 1 + len(self.sampled) // 64
        text, _ = self._cut(self._prose())
        text = text[: len(text) - held_back(text, (*self.stop, CALL, THINK))].rstrip("\n")
        if not text.startswith(self._shown):
            text = self._shown
        content, self._shown = text[len(self._shown) :], text
        logprobs = self.logprobs(self._reported) if self._wanted else ()
        if not content:
            return None
        self._reported += len(logprobs)
        return Delta(choice=self.number, content=content, logprobs=logprobs)

    def logprobs(self, start: int = 0) -> tuple[TokenLogprob, ...]:
        """Log-probabilities of the tokens so far, from number `start`."""

        def text(token: int) -> str:
            return self.template.raw([token])

        return tuple(
            TokenLogprob(
                token=text(item.token),
                logprob=item.logprob,
                top=tuple((text(token), value) for token, value in item.alternatives),
            )
            for item in self.sampled[start:]
        )

    def finish(self, stopped: bool, parallel: bool) -> tuple[Message, FinishReason]:
        """The whole turn, and why it ended.

        Args:
            stopped: A marker ended it.
            parallel: Whether it may hold several calls; all but the first are dropped otherwise.
        """
        ids = [*self.opening, *(item.token for item in self.sampled)]
        if self.opening and stopped:
            ids[-1] = self.template.call_end  # what was forced to be a call cannot be an answer
        message = self.template.parse_act(ids)
        content, cut = self._cut(message.content)
        if cut:
            return message.model_copy(update={"content": content, "tool_calls": ()}), "stop"
        if message.tool_calls:
            calls = message.tool_calls if parallel else message.tool_calls[:1]
            return message.model_copy(update={"tool_calls": calls}), "tool_calls"
        return message, "stop" if stopped else "length"

    def _prose(self) -> str:
        """Prose that will stay prose, whatever follows; nothing new once a call or a thought is open."""
        ids = [item.token for item in self.sampled]
        if self.opening or not self.template.is_answer([*ids, self._end]):
            return self._shown
        lines: list[str] = []
        for line in self.template.parse_act([*ids, self._end]).content.split("\n"):
            if line.lstrip().startswith("{"):  # it may come to be a call
                break
            lines.append(line)
        return "\n".join(lines).rstrip("\ufffd")  # half a character

    def _cut(self, text: str) -> tuple[str, bool]:
        """The text up to the first stop text, and whether there was one."""
        found = [at for at in (text.find(mark) for mark in self.stop) if at >= 0]
        return (text[: min(found)], True) if found else (text, False)


def decided_turn(turn: Turn, completion: Completion) -> Turn:
    """The same turn with all tokens of a completion that nobody listened to."""
    alternatives = completion.alternatives or [()] * len(completion.ids)
    turn.sampled = [
        Sampled(*item) for item in zip(completion.ids, completion.logprobs, alternatives, strict=True)
    ]
    return turn


def held_back(text: str, marks: Sequence[str]) -> int:
    """Length of the longest end of `text` that may be the beginning of one of `marks`."""
    return max(
        (size for mark in marks for size in range(1, len(mark)) if text.endswith(mark[:size])), default=0
    )
