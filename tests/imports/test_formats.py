"""Every published format gives the calls, arguments, responses, tools and checklist items it holds."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from import_samples import CALL, PARAMETERS, TOOL, at, chat, published, write_lines
from pyarrow import parquet

from envace.imports import FORMATS, import_files, original_name
from envace.imports.conversation import Imported
from envace.imports.mcp_tools import ToolServer
from envace.trajectory import ToolCall, Trajectory, iter_records, read_trajectories

SKY = ToolCall(name="look", arguments={"at": "sky"})
SEA = ToolCall(name="look", arguments={"at": "sea"})


def read(format: str, record: Any) -> Imported[Any]:
    return FORMATS[format](record, at(format))


def story(trajectory: Trajectory) -> list[tuple]:
    """Roles with what was said or called."""
    return [
        (m.role, *([m.content] if m.content else []), *m.tool_calls, *([m.name] if m.name else []))
        for m in trajectory.messages
    ]


STORY = [
    ("system", "be brief"),
    ("user", "look"),
    ("assistant", "I look.", SKY, SEA),
    ("tool", "blue", "look"),
    ("tool", "green", "look"),
    ("assistant", "Blue and green."),
]


def test_sharegpt_writes_calls_and_responses_as_turns() -> None:
    turns = [
        ("human", "look"),
        ("gpt", "I look."),
        ("function_call", '{"name": "look", "arguments": {"at": "sky"}}'),
        ("function_call", "[{'name': 'look', 'arguments': {'at': 'sea'}}]"),
        ("observation", "blue"),
        ("observation", "green"),
        ("gpt", "Blue and green."),
    ]
    record = {
        "conversations": [{"from": speaker, "value": text} for speaker, text in turns],
        "tools": json.dumps([TOOL["function"]]),
        "system": "be brief",
    }
    for format in ("sharegpt", "apigen_mt"):
        imported = read(format, record)
        assert story(imported.record) == STORY
        assert (imported.record.source, imported.record.id) == (format, "file:7")
        assert imported.record.tools[0].parameters == PARAMETERS
        assert imported.repairs == ()


def test_hermes_writes_them_in_tags_and_the_tools_in_the_system_turn() -> None:
    system = f"You call functions within <tools></tools> tags:\n<tools>\n{json.dumps(TOOL)}\n</tools>"
    call = "I look.\n<tool_call>\n{'name': 'look', 'arguments': {'at': 'sky'}}\n</tool_call>\n"
    turns = [
        ("system", system),
        ("human", "look"),
        ("gpt", call + '<tool_call>{"name": "look", "arguments": {"at": "sea"}}</tool_call>'),
        ("tool", "<tool_response>\nblue\n</tool_response>\n<tool_response>\ngreen\n</tool_response>"),
        ("gpt", "Blue and green."),
    ]
    record = {"id": "h1", "conversations": [{"from": speaker, "value": text} for speaker, text in turns]}
    imported = read("hermes", record)
    assert story(imported.record) == [("system", system), *STORY[1:]]
    assert (imported.record.id, imported.record.tools[0].name) == ("h1", "look")


def test_toucan_writes_calls_as_python_or_as_function_call() -> None:
    def turn(role: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": content} | more

    messages = [
        turn("system", "be brief"),
        turn("user", "look"),
        turn("assistant", "I look."),
        turn("tool_call", "{'name': 'look', 'arguments': '{\"at\": \"sky\"}'}"),
        turn("tool_call", "{'name': 'look', 'arguments': '{\"at\": \"sea\"}'}"),
        turn("tool_response", "blue"),
        turn("tool_response", "green"),
        turn("assistant", "Blue and green."),
    ]
    record = {"uuid": "t1", "messages": json.dumps(messages), "tools": json.dumps([TOOL])}
    imported = read("toucan", record)
    assert (story(imported.record), imported.record.id, imported.repairs) == (STORY, "t1", ())

    function_call = {"name": "look", "arguments": '{"at": "sky"}'}
    messages = [
        turn("user", "look"),
        turn("assistant", "", function_call=function_call),
        turn("function", "blue", name="look"),
    ]
    record = {"messages": json.dumps(messages), "available_tools": json.dumps([TOOL])}
    trajectory = read("toucan", record).record
    assert story(trajectory) == [("user", "look"), ("assistant", SKY), ("tool", "blue", "look")]
    assert len(trajectory.tools) == 1


def test_xlam_has_python_types_and_no_responses() -> None:
    parameters = {
        "at": {"description": "where", "type": "str"},
        "eyes": {"description": "how many", "type": "int, optional", "default": 2},
        "days": {"description": "when", "type": "List[int]", "default": ""},
    }
    tools = [{"name": "look", "description": "Look somewhere.", "parameters": parameters}]
    answers = [{"name": "look", "arguments": {"at": "sky"}}]
    record = {"id": 3, "query": "look", "answers": json.dumps(answers), "tools": json.dumps(tools)}
    imported = read("xlam", record)
    assert story(imported.record) == [("user", "look"), ("assistant", SKY)]
    assert imported.record.id == "3"
    assert imported.record.tools[0].parameters == {
        "type": "object",
        "properties": {
            "at": {"description": "where", "type": "string"},
            "eyes": {"description": "how many", "type": "integer", "default": 2},
            "days": {
                "description": "when",
                "type": "array",
                "items": {"type": "integer"},
                "default": "",
            },
        },
        "required": ["at"],
    }


def test_nemotron_has_its_tools_in_the_metadata() -> None:
    record = {"uuid": "n1", "messages": chat()["messages"], "metadata": json.dumps({"tools": [TOOL]})}
    imported = read("nemotron", record)
    assert imported.record.id == "n1"
    assert imported.record.tools[0].parameters == PARAMETERS
    assert imported.record.calls() == [SKY.model_copy(update={"id": "c1"})]


def test_calls_and_responses_follow_a_tool_whose_name_had_to_change() -> None:
    record = json.loads(json.dumps(chat()).replace('"look"', '"eye.look"'))
    imported = read("openai_messages", record)
    (tool,) = imported.record.tools
    assert (tool.name, original_name(tool)) == ("eye_look", "eye.look")
    assert imported.record.messages[1].tool_calls[0].name == "eye_look"
    assert imported.record.messages[2].name == "eye_look"
    assert imported.repairs == ("tool_name",)


def test_cm2_in_parquet_is_cm2_in_json(tmp_path) -> None:
    item = {"id": "C0", "question": "?", "weight": 1.0, "focus_on": "tool.content", "pass_condition": "yes"}
    half = item | {"weight": 0.5}
    flat = chat(uuid="u1", checklists=[[[item], [half, half | {"id": "C1"}]]])
    extra = {
        "original_index": 5,
        "tools": json.dumps(flat["tools"]),
        "messages": flat["messages"],
        "interaction_kwargs": {"checklist_list": flat["checklists"]},
    }
    row = {"messages": flat["messages"][:1], "extra_info": extra}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "in.parquet")
    write_lines(tmp_path / "in.jsonl", flat)
    found = {}
    for name in ("in.parquet", "in.jsonl"):
        import_files("cm2", [tmp_path / name], tmp_path / "out", tmp_path / "aside")
        (found[name],) = read_trajectories(tmp_path / "out")
    table, lines = found["in.parquet"], found["in.jsonl"]
    assert (table.id, lines.id) == ("cm2-5", "u1")
    assert (table.messages, table.tools, table.checklist) == (lines.messages, lines.tools, lines.checklist)
    assert [(item.id, item.turn, item.weight) for item in table.checklist] == [
        ("t0.C0", 0, 1.0),
        ("t1.C0", 1, 0.5),
        ("t1.C1", 1, 0.5),
    ]
    assert table.lineage.origin == f"{tmp_path / 'in.parquet'}:1"


def imported_file(format: str, source: Path, tmp_path: Path) -> list[Trajectory]:
    counts = import_files(format, [source], tmp_path / "out.jsonl", tmp_path / "aside.jsonl")
    assert counts.quarantined == 0
    return read_trajectories(tmp_path / "out.jsonl")


def recorded_calls(sample: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Name, arguments and id of the calls as the sample holds them."""
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]), call["id"])
        for message in sample["messages"]
        for call in message.get("tool_calls") or []
    ]


