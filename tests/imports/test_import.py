"""Recorded conversations come in as they are found in the wild; what cannot is set aside with its line."""

import json

import pytest
from import_samples import TOOL, at, chat, published

from envace.errors import EnvaceError
from envace.filters import filter_files, make_rules
from envace.imports import import_files
from envace.imports.openai_messages import convert
from envace.leakage import EvalItem, LeakageFiles, check_files
from envace.trajectory import Quarantined, ToolCall, iter_records, read_trajectories


def test_a_record_becomes_a_trajectory() -> None:
    trajectory = convert(chat(), at()).record
    assert (trajectory.id, trajectory.source, trajectory.lineage.origin) == (
        "file:7",
        "openai_messages",
        "file.jsonl:7",
    )
    user, asking, response, answer = trajectory.messages
    assert (user.author, asking.author, response.author) == (None, "recorded", "recorded")
    assert asking.content == ""
    assert asking.tool_calls == (ToolCall(name="look", arguments={"at": "sky"}, id="c1"),)
    assert (response.tool_call_id, response.name, response.content) == ("c1", "look", "blue")
    assert answer.content == "It is blue."
    assert trajectory.tools[0].name == "look"


def test_tools_and_calls_may_be_json_strings_and_arguments_objects() -> None:
    flat = {"name": "look", "description": None, "inputSchema": TOOL["function"]["parameters"]}
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}],
        },
        {"role": "user", "content": "look"},
        {"role": "assistant", "tool_calls": json.dumps([{"name": "look", "arguments": {"at": "sea"}}])},
    ]
    record = {"messages": json.dumps(messages), "tools": json.dumps([json.dumps(flat)])}
    trajectory = convert(record, at()).record
    assert (trajectory.messages[0].role, trajectory.messages[0].content) == ("system", "be brief")
    assert trajectory.calls() == [ToolCall(name="look", arguments={"at": "sea"})]
    assert trajectory.tools[0].parameters == TOOL["function"]["parameters"]


def test_reasoning_becomes_a_leading_think_block() -> None:
    answer = {"role": "assistant", "content": "yes", "reasoning_content": " sure? \n"}
    trajectory = convert({"messages": [{"role": "user", "content": "?"}, answer]}, at()).record
    assert trajectory.messages[1].content == "<think>\nsure?\n</think>\n\nyes"


def test_half_an_emoji_is_set_aside_and_a_whole_one_is_kept(tmp_path) -> None:
    texts = [json.dumps(chat(id=id_)).replace("look up", id_) for id_ in ("\\ud83d\\ude00", "\\ud83d")]
    reason = "half a surrogate pair (\\ud8xx), which UTF-8 cannot hold"
    for name, content in (("lines", "\n".join(texts)), ("array", f"[{','.join(texts)}]")):
        source = tmp_path / name
        source.write_text(content, encoding="utf-8")
        counts = import_files("openai_messages", [source], tmp_path / "out", tmp_path / "bad")
        assert dict(counts.reasons) == {f"{reason} (cut the text elsewhere)": 1}
        assert read_trajectories(tmp_path / "out")[0].messages[0].content == "😀"


def test_records_of_an_array_know_their_lines(tmp_path) -> None:
    source = tmp_path / "in.json"
    source.write_text(json.dumps([chat(id="a"), {"messages": 3}, chat(id="a")], indent=1), encoding="utf-8")
    out, quarantine = tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
    counts = import_files("openai_messages", [source], out, quarantine)
    assert (counts.kept, counts.quarantined) == (2, 1)
    lines = source.read_text(encoding="utf-8").splitlines()
    (bad,) = iter_records(quarantine, Quarantined)
    assert lines[bad.line].strip() == '"messages": 3'
    first, second = read_trajectories(out)
    assert first.id == "a"
    assert second.id == f"a@{second.lineage.origin}"
    assert lines[int(second.lineage.origin.rpartition(":")[2]) - 1].strip() == "{"


def test_nothing_imported_is_an_error_that_keeps_the_old_output(tmp_path) -> None:
    source, out, quarantine = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
    source.write_text('{"conversations": []}\n', encoding="utf-8")
    out.write_text("before", encoding="utf-8")
    with pytest.raises(
        EnvaceError, match=r"nothing could be imported, first .*in\.jsonl:1: messages: absent or empty"
    ):
        import_files("openai_messages", [source], out, quarantine)
    assert out.read_text(encoding="utf-8") == "before"
    assert len(list(iter_records(quarantine, Quarantined))) == 1


def test_unknown_formats_and_absent_files_are_named(tmp_path) -> None:
    with pytest.raises(EnvaceError, match=r"unknown format csv .choose from openai_messages"):
        import_files("csv", [], tmp_path / "o", tmp_path / "q")
    with pytest.raises(EnvaceError, match=r"gone\.jsonl: no such file"):
        import_files("openai_messages", [tmp_path / "gone.jsonl"], tmp_path / "o", tmp_path / "q")


def test_the_published_checklist_sample_goes_through_import_filter_and_leakage(tmp_path) -> None:
    sample = published("cm2_checklist_sample.json")
    raw, kept = tmp_path / "raw.jsonl", tmp_path / "kept.jsonl"

    assert import_files("openai_messages", [sample], raw, tmp_path / "bad.jsonl").kept == 1
    (trajectory,) = read_trajectories(raw)
    assert trajectory.id == "fbf37337-8d84-4c39-82b2-b8c3a16d1b83"
    assert trajectory.lineage.origin == f"{sample}:2"
    assert [m.role for m in trajectory.messages] == ["user", "assistant", "tool", "assistant"] + [
        "user",
        "assistant",
    ] * 2
    assert trajectory.messages[2].name == "get_the_last_games_of_a_football_team"
    assert trajectory.messages[2].tool_call_id == "call_mkzQHvNxSraED8TVw37p-Q"
    assert [(item.id, item.turn, item.weight) for item in trajectory.checklist[:2]] == [
        ("t0.C0", 0, 0.25),
        ("t0.C1", 0, 0.2),
    ]
    assert [sum(item.turn == turn for item in trajectory.checklist) for turn in range(3)] == [6, 4, 4]

    assert filter_files([raw], kept, tmp_path / "refused.jsonl", make_rules(), max_loss=0.0).read == 1

    leak = trajectory.messages[4].content.upper()
    files = LeakageFiles(tmp_path / "clean", tmp_path / "leaks", tmp_path / "matches", tmp_path / "metrics")
    result = check_files(kept, [EvalItem(benchmark="planted", id="1", text=leak)], files, "remove")
    assert (result.clean, result.leaking, result.table[0].contaminated) == (0, 1, True)
