"""Trajectory files: what is written is read back, faults are named by line, crashes leave no halves."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envace.errors import EnvaceError
from envace.files import atomic_folder, atomic_text, write_json
from envace.trajectory import (
    ChecklistItem,
    Line,
    Lineage,
    Message,
    Outcome,
    Tool,
    ToolCall,
    Trajectory,
    iter_records,
    iter_tolerant,
    read_trajectories,
    write_records,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(text, json_values, max_size=3)
share = st.floats(0, 1)
calls = st.builds(ToolCall, name=text, arguments=objects, id=text)
tools = st.builds(
    Tool,
    name=text,
    description=text,
    parameters=objects,
    returns=st.none() | objects,
    irreversible=st.booleans(),
    outcome=st.none() | st.builds(Outcome, field=text, better=st.sampled_from(["lower", "higher"])),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=text,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=text,
    name=text,
    author=st.sampled_from([None, "policy", "world", "recorded", "simulator"]),
    trainable=st.booleans(),
)
trajectories = st.builds(
    Trajectory,
    id=text,
    source=text,
    world=text,
    tools=st.lists(tools, max_size=2).map(tuple),
    messages=st.lists(messages, max_size=3).map(tuple),
    seed=st.none() | st.integers(),
    reward=st.dictionaries(text, share, max_size=2),
    checklist=st.lists(st.builds(ChecklistItem, id=text, question=text, weight=share), max_size=2).map(tuple),
    lineage=st.builds(Lineage, task_id=text, template=text, names=text, origin=text),
)
one_folder = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def simple(id_: str = "t") -> Trajectory:
    return Trajectory(id=id_, source="world", messages=(Message(role="user", content="hi"),))


@one_folder
@given(batch=st.lists(trajectories, max_size=3))
def test_round_trip(tmp_path, batch) -> None:
    path = tmp_path / "t.jsonl"
    assert write_records(path, batch) == len(batch)
    assert path.read_bytes().count(b"\n") == len(batch)
    assert read_trajectories(path) == batch


def test_lines_carry_the_version_and_leave_defaults_out(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    write_records(path, [simple()])
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "schema_version": 1,
        "id": "t",
        "source": "world",
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("line", "rule", "reason"),
    [
        ("{oops", "json", "Invalid JSON"),
        ('{"id": "t", "source": "world"}', "schema", "messages: Field required"),
        ('{"id": "t", "source": "world", "messages": [{"role": "narrator"}]}', "schema", "messages.0.role: "),
        ('{"id": "t", "source": "world", "messages": [], "reward": {"x": "high"}}', "schema", "reward.x: "),
        ('{"id": "t", "source": "world", "messages": [], "schema_version": 2}', "schema", "is newer than 1"),
        ("[1, 2]", "schema", "Input should be an object"),
    ],
)
def test_a_bad_line_is_named_by_line_or_set_aside_whole(tmp_path, line, rule, reason) -> None:
    path = tmp_path / "t.jsonl"
    good = simple().model_dump_json()
    path.write_text(f"{good}\n\n{line}\n{good}\n", encoding="utf-8")

    with pytest.raises(EnvaceError) as caught:
        read_trajectories(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)

    first, bad, last = iter_tolerant(path)
    assert isinstance(first, Line) and isinstance(last, Line) and not isinstance(bad, Line)
    assert (first.number, last.number, first.trajectory, last.text) == (1, 4, simple(), good)
    assert (bad.file, bad.line, bad.rule, bad.record) == (str(path), 3, rule, line)
    assert reason in bad.reason


def test_reading_streams_up_to_the_bad_line(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{simple('a').model_dump_json()}\nnonsense\n", encoding="utf-8")
    records = iter_records(path, Trajectory)
    assert next(records).id == "a"
    with pytest.raises(EnvaceError, match=r"t\.jsonl:2: "):
        next(records)


def test_other_encodings_and_absent_files_are_named(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(simple().model_dump_json().encode() + b"\n\xff\xfe\n")
    with pytest.raises(EnvaceError, match=r"t\.jsonl:2: not UTF-8"):
        read_trajectories(path)
    with pytest.raises(EnvaceError, match=r"gone\.jsonl: no such file"):
        read_trajectories(tmp_path / "gone.jsonl")


def failing():
    yield simple("new")
    raise RuntimeError("planted crash")


def test_a_crash_while_writing_leaves_the_old_file_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "t.jsonl"
    write_records(path, [simple("old")])
    with pytest.raises(RuntimeError, match="planted"):
        write_records(path, failing())
    assert [trajectory.id for trajectory in read_trajectories(path)] == ["old"]
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_file_appears_only_when_it_is_whole(tmp_path) -> None:
    path = tmp_path / "deep" / "t.txt"
    with atomic_text(path) as handle:
        handle.write("half")
        handle.flush()
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "half"


def test_a_crash_in_a_folder_leaves_the_old_folder(tmp_path) -> None:
    folder = tmp_path / "model"
    with atomic_folder(folder) as new:
        (new / "weights").write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError), atomic_folder(folder) as new:
        (new / "weights").write_text("new", encoding="utf-8")
        raise RuntimeError
    assert (folder / "weights").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_json_that_cannot_be_encoded_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "m.json"
    write_json(path, {"a": "é"})
    with pytest.raises(TypeError):
        write_json(path, {"a": 1, "b": object()})
    assert path.read_text(encoding="utf-8") == '{\n "a": "é"\n}\n'


def test_half_an_emoji_is_replaced_and_the_file_stays_readable(tmp_path):
    half = Trajectory(id="a", source="x", messages=(Message(role="user", content="ok \ud83d"),))
    write_records(tmp_path / "t.jsonl", [half])
    assert read_trajectories(tmp_path / "t.jsonl")[0].messages[0].content == "ok \ufffd"
