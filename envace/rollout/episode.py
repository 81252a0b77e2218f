"""Episodes: what was written for one task, parsed once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from envace.chat import SeamlessTemplate, Span, TokenRole, TokenStream
from envace.engines import Completion
from envace.trajectory import Message, Task, ToolCall

Notes = tuple[Message, ...]
"""Private messages put after a task's prompt."""


@dataclass(frozen=True)
class Limits:
    """Caps of one episode; running into one marks it as cut."""

    turns: int = 8
    """Act turns; 1 stops after the first response."""
    calls: int = 20
    """Parallel calls in one act turn; a turn with more is not answered at all."""
    tokens: int | None = None
    """Tokens of the stream, prompt included; None leaves it to the sampling limit."""


class Cut(StrEnum):
    """The cap that ended an episode."""

    TURNS = "turns"
    CALLS = "calls"
    TOKENS = "tokens"


@dataclass(frozen=True)
class Row:
    """One token stream to train on; an episode is one row where turns extend the prefix."""

    stream: TokenStream
    """Context and sampled tokens with their roles."""
    logprobs: tuple[float, ...]
    """Log-probability at sampling time of each token of the stream; 0 where it was not sampled."""


@dataclass(frozen=True)
class Episode:
    """One finished roll-out."""

    task: Task
    """The task attempted."""
    notes: Notes
    """Private memory put after the prompt; empty without rehearsal."""
    prompt: tuple[int, ...]
    """Prompt tokens, memory included; behind a fork, the context of what followed it."""
    sampled: tuple[int, ...]
    """Tokens behind the prompt, of both roles and in order, bridges included."""
    logprobs: tuple[float, ...]
    """Log-probability of each of them at sampling time; 0 where the policy did not sample it."""
    spans: tuple[Span, ...]
    """Role spans of the sampled tokens; tokens after the last span are ignored."""
    calls: tuple[ToolCall, ...]
    """Calls in order."""
    responses: tuple[str, ...]
    """Response to each call, whoever wrote it; a last one may be missing."""
    answer: str | None
    """Final answer, None when the episode was cut or malformed."""
    cut: Cut | None = None
    """The cap that ended it; None when it came to its own end, be it a fault."""
    forks: tuple[Row, ...] = ()
    """Rows beside the main one: act turns in front of a fork of the prefix, and responses that the
    policy wrote in conversations of their own."""

    @property
    def fault(self) -> str:
        """Why there is no answer, in two words; empty when there is one."""
        if self.answer is not None:
            return ""
        return f"{self.cut} limit" if self.cut else "no answer"

    def stream(self) -> TokenStream:
        """Prompt and sampled tokens with their roles, up to the last parsed span."""
        stream = TokenStream()
        stream.add(list(self.prompt), TokenRole.CONTEXT)
        for span in self.spans:
            stream.add(list(self.sampled[span.start : span.stop]), span.role)
        return stream

    def rows(self) -> tuple[Row, ...]:
        """The rows to train on: one, where both roles share it and nothing forks the prefix.

        Each token the policy sampled has its role in exactly one row and is context elsewhere.
        """
        stream = self.stream()
        sampled = self.logprobs[: len(stream) - len(self.prompt)]
        return (*self.forks, Row(stream, (0.0,) * len(self.prompt) + sampled))

    def tokens(self, role: TokenRole) -> int:
        """Tokens that the policy wrote in a role."""
        return sum(row.stream.roles.count(int(role)) for row in self.rows())


def cut_counts(episodes: Sequence[Episode]) -> dict[str, int]:
    """How many episodes each cap ended, for the log: a cut episode must not pass as a mere failure."""
    found = Counter(episode.cut for episode in episodes)
    return {f"cut_{cut}": found[cut] for cut in Cut}


def parse_episode(
    template: SeamlessTemplate,
    task: Task,
    notes: Notes,
    prompt: list[int],
    completion: Completion,
    limits: Limits | None = None,
) -> Episode:
    """Parse an episode that was rehearsed in one generation.

    A fault ends it without an answer, and so does a limit; tokens behind either belong to no span.
    """
    limits = limits or Limits()
    spans: list[Span] = []
    calls: list[ToolCall] = []
    responses: list[str] = []
    answer: str | None = None
    cut: Cut | None = None
    turns = 0
    for span in template.spans(completion.ids):
        spans.append(span)
        ids = completion.ids[span.start : span.stop]
        if span.marker is None:
            cut = None if ids[-1] in template.act_stop_ids | template.environment_stop_ids else Cut.TOKENS
            break
        if span.role is TokenRole.ENV:
            responses.append(template.response_text(ids))
            if len(responses) == len(calls) and turns == limits.turns:
                cut = Cut.TURNS
                break
        elif span.marker in template.end_ids:
            answer = template.parse_act(ids).content
        else:
            turn = template.parse_act(ids).tool_calls
            turns += 1
            if not turn:
                break
            if len(turn) > limits.calls:
                cut = Cut.CALLS
                break
            calls += turn
    else:
        if answer is None and not completion.stopped:
            cut = Cut.TOKENS
    return Episode(
        task=task,
        notes=notes,
        prompt=tuple(prompt),
        sampled=tuple(completion.ids),
        logprobs=tuple(completion.logprobs),
        spans=tuple(spans),
        calls=tuple(calls),
        responses=tuple(responses),
        answer=answer,
        cut=cut,
    )
