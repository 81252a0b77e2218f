"""Nothing is lost in the funnel: counts add up, reasons are kept, files are whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.errors import EnvaceError
from envace.filters import FILTERS, filter_files, make_rules, run_funnel
from envace.filters.duplicates import content_hash
from envace.trajectory import Message, ToolCall, Trajectory, read_trajectories, write_records
from envace.trajectory.jsonl import Quarantined, iter_records


def talk(text: str, answer: str = "ok", id_: str = "t") -> Trajectory:
    return Trajectory(
        id=id_,
        source="world",
        messages=(Message(role="user", content=text), Message(role="assistant", content=answer)),
    )


messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=st.sampled_from(["", "a", "b", "<think>a</think>b", "</think>"]),
    tool_calls=st.sampled_from([(), (), (ToolCall(name="f"),)]),
)
trajectories = st.builds(
    Trajectory, id=st.just("t"), source=st.just("world"), messages=st.lists(messages, max_size=4).map(tuple)
)


@given(st.lists(trajectories, max_size=12))
def test_what_comes_in_is_kept_or_quarantined(batch) -> None:
    result = run_funnel(batch, make_rules())
    assert result.read == len(batch) == len(result.kept) + len(result.quarantined)
    entering = len(batch)
    for count in result.rules.values():
        assert count.entered == entering
        assert len(count.examples) == min(3, count.refused)
        entering -= count.refused
    assert entering == len(result.kept)
    restored = [Trajectory.model_validate_json(record.record) for record in result.quarantined]
    assert sorted(t.model_dump_json() for t in [*result.kept, *restored]) == sorted(
        t.model_dump_json() for t in batch
    )


@given(st.lists(trajectories, max_size=12))
def test_what_was_kept_passes_again(batch) -> None:
    kept = run_funnel(batch, make_rules()).kept
    assert run_funnel(kept, make_rules()).quarantined == []


def test_only_the_first_of_identical_conversations_is_kept() -> None:
    result = run_funnel([talk("a", id_="1"), talk("b", id_="2"), talk("a ", id_="3")], make_rules())
    assert [trajectory.id for trajectory in result.kept] == ["1", "2"]
    assert result.quarantined[0].reason == "same content as 1"


def test_the_content_hash_sees_arguments_but_not_their_order() -> None:
    def calling(arguments: dict) -> Trajectory:
        turn = Message(role="assistant", tool_calls=(ToolCall(name="f", arguments=arguments, id="x"),))
        return Trajectory(id="t", source="world", messages=(turn,))

    assert content_hash(calling({"a": 1, "b": 2})) == content_hash(calling({"b": 2, "a": 1}))
    assert content_hash(calling({"a": 1})) != content_hash(calling({"a": 2}))


def test_length_limits_are_inclusive() -> None:
    two_turns = talk("aaa", "bb")
    calls = Message(role="assistant", tool_calls=(ToolCall(name="f"), ToolCall(name="g")))
    parallel = Trajectory(id="t", source="world", messages=(calls,))
    assert FILTERS["length"](max_messages=2, max_characters=5)(two_turns) is None
    assert FILTERS["length"](max_messages=1)(two_turns) == "2 messages, limit 1"
    assert FILTERS["length"](max_characters=4)(two_turns) == "5 characters, limit 4"
    assert FILTERS["length"](max_parallel_calls=1)(parallel) == "2 calls in one turn, limit 1"


def test_rules_are_chosen_by_name_and_run_in_registry_order() -> None:
    assert list(make_rules({"duplicates": None, "roles": {}})) == ["roles", "duplicates"]
    with pytest.raises(EnvaceError, match=r"unknown filter nonsense.*choose from roles"):
        make_rules({"nonsense": {}})
    with pytest.raises(EnvaceError, match=r"filter length: .*max_words"):
        make_rules({"length": {"max_words": 3}})


def test_files_keep_line_numbers_across_blank_and_broken_lines(tmp_path) -> None:
    good, bad = talk("a").model_dump_json(), talk("b", answer="").model_dump_json()
    source = tmp_path / "in.jsonl"
    source.write_text(f'{good}\n\n{{"id": 1}}\n{{oops\n{bad}\n', encoding="utf-8")
    out, quarantine = tmp_path / "out.jsonl", tmp_path / "bad.jsonl"

    result = filter_files([source], out, quarantine, make_rules(), max_loss=0.8)

    assert [t.messages[0].content for t in read_trajectories(out)] == ["a"]
    found = list(iter_records(quarantine, Quarantined))
    assert [(q.line, q.rule) for q in found] == [(3, "schema"), (4, "json"), (5, "empty")]
    assert all(q.file == str(source) for q in found)
    assert found[1].record == "{oops"
    metrics = json.loads(json.dumps(result.metrics()))
    assert (metrics["read"], metrics["kept"], metrics["quarantined"]) == (4, 1, 3)
    assert metrics["rules"]["json"]["entered"] == 4
    assert metrics["rules"]["schema"]["entered"] == 3
    assert metrics["rules"]["roles"]["entered"] == 2
    assert metrics["rules"]["empty"]["examples"] == [
        {"where": f"{source}:5", "reason": "message 1: empty assistant turn"}
    ]


def test_too_high_a_loss_fails_in_one_line_and_leaves_the_old_output(tmp_path) -> None:
    source, out, quarantine = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
    write_records(source, [talk("a"), talk("b", answer="")])
    out.write_text("before", encoding="utf-8")
    with pytest.raises(EnvaceError) as caught:
        filter_files([source], out, quarantine, make_rules(), max_loss=0.49)
    assert "set aside 1 of 2 trajectories (50.0%, allowed 49.0%), most by empty" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert out.read_text(encoding="utf-8") == "before"
    assert len(list(iter_records(quarantine, Quarantined))) == 1
    filter_files([source], out, quarantine, make_rules(), max_loss=0.5)
    assert len(read_trajectories(out)) == 1
