"""A rule on responses: what a tool answers fits the schema that the tool declares."""

import json
from collections import deque

from envace.filters.calls import SchemaCache
from envace.filters.funnel import Rule
from envace.trajectory import ToolCall, Trajectory


def results() -> Rule:
    """A rule that refuses responses that break the declared schema of their tool.

    Objects with an `error` are refusals, which no schema of a result describes.
    """
    cache = SchemaCache()

    def rule(trajectory: Trajectory) -> str | None:
        declared = {tool.name: tool.returns for tool in trajectory.tools if tool.returns is not None}
        waiting: deque[ToolCall] = deque()
        for number, message in enumerate(trajectory.messages if declared else ()):
            waiting.extend(message.tool_calls)
            if message.role != "tool" or not waiting:
                continue
            name = waiting.popleft().name
            if name not in declared:
                continue
            try:
                value = json.loads(message.content)
            except (ValueError, RecursionError):
                return f"message {number}: response of {name}: not JSON, which its schema describes"
            problem = None
            if not (isinstance(value, dict) and "error" in value):
                problem = cache.problem(declared[name], value)
            if problem:
                return f"message {number}: response of {name}: {problem}"
        return None

    return rule
