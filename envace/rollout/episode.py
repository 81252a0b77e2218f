"""Episodes: what a policy wrote for one task, parsed once."""

from dataclasses import dataclass

from envace.chat import CompactTemplate, Span, TokenRole, TokenStream
from envace.engines import Completion
from envace.trajectory import Message, Task, ToolCall


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
    notes: tuple[Message, ...]
    """Private memory put after the prompt; empty without rehearsal."""
    prompt: tuple[int, ...]
    """Prompt tokens, memory included."""
    sampled: tuple[int, ...]
    """Sampled tokens of both roles, in order."""
    logprobs: tuple[float, ...]
    """Log-probability of each sampled token at sampling time."""
    spans: tuple[Span, ...]
    """Role spans of the sampled tokens; tokens after the last span are ignored."""
    calls: tuple[ToolCall, ...]
    """Calls in order."""
    responses: tuple[str, ...]
    """Response to each call, as the environment role (or the world) wrote it."""
    answer: str | None
    """Final answer, None when the episode was cut or malformed."""

    def stream(self) -> TokenStream:
        """Prompt and sampled tokens with their roles, up to the last parsed span."""
        stream = TokenStream()
        stream.add(list(self.prompt), TokenRole.CONTEXT)
        for span in self.spans:
            stream.add(list(self.sampled[span.start : span.stop]), span.role)
        return stream

    def rows(self) -> tuple[Row, ...]:
        """The rows to train on: in the inline layout both roles share one."""
        stream = self.stream()
        sampled = self.logprobs[: len(stream) - len(self.prompt)]
        return (Row(stream, (0.0,) * len(self.prompt) + sampled),)


def parse_episode(
    template: CompactTemplate,
    task: Task,
    notes: tuple[Message, ...],
    prompt: list[int],
    completion: Completion,
) -> Episode:
    """Parse a rehearsed episode; anything malformed ends it without an answer."""
    spans = template.spans(completion.ids)
    calls: list[ToolCall] = []
    responses: list[str] = []
    answer: str | None = None
    for span in spans:
        ids = completion.ids[span.start : span.stop]
        if span.role is TokenRole.ENV:
            responses += template.decode(ids).split("\n") if span.marker is not None else []
        elif span.marker == template.call_end:
            turn = template.parse_act(ids).tool_calls
            if not turn:
                break
            calls += turn
        elif span.marker in template.end_ids:
            answer = template.decode(ids)
        if len(responses) != len(calls) and span.role is TokenRole.ENV:
            answer = None
            break
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
    )
