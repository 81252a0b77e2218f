"""Nothing is lost in the funnel: counts add up, reasons are kept, files are whole."""

import json
import subprocess
import sys

import pytest
from filter_samples import run, talk
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import PEAK

from envace.errors import EnvaceError
from envace.filters import DEFAULT, FILTERS, filter_files, make_rules, parse_rules
from envace.filters.duplicates import content_hash
from envace.filters.plot import funnel_plot
from envace.trajectory import Message, ToolCall, Trajectory, read_trajectories, write_records
from envace.trajectory.jsonl import Quarantined, iter_records

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
    kept, quarantined, result = run(batch, make_rules())
    assert result.read == len(batch) == len(kept) + len(quarantined)
    assert (result.kept, result.quarantined) == (len(kept), len(quarantined))
    entering = len(batch)
    for count in result.rules.values():
        assert count.entered == entering
        assert len(count.examples) == min(3, count.refused)
        entering -= count.refused
    assert entering == len(kept)
    restored = [Trajectory.model_validate_json(record.record) for record in quarantined]
    assert sorted(t.model_dump_json() for t in [*kept, *restored]) == sorted(
        t.model_dump_json() for t in batch
    )


@given(st.lists(trajectories, max_size=12))
def test_what_was_kept_passes_again(batch) -> None:
    kept, _, _ = run(batch, make_rules())
    assert run(kept, make_rules())[1] == []


def test_only_the_first_of_identical_conversations_is_kept() -> None:
    kept, quarantined, _ = run([talk("a", id_="1"), talk("b", id_="2"), talk("a ", id_="3")], make_rules())
    assert [trajectory.id for trajectory in kept] == ["1", "2"]
    assert quarantined[0].reason == "same content as 1"


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


def test_lines_that_are_kept_stay_as_they_are(tmp_path) -> None:
    line = '{"source": "log",  "id": "a", "messages": [{"content": "h\\u00e9", "role": "user"}, '
    line += '{"role": "assistant", "content": "ok"}]}'
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"{line}\n", encoding="utf-8")
    filter_files([source], out, tmp_path / "bad.jsonl", make_rules())
    assert out.read_text(encoding="utf-8") == f"{line}\n"


def test_the_default_rules_need_no_knowledge_of_the_data() -> None:
    assert set(DEFAULT) < set(FILTERS)
    assert list(make_rules()) == [name for name in FILTERS if name in DEFAULT]


def test_rules_are_written_on_a_command_line() -> None:
    assert parse_rules("roles, language: {allowed: [de, en]}") == {
        "roles": None,
        "language": {"allowed": ["de", "en"]},
    }
    assert parse_rules("") == {}
    for wrong in ("length: 3", "length: {", "- length"):
        with pytest.raises(EnvaceError, match=r"cannot be read \(write NAME, NAME: \{OPTION: VALUE\}"):
            parse_rules(wrong)


def test_the_funnel_is_drawn_alike_for_equal_counts(tmp_path) -> None:
    batch = [talk("a"), talk("b", answer=""), talk("b", answer="")]
    _, _, result = run(batch, make_rules())
    for name in ("one.svg", "two.svg"):
        funnel_plot(result, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "1  (−2)" in drawn and all(name in drawn for name in result.rules)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path) -> None:
    lines = [talk(f"question {n}", id_=str(n)).model_dump_json() + "\n" for n in range(1000)]
    peaks = []
    for times in (20, 200):
        (tmp_path / "in.jsonl").write_text("".join(lines) * times, encoding="utf-8")
        script = PEAK + (
            "import pathlib; from envace.filters import *; "
            "filter_files([pathlib.Path('in.jsonl')], pathlib.Path('out.jsonl'), pathlib.Path('bad.jsonl'), "
            "make_rules()); print(peak())"
        )
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 10 * 1024  # KiB
