"""One rehearsed response beside the response the world really gave: a row of the quality check."""

import json
from typing import Any, Literal

from envace.trajectory.records import Record, Task, Tool, ToolCall


class RehearsedOutput(Record):
    """What the environment role wrote for one held-out call, and how it compares with the world."""

    policy: Literal["warmup", "trained"]
    """Which checkpoint rehearsed."""
    world: str
    """Executable world (or tool server) that gave the actual response."""
    tool: str
    """Tool called."""
    template: str
    """Goal template of the task."""
    task_id: str
    """Task the call belongs to."""
    call: str
    """The call as compact JSON."""
    predicted: str
    """What the model wrote as the response."""
    actual: str
    """What the world returned for the same call in the same state."""
    parses: bool
    """The prediction is a JSON object or list."""
    terminated: bool
    """The model ended the response itself, within its token budget."""
    agrees: bool
    """The prediction equals the actual response exactly (surrounding white space aside)."""
    valid: bool | None
    """The prediction satisfies the schema the tool declares for its responses; None where it
    declares none, or where the world answers with an error (which that schema does not describe)."""
    is_error: bool
    """The actual response is an error object, `{"error": …}`."""


def rehearsed_output(
    policy: Literal["warmup", "trained"],
    task: Task,
    tool: Tool,
    call: ToolCall,
    predicted: str,
    actual: str,
    terminated: bool,
) -> RehearsedOutput:
    """Compare a predicted response with the actual one and fill in every flag of the row."""
    value = _json(predicted)
    truth = _json(actual)
    is_error = isinstance(truth, dict) and "error" in truth
    parses = isinstance(value, dict | list)
    return RehearsedOutput(
        policy=policy,
        world=task.world,
        tool=call.name,
        template=task.template,
        task_id=task.id,
        call=call.text(),
        predicted=predicted,
        actual=actual,
        parses=parses,
        terminated=terminated,
        agrees=predicted.strip() == actual.strip(),
        valid=None if tool.returns is None or is_error else parses and _satisfies(value, tool.returns),
        is_error=is_error,
    )


def _json(text: str) -> Any:
    """The decoded text, or None when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _satisfies(value: Any, schema: dict[str, Any]) -> bool:
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(value))
