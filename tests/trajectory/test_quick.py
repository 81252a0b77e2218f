"""Lines read the quick way are what the slow way reads, and refused for the same reasons."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_jsonl import simple, trajectories

from envace.trajectory import Message, Quarantined, Tool, Trajectory
from envace.trajectory.jsonl import parse_line, record_line
from envace.trajectory.quick import read_line


def same(line: str) -> Trajectory | Quarantined:
    """Read both ways, compare every field, and return what was read."""
    slow, quick = parse_line("f", 7, line), read_line("f", 7, line)
    if isinstance(slow, Quarantined):
        assert quick == slow
    else:
        compare(slow.trajectory, quick)
    return quick


def compare(slow, quick) -> None:
    for name in type(slow).model_fields:
        ours, theirs = getattr(slow, name), getattr(quick, name)
        if name in ("messages", "tool_calls", "tools", "checklist"):
            assert len(ours) == len(theirs)
            for a, b in zip(ours, theirs, strict=True):
                compare(a, b)
        elif name in ("lineage", "outcome") and ours is not None:
            compare(ours, theirs)
        else:
            assert (ours, type(ours)) == (theirs, type(theirs)), name


@settings(deadline=None, max_examples=60)
@given(trajectories, st.integers(0, 4000), st.sampled_from(["", " ", "}", '"', "1", "null", "é", "[{"]))
def test_whole_and_damaged_lines(trajectory, place, stuck_in) -> None:
    line = record_line(trajectory)[:-1]
    assert not isinstance(same(line), Quarantined)
    same(trajectory.model_dump_json())
    place %= len(line)
    same(line[:place] + stuck_in + line[place:])
    same(line[:place] + stuck_in + line[place + 1 :])


GOOD = json.loads(record_line(simple()))


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"seed": "1"},
        {"seed": 1.0},
        {"seed": 10**30},
        {"seed": True},
        {"id": 1},
        {"id": None},
        {"extra": 1},
        {"reward": {"a": 1}},
        {"reward": {"a": "0.5"}},
        {"messages": None},
        {"messages": {}},
        {"messages": [{"role": "critic"}]},
        {"messages": [{"role": "user", "content": ["a"]}]},
        {"messages": [{"role": "user", "trainable": "yes"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "a", "arguments": []}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "a", "arguments": {"x": [1.5, None]}}]}]},
        {"tools": [{"description": "nameless"}]},
        {"tools": [{"name": "a", "parameters": "{}"}]},
        {"tools": [{"name": "a", "outcome": {"field": "f", "better": "faster"}}]},
        {"checklist": [{"id": "a", "question": "q", "weight": -1}]},
        {"checklist": [{"id": "a", "question": "q", "turn": -1}]},
        {"lineage": None},
    ],
    ids=str,
)
def test_odd_fields(changes) -> None:
    same(json.dumps(GOOD | changes))


@pytest.mark.parametrize(
    "line",
    ["", "[]", "null", "{}", "NaN", "{oops", json.dumps(GOOD) + " x", '{"id": "\\ud800"}',
     json.dumps(GOOD | {"reward": {"a": float("nan")}}).replace("NaN", "Infinity")],
)  # fmt: skip
def test_odd_lines(line) -> None:
    same(line)


def test_equal_tools_are_one_object() -> None:
    tool = Tool(name="pay", parameters={"type": "object"})
    lines = [simple(id_).model_copy(update={"tools": (tool,)}).model_dump_json() for id_ in "ab"]
    first, second = (read_line("f", 1, line) for line in lines)
    assert first.tools == (tool,) and first.tools[0] is second.tools[0]
    assert first.messages[0].role == Message(role="user").role
