"""Recorded conversations come in as they are found in the wild; what cannot is set aside with its line."""

import json
import os
from pathlib import Path

import pytest

from envace.errors import EnvaceError
from envace.filters import filter_files, make_rules
from envace.imports import import_files
from envace.imports.openai_messages import convert
from envace.leakage import EvalItem, LeakageFiles, check_files
from envace.trajectory import Quarantined, ToolCall, iter_records, read_trajectories, write_records

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


def chat(**fields) -> dict:
    messages = [
        {"role": "user", "content": "look up"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "blue"},
        {"role": "assistant", "content": "It is blue."},
    ]
    return {"messages": messages, "tools": [TOOL]} | fields


def test_a_record_becomes_a_trajectory() -> None:
    trajectory = convert(chat(), "file:7", "file.jsonl:7")
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
    trajectory = convert(
        {"messages": json.dumps(messages), "tools": json.dumps([json.dumps(flat)])}, "x", "x"
    )
    assert (trajectory.messages[0].role, trajectory.messages[0].content) == ("system", "be brief")
    assert trajectory.calls() == [ToolCall(name="look", arguments={"at": "sea"})]
    assert trajectory.tools[0].parameters == TOOL["function"]["parameters"]


def test_reasoning_becomes_a_leading_think_block() -> None:
    answer = {"role": "assistant", "content": "yes", "reasoning_content": " sure? \n"}
    trajectory = convert({"messages": [{"role": "user", "content": "?"}, answer]}, "x", "x")
    assert trajectory.messages[1].content == "<think>\nsure?\n</think>\n\nyes"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([], "a record is an object, not list"),
        ({}, "messages: absent or empty"),
        ({"messages": [{"role": "narrator"}]}, "messages[0]: role 'narrator', not one of"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content: only text",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{oops"}]}]},
            "messages[0].tool_calls[0].arguments: not JSON",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[1]"}]}]},
            "messages[0].tool_calls[0].arguments: an object, not list",
        ),
        (chat(tools=[{"type": "function", "function": {}}]), "tools[0]: no name"),
        (
            chat(checklists=[[[{"id": "C0", "weight": 0.5}]]]),
            "checklists: the weights of a turn do not sum to 1",
        ),
        (chat(checklists=[[[{"id": "C0", "weight": {}}]]]), "weight: Input should be a valid number"),
    ],
)
def test_a_bad_record_goes_to_quarantine_with_its_line(tmp_path, record, reason) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f"{json.dumps(chat())}\n\n{json.dumps(record)}\n{{oops\n", encoding="utf-8")
    out, quarantine = tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
    counts = import_files("openai_messages", [source], out, quarantine)
    assert (counts.kept, counts.quarantined) == (1, 2)
    assert sum(counts.reasons.values()) == 2
    refused, broken = iter_records(quarantine, Quarantined)
    assert (refused.file, refused.line, refused.rule) == (str(source), 3, "import")
    assert reason in refused.reason
    assert json.loads(refused.record) == record
    assert (broken.line, broken.rule, broken.record) == (4, "json", "{oops")
    assert len(read_trajectories(out)) == 1


def test_half_an_emoji_is_set_aside_and_a_whole_one_is_kept(tmp_path) -> None:
    texts = [json.dumps(chat(id=id_)).replace("look up", id_) for id_ in ("\\ud83d\\ude00", "\\ud83d")]
    for name, content in (("lines", "\n".join(texts)), ("array", f"[{','.join(texts)}]")):
        source = tmp_path / name
        source.write_text(content, encoding="utf-8")
        counts = import_files("openai_messages", [source], tmp_path / "out", tmp_path / "bad")
        assert dict(counts.reasons) == {"half a surrogate pair (\\ud8xx), which UTF-8 cannot hold": 1}
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


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ('[{"a": 1},\n {"a": }]', 2, "not JSON"),
        ('[\n{"a": 1} {"a": 2}]', 2, "has no , or ]"),
        ("[", 1, "not JSON"),
    ],
)
def test_a_broken_array_is_an_error_with_its_line(tmp_path, text, place, what) -> None:
    source = tmp_path / "in.json"
    source.write_text(text, encoding="utf-8")
    with pytest.raises(EnvaceError) as caught:
        import_files("openai_messages", [source], tmp_path / "out.jsonl", tmp_path / "bad.jsonl")
    assert str(caught.value).startswith(f"{source}:{place}: ")
    assert what in str(caught.value)
    assert not (tmp_path / "out.jsonl").exists()


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
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared"))
    sample = shared / "data/cm2_checklist_sample.json"
    if not sample.is_file():
        pytest.skip("data/cm2_checklist_sample.json is absent")
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

    items = tmp_path / "items.jsonl"
    leak = trajectory.messages[4].content.upper()
    write_records(items, [EvalItem(benchmark="planted", id="1", text=leak)])
    files = LeakageFiles(tmp_path / "clean", tmp_path / "leaks", tmp_path / "matches", tmp_path / "metrics")
    result = check_files(kept, [items], files, "remove")
    assert (result.clean, result.leaking, result.table[0].contaminated) == ([], 1, True)
