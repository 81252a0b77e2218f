"""`show` finds the trajectory asked for and prints all of it, safely."""

import io

import pytest
from rich.console import Console

from envace.errors import EnvaceError
from envace.trajectory import ChecklistItem, Message, Tool, ToolCall, Trajectory, write_records
from envace.trajectory.show import find, render, show


def plain(trajectory: Trajectory, **options) -> str:
    out = io.StringIO()
    render(trajectory, Console(file=out, width=80, **options))
    return out.getvalue()


FULL = Trajectory(
    id="shop-1",
    source="world",
    world="shop",
    tools=(Tool(name="order"),),
    messages=(
        Message(role="user", content="order [red]pens[/red]"),
        Message(
            role="assistant",
            tool_calls=(ToolCall(name="order", arguments={"id": "é", "n": 2}),),
            author="policy",
        ),
        Message(role="tool", content='{"error":"stock"}', name="order", author="world", trainable=False),
        Message(role="tool", content='{"items":[' + ",".join(["1234567"] * 20) + "]}"),
    ),
    reward={"task": 0.5},
    checklist=(ChecklistItem(id="c", question="Was it ordered?"),),
)


def test_everything_is_printed_plain_where_there_is_no_terminal() -> None:
    lines = plain(FULL).splitlines()
    assert lines[:8] == [
        "shop-1  (world, shop)",
        "tools: order",
        "",
        "user",
        "order [red]pens[/red]",
        "",
        "assistant (by policy)",
        '→ order(id="é", n=2)',
    ]
    assert "tool (order, by world, context only)" in lines
    assert '{"error":"stock"}' in lines
    assert "    1234567," in lines
    assert lines[-2:] == ["reward: task 0.5", "  turn 0, weight 1: Was it ordered?"]


def test_a_terminal_gets_color() -> None:
    assert "\x1b[" in plain(FULL, force_terminal=True, color_system="standard")


def test_recorded_control_characters_cannot_drive_the_terminal() -> None:
    evil = Trajectory(
        id="\x1b]0;t\x07", source="x", messages=(Message(role="user", content="a\x1b[2Jb\x9b\r\tc"),)
    )
    out = plain(evil)
    assert "a␛[2Jb\ufffd␍" in out
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\r"}


def test_find_by_index_or_id(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    write_records(path, [FULL.model_copy(update={"id": id_}) for id_ in ("a", "b", "0")])
    assert find(path, 1).id == "b"
    assert find(path, "1").id == "b"
    assert find(path, "0").id == "0"
    assert find(path, 0).id == "a"
    for absent in (3, -1, "z"):
        with pytest.raises(EnvaceError, match=f"no trajectory {absent} among 3"):
            find(path, absent)
    out = io.StringIO()
    show(path, "b", Console(file=out))
    assert out.getvalue().startswith("b  (world, shop)\n")
