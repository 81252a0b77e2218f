"""The memory: what private rehearsals found, as text for the act role.

One line a distinct rehearsed call, with the predicted response, best first. The rule
needs only what tools declare (`Outcome`): refusals last, then by the declared number.
"""

import json
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
    """The first call of the list: what a reader that only follows the rule would commit."""
    predictions: dict[str, str]
    """Predicted response by call text (majority over rehearsals)."""


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
    useful = [text for text in ranked if rank(predictions[text], outcomes.get(calls[text].name))[0] == 0]
    return Memory(
        message=Message(role="system", name="memory", content="\n".join(lines), author="policy"),
        best=calls[useful[0]] if useful else None,
        predictions=predictions,
    )


def rank(response: str, outcome: Outcome | None) -> tuple[int, float]:
    """Sort key of a predicted response: usable ones first, then by the declared outcome."""
    try:
        value = json.loads(response)
    except ValueError:
        return 2, 0.0
    if not isinstance(value, dict) or "error" in value:
        return 1, 0.0
    if outcome is None:
        return 0, 0.0
    number = value.get(outcome.field)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return 1, 0.0
    return 0, float(number if outcome.better == "lower" else -number)