def same_as_recorded(trajectory: Trajectory, sample: dict[str, Any]) -> None:
    assert [(call.name, call.arguments, call.id) for call in trajectory.calls()] == recorded_calls(sample)
    responses = [turn for turn in trajectory.messages if turn.role == "tool"]
    recorded = [message for message in sample["messages"] if message["role"] == "tool"]
    assert [turn.content for turn in responses] == [message["content"] for message in recorded]
    for turn, message in zip(responses, recorded, strict=True):
        assert turn.tool_call_id == message.get("tool_call_id", turn.tool_call_id) != ""


def test_the_six_published_finmcp_samples(tmp_path) -> None:
    source = published("finmcp_demo_infer.json")
    samples = json.loads(source.read_text(encoding="utf-8"))
    trajectories = imported_file("finmcp", source, tmp_path)
    assert [trajectory.id for trajectory in trajectories] == ["1", "2", "201", "202", "602", "603"]
    for trajectory, sample in zip(trajectories, samples, strict=True):
        same_as_recorded(trajectory, sample)
        named = [
            name for entry in sample["tool_list"] for name in ([entry] if isinstance(entry, str) else entry)
        ]
        assert [tool.name for tool in trajectory.tools] == list(dict.fromkeys(named))
        assert {call.name for call in trajectory.calls()} <= set(named)
    assert samples[-1]["messages"][-1]["content"] == "###STOP###"  # asks nothing
    assert trajectories[-1].messages[-1].role == "assistant"
    metrics = json.loads((tmp_path / "out.metrics.json").read_text(encoding="utf-8"))
    assert metrics["repairs"] == {"parameters_missing": 15, "stop_mark": 1, "tool_description": 15}


