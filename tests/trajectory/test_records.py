"""The records hold what they promise."""

import pytest
from pydantic import ValidationError

from envace.trajectory import (
    SCHEMA_VERSION,
    ChecklistItem,
    Message,
    Task,
    Tool,
    ToolCall,
    Trajectory,
    compact,
)


def item(id_: str, weight: float, turn: int = 0) -> ChecklistItem:
    return ChecklistItem(id=id_, question="?", weight=weight, turn=turn)


def task(*items: ChecklistItem) -> Task:
    return Task(id="t", world="w", template="x", seed=0, tools=(), messages=(), checklist=items)


def test_checklist_weights_sum_to_one_on_every_turn_that_has_items() -> None:
    assert len(task(item("a", 0.1), item("b", 0.9), item("c", 1.0, turn=3)).checklist) == 3
    with pytest.raises(ValidationError, match="weights of a turn do not sum to 1"):
        task(item("a", 0.5), item("b", 0.5, turn=1))


def test_records_are_immutable_and_strict() -> None:
    call = ToolCall(name="f")
    with pytest.raises(ValidationError, match="frozen"):
        call.name = "g"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ToolCall.model_validate({"name": "f", "args": {}})
    with pytest.raises(ValidationError, match="role"):
        Message.model_validate({"role": "narrator"})


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(ValidationError, match="is newer than 1: upgrade envace"):
        Trajectory(schema_version=SCHEMA_VERSION + 1, id="t", source="world", messages=())


def test_call_text_is_compact_hermes_json() -> None:
    call = ToolCall(name="pay", arguments={"to": "Zoë", "n": [1, None]}, id="c1")
    assert call.text() == '{"name":"pay","arguments":{"to":"Zoë","n":[1,null]}}'
    assert compact({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'


def test_calls_and_user_text_keep_their_order() -> None:
    first, second, third = (ToolCall(name=name) for name in "abc")
    trajectory = Trajectory(
        id="t",
        source="world",
        tools=(Tool(name="a"),),
        messages=(
            Message(role="system", content="state"),
            Message(role="user", content="one"),
            Message(role="assistant", tool_calls=(first, second)),
            Message(role="user", content="two"),
            Message(role="assistant", tool_calls=(third,)),
        ),
    )
    assert trajectory.calls() == [first, second, third]
    assert trajectory.user_text() == "one\ntwo"
