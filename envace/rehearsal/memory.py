"""The memory: what private rehearsals found, as text for the act role.

One line a distinct rehearsed call, with the predicted response, best first. The rule
needs only what tools declare (`Outcome`): refusals last, then by the declared number.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envace.trajectory import Message, Outcome, Tool, ToolCall


@dataclass(frozen=True)
class Rehearsed:
    """One rehearsed call."""

    call: ToolCall
    """The call imagined."""
    response: str
    """The response that the environment role predicted."""


@dataclass(frozen=True)
class Memory:
    """A summary of rehearsals."""

    message: Message
    """The text, as a system message named `memory`, to put after the prompt."""
    best: ToolCall | None
    """What a reader that only follows the rule would commit: the first usable call of the list,
    of an irreversible tool where there is one, because a mere quote decides nothing."""
    predictions: dict[str, str]
    """Predicted response by call text (majority over rehearsals)."""

    @property
    def notes(self) -> tuple[Message, ...]:
        """What goes into the prompt: nothing at all when nothing was predicted."""
        return (self.message,) if self.predictions else ()


def memory_message(rehearsed: Sequence[Rehearsed], tools: Sequence[Tool]) -> Memory:
    """Summarize rehearsals: a majority response for each distinct call, best first."""
    votes: dict[str, Counter[str]] = {}
    calls: dict[str, ToolCall] = {}
    for item in rehearsed:
        text = item.call.text()
        calls[text] = item.call
        votes.setdefault(text, Counter())[item.response] += 1
    # Ties fall to the response seen first, so the order of rehearsals is all that matters.
    predictions = {text: count.most_common(1)[0][0] for text, count in votes.items()}
    outcomes = {tool.name: tool.outcome for tool in tools}
    ranked = sorted(
        predictions, key=lambda text: (rank(predictions[text], outcomes.get(calls[text].name)), text)
    )
    lines = [f"{text} {predictions[text]}" for text in ranked]
    final = {tool.name for tool in tools if tool.irreversible} or set(outcomes)
    useful = [
        text
        for text in ranked
        if calls[text].name in final and rank(predictions[text], outcomes[calls[text].name])[0] == 0
    ]
    return Memory(
        message=Message(role="system", name="memory", content="\n".join(lines), author="policy"),
        best=calls[useful[0]] if useful else None,
        predictions=predictions,
    )


def rank(response: str, outcome: Outcome | None) -> tuple[int, float]:
    """Sort key of a predicted response: usable ones first, then by the declared outcome."""
    try:
        value = json.loads(response)
    except (ValueError, RecursionError):
        return 2, 0.0
    if not isinstance(value, dict) or "error" in value:
        return 1, 0.0
    if outcome is None:
        return 0, 0.0
    number = value.get(outcome.field)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return 1, 0.0
    try:
        value = float(number)
    except OverflowError:
        return 1, 0.0
    if not math.isfinite(value):
        return 1, 0.0
    return 0, value if outcome.better == "lower" else -value
