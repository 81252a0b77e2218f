"""A rule on size: real caps, in units that need no tokenizer."""

from envace.filters.funnel import Rule
from envace.trajectory import Trajectory


def length(max_messages: int = 200, max_characters: int = 200_000, max_parallel_calls: int = 20) -> Rule:
    """A rule that refuses conversations too long to train on.

    Args:
        max_messages: Most turns, system turn included.
        max_characters: Most characters of text and call arguments together.
        max_parallel_calls: Most calls in one assistant turn.
    """

    def rule(trajectory: Trajectory) -> str | None:
        if len(trajectory.messages) > max_messages:
            return f"{len(trajectory.messages)} messages, limit {max_messages}"
        most = max((len(message.tool_calls) for message in trajectory.messages), default=0)
        if most > max_parallel_calls:
            return f"{most} calls in one turn, limit {max_parallel_calls}"
        characters = sum(len(message.content) for message in trajectory.messages)
        characters += sum(len(call.text()) for call in trajectory.calls())
        if characters > max_characters:
            return f"{characters} characters, limit {max_characters}"
        return None

    return rule