def test_the_published_checklist_sample(tmp_path) -> None:
    source = published("cm2_checklist_sample.json")
    (sample,) = json.loads(source.read_text(encoding="utf-8"))
    (trajectory,) = imported_file("cm2", source, tmp_path)
    same_as_recorded(trajectory, sample)
    (tool,), (published_tool,) = trajectory.tools, sample["tools"]
    assert tool.model_dump(include={"name", "description", "parameters"}) == published_tool["function"]
    items = [(turn, item) for turn, items in enumerate(sample["checklists"][0]) for item in items]
    assert [(i.turn, i.question, i.weight, i.focus_on, i.pass_condition) for i in trajectory.checklist] == [
        (turn, item["question"], item["weight"], item["focus_on"], item["pass_condition"])
        for turn, item in items
    ]


def test_tool_lists_of_servers_in_every_wrapping(tmp_path) -> None:
    tool = {"name": "look", "description": "Look somewhere.", "inputSchema": PARAMETERS}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}
    (tmp_path / "answer.json").write_text(json.dumps(answer, indent=2), encoding="utf-8")
    write_lines(tmp_path / "bare.jsonl", {"tools": [tool]}, {"server": "eye", "label": "Senses", "tools": []})
    paths = [tmp_path / "answer.json", tmp_path / "bare.jsonl"]
    counts = import_files("mcp_tools", paths, tmp_path / "out", tmp_path / "aside")
    servers = list(iter_records(tmp_path / "out", ToolServer))
    assert [(server.server, server.label, len(server.tools)) for server in servers] == [
        ("answer:1", "", 1),
        ("bare:1", "", 1),
        ("eye", "Senses", 0),
    ]
    assert servers[0].tools == servers[1].tools
    assert servers[0].tools[0].parameters == PARAMETERS
    assert (counts.kept, counts.repairs) == (3, {})


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_says_where_it_comes_from(format) -> None:
    module = __import__(FORMATS[format].__module__, fromlist=["__doc__"])
    assert "Origin:" in module.__doc__


def test_a_call_of_an_unknown_shape_keeps_its_id() -> None:
    record = {"messages": [{"role": "assistant", "tool_calls": [CALL | {"id": 7}]}]}
    assert read("openai_messages", record).record.calls()[0].id == "7"
