"""An episode under way: the stream so far, and the calls that wait for a response."""

from collections.abc import Sequence

from envace.chat import Span, Template, TokenRole
from envace.rollout.episode import Cut, Episode, Notes, Row
from envace.trajectory import Message, Task, ToolCall


class OpenEpisode:
    """Grows token by token, never re-tokenized; only `close` makes an `Episode` of it."""

    def __init__(self, index: int, template: Template, task: Task, notes: Notes) -> None:
        """Start at the prompt.

        Args:
            index: Position among the prompts; responders may keep state by it.
            template: Chat template of the stream.
            task: The task.
            notes: Private messages after the prompt.
        """
        self.index = index
        self.task = task
        self.notes = notes
        self.prompt = template.render((*task.messages, *notes), task.tools).ids
        """What the current row stands on."""
        self.sampled: list[int] = []
        """Tokens behind it: sampled ones, bridges and foreign responses."""
        self.logprobs: list[float] = []
        """Log-probability of each; 0 where the policy did not sample it."""
        self.spans: list[Span] = []
        """Who wrote them."""
        self.forks: list[Row] = []
        """Rows that are finished."""
        self.messages: list[Message] = list(task.messages)
        """The conversation before the latest act turn, then that turn's responses so far; no notes."""
        self.calls: list[ToolCall] = []
        """All calls so far."""
        self.responses: list[str] = []
        """All responses so far."""
        self.turn: tuple[ToolCall, ...] = ()
        """Calls of the latest act turn."""
        self.turn_ids: list[int] = []
        """That turn as it was sampled."""
        self.position = 0
        """Which of its calls waits for a response."""
        self.answer: str | None = None
        """The final answer, once it is there."""
        self.cut: Cut | None = None
        """The cap that ended the episode."""
        self.over = False
        """Nothing more is to come."""

    @property
    def context(self) -> list[int]:
        """Exactly what the next role continues."""
        return self.prompt + self.sampled

    @property
    def last(self) -> int:
        """The last token."""
        return (self.sampled or self.prompt)[-1]

    @property
    def call(self) -> ToolCall:
        """The call that waits for a response."""
        return self.turn[self.position]

    @property
    def more(self) -> bool:
        """True when calls of the same turn wait behind it."""
        return self.position + 1 < len(self.turn)

    def fits(self, tokens: int, limit: int | None) -> bool:
        """True when so many more tokens stay within the limit."""
        return limit is None or len(self.prompt) + len(self.sampled) + tokens <= limit

    def write(
        self,
        ids: Sequence[int],
        role: TokenRole,
        logprobs: Sequence[float] = (),
        marker: int | None = None,
    ) -> None:
        """Append a span; tokens that the policy did not sample have no log-probabilities."""
        if ids:
            start = len(self.sampled)
            self.sampled += ids
            self.logprobs += logprobs or [0.0] * len(ids)
            self.spans.append(Span(role, start, len(self.sampled), marker))

    def fork(self, context: list[int]) -> None:
        """Go on from another context: what was written so far becomes a row of its own."""
        if context == self.context:
            return
        self.forks.append(self.close().rows()[-1])
        self.prompt, self.sampled, self.logprobs, self.spans = context, [], [], []

    def end(self, cut: Cut | None = None) -> None:
        """Stop here: by a cap, or by a fault or an answer."""
        self.over, self.cut = True, cut

    def close(self) -> Episode:
        """The episode so far."""
        return Episode(
            task=self.task,
            notes=self.notes,
            prompt=tuple(self.prompt),
            sampled=tuple(self.sampled),
            logprobs=tuple(self.logprobs),
            spans=tuple(self.spans),
            calls=tuple(self.calls),
            responses=tuple(self.responses),
            answer=self.answer,
            cut=self.cut,
            forks=tuple(self.forks),
        )
