"""Each structural rule refuses its planted fault, by message, and lets sound conversations pass."""

import pytest

from envace.filters import structure
from envace.trajectory import Message, Tool, ToolCall, Trajectory


def conversation(*turns: tuple[str, str] | Message, tools: tuple[Tool, ...] = ()) -> Trajectory:
    messages = [
        turn if isinstance(turn, Message) else Message(role=turn[0], content=turn[1]) for turn in turns
    ]
    return Trajectory(id="t", source="world", tools=tools, messages=tuple(messages))


def calling(*names: str, ids: tuple[str, ...] = ()) -> Message:
    padded = ids or ("",) * len(names)
    return Message(
        role="assistant",
        tool_calls=tuple(ToolCall(name=name, id=id_) for name, id_ in zip(names, padded, strict=True)),
    )


SOUND = conversation(
    ("system", "state"),
    ("user", "go"),
    Message(role="system", name="memory", content="rehearsed"),
    calling("a", "b"),
    ("tool", "1"),
    ("tool", "2"),
    ("assistant", "<think>\nhm\n</think>\n\ndone"),
    ("user", "more"),
    ("assistant", "sure"),
)


@pytest.mark.parametrize("rule", [structure.roles, structure.pairing, structure.empty, structure.think])
def test_a_sound_conversation_passes(rule) -> None:
    assert rule(SOUND) is None


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([("assistant", "hi")], "message 0: assistant turn after start"),
        ([("user", "a"), ("user", "b")], "message 1: user turn after user"),
        ([("user", "a"), ("assistant", "b"), ("system", "c")], "message 2: system turn after assistant"),
        ([("user", "a"), calling("f"), ("tool", "1"), ("user", "b")], "message 3: user turn after tool"),
        ([("system", "s"), ("user", "a")], "ends with user: nothing was answered"),
    ],
)
def test_roles(turns, reason) -> None:
    assert structure.roles(conversation(*turns)) == reason


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([("user", "a"), ("tool", "1")], "message 1: a response to no call"),
        ([calling("f"), ("tool", "1"), ("tool", "2")], "message 2: a response to no call"),
        (
            [calling("f", "g"), ("tool", "1"), ("assistant", "x")],
            "message 2: 1 call(s) before it have no response",
        ),
        ([calling("f", "g"), ("tool", "1")], "ends with 1 call(s) without a response"),
        (
            [
                calling("f", "g", ids=("1", "2")),
                Message(role="tool", content="r", tool_call_id="2"),
                Message(role="tool", content="r", tool_call_id="1"),
            ],
            "message 1: answers call 2 where 1 is next",
        ),
        (
            [calling("f"), Message(role="tool", content="r", name="g")],
            "message 1: response of g where f was called",
        ),
        ([Message(role="user", tool_calls=(ToolCall(name="f"),))], "message 0: calls in a user turn"),
    ],
)
def test_pairing(turns, reason) -> None:
    assert structure.pairing(conversation(*turns)) == reason


def test_a_memory_between_call_and_response_breaks_the_pair() -> None:
    memory = Message(role="system", name="memory", content="m")
    broken = conversation(("user", "a"), calling("f"), memory, ("tool", "1"))
    assert structure.pairing(broken) == "message 2: 1 call(s) before it have no response"


def test_duplicate_tool_names() -> None:
    twice = conversation(("user", "a"), tools=(Tool(name="b"), Tool(name="a"), Tool(name="b")))
    assert structure.tool_names(twice) == "duplicate tool name b"


@pytest.mark.parametrize("content", ["", " \n", "<think>only a thought</think>\n"])
def test_empty(content) -> None:
    assert (
        structure.empty(conversation(("user", "a"), ("assistant", content)))
        == "message 1: empty assistant turn"
    )


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("assistant", "fine </think> and so"),
        ("assistant", "<think>never closed"),
        ("assistant", "<think>a</think> b <THINK>c</THINK>"),
        ("assistant", "first text <think>late</think>"),
        ("tool", "<think>a</think>{}"),
        ("user", "<think>a</think>"),
    ],
)
def test_leaked_think_tags(role, content) -> None:
    assert (
        structure.think(conversation((role, content))) == f"message 0: think tag in the visible {role} text"
    )
