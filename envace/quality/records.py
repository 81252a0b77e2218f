"""One rehearsed response beside the response the world really gave: a row of the quality check."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from envace.quality.measures import measured
from envace.quality.rehearsal import Rehearsal, is_error, satisfies
from envace.trajectory.records import Message, Record, Task, Tool, ToolCall


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
    checks: dict[str, bool] = Field(default_factory=dict)
    """Verdict of every measure of `envace.quality.measures.MEASURES` that applies."""


def rehearsed_output(
    policy: Literal["warmup", "trained"],
    task: Task,
    tool: Tool,
    call: ToolCall,
    predicted: str,
    actual: str,
    terminated: bool,
    history: Sequence[Message] = (),
) -> RehearsedOutput:
    """Compare a predicted response with the actual one and fill in every flag of the row.

    Args:
        policy: Who rehearsed.
        task: Task the call belongs to.
        tool: The tool called.
        call: The call.
        predicted: What the model wrote.
        actual: What the world returned.
        terminated: The model ended the response itself.
        history: All that was said before the call; the task's prompt when empty.
    """
    row = Rehearsal(task.world, tool, call, history or task.messages, predicted, actual)
    refused = is_error(row.truth)
    parses = isinstance(row.value, dict | list)
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
        valid=None if tool.returns is None or refused else parses and satisfies(row.value, tool.returns),
        is_error=refused,
        checks=measured(row),
    )
