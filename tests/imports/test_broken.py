"""Broken input of many kinds: each is set aside with its line and the mend, and the rest goes on."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from import_samples import CALL, TOOL, chat
from pyarrow import parquet

from envace.errors import EnvaceError
from envace.imports import import_files
from envace.trajectory import Quarantined, iter_records

# A format and a record that it can import.
OPENAI, CM2, NEMOTRON = (("openai_messages", chat()), ("cm2", chat()), ("nemotron", chat()))
XLAM = ("xlam", {"query": "?", "answers": "[]", "tools": "[]"})
MCP = ("mcp_tools", {"server": "s", "tools": [{"name": "look", "inputSchema": {"type": "object"}}]})
SHAREGPT = ("sharegpt", {"conversations": [{"from": "human", "value": "?"}]})
HERMES = ("hermes", SHAREGPT[1])
TOUCAN = ("toucan", {"messages": json.dumps([{"role": "user", "content": "?"}])})


def said(**message: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", **message}]}


def called(**function: Any) -> dict[str, Any]:
    return said(tool_calls=[{"function": function}])


def weighted(weight: Any) -> dict[str, Any]:
    return chat(checklists=[[[{"id": "C0", "weight": weight}]]])


def told(speaker: str, text: str) -> dict[str, Any]:
    return {"conversations": [{"from": speaker, "value": text}]}


def with_schema(schema: Any) -> dict[str, Any]:
    return chat(tools=[{"name": "f", "description": "", "parameters": schema}])


def doubling(times: int) -> dict[str, Any]:
    """A schema of a few lines that is 2 ** times parts long once its references are written out."""
    step = {f"d{n}": {"prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": step | {f"d{times}": {}}}


# One line between two good ones; text stands as it is.
LINES: dict[str, tuple[str, dict, Any, str]] = {
    "cut line": (*OPENAI, '{"messages": [{"role":', "not JSON: Expecting value"),
    "no JSON": (*OPENAI, "2024-05-01 INFO call", "not JSON: Extra data"),
    "NaN": (*OPENAI, '{"messages": NaN}', "not JSON: NaN is no number"),
    "no UTF-8": (*OPENAI, b'{"messages": "caf\xe9"}', "not UTF-8"),
    "half a surrogate": (*OPENAI, '{"id": "\\ud83d"}', "half a surrogate pair"),
    "too deep": (*OPENAI, '{"a":' * 200_000, "nested too deeply"),
    "no object": (*OPENAI, [1], "a record: an object, not list"),
    "no messages": (*OPENAI, {"conversations": []}, "messages: absent or empty"),
    "messages a number": (*OPENAI, {"messages": 3}, "messages: a list, not int"),
    "message a text": (*OPENAI, {"messages": ["hi"]}, "messages[0]: not JSON"),
    "unknown role": (*OPENAI, {"messages": [{"role": "narrator"}]}, "role 'narrator', not one"),
    "an image": (*OPENAI, said(content=[{"type": "image_url"}]), "content: only text"),
    "broken arguments": (*OPENAI, called(name="f", arguments="{oops"), "arguments: not JSON"),
    "half a surrogate in arguments": (
        *OPENAI,
        called(name="f", arguments='{"a": "\\ud83d"}'),
        "half a surrogate pair",
    ),
    "arguments a list": (*OPENAI, called(name="f", arguments="[1]"), "arguments: an object, not list"),
    "call without name": (*OPENAI, called(arguments={}), "tool_calls[0]: no name"),
    "tool without name": (*OPENAI, chat(tools=[{"type": "function", "function": {}}]), "tools[0]: no name"),
    "tools a number": (*OPENAI, chat(tools=7), "tools: a list, not int"),
    "schema that explodes": (*OPENAI, with_schema(doubling(40)), "a schema of more than 10000 parts"),
    "weights": (*CM2, weighted(0.5), "do not sum to 1"),
    "weight no number": (*CM2, weighted({}), "weight: Input should be a valid"),
    "broken extra_info": (*CM2, chat(extra_info="{"), "extra_info: not JSON"),
    "unknown speaker": (*SHAREGPT, told("god", ""), "turn 0: role 'god', not one of"),
    "broken call in a tag": (*HERMES, told("gpt", "<tool_call>oops"), "turn 0: call: not JSON"),
    "call that is code": (
        *TOUCAN,
        {"messages": [{"role": "tool_call", "content": "{'name': open('x')}"}]},
        "not JSON",
    ),
    "no query": (*XLAM, XLAM[1] | {"query": " "}, "query: absent or empty"),
    "broken metadata": (*NEMOTRON, chat(metadata="{"), "metadata: not JSON"),
    "server without tools": (*MCP, {"server": "s"}, "tools: absent"),
    "broken tool schema": (
        *MCP,
        {"tools": [{"name": "f", "inputSchema": "{"}]},
        "tools[0]: parameters: not JSON",
    ),
}


def checked(source: Path, format: str, kept: int, reason: str, tmp_path: Path) -> Quarantined:
    """The one record that an import of `source` sets aside, after a look at its counts."""
    out, quarantine = tmp_path / "out.jsonl", tmp_path / "aside.jsonl"
    counts = import_files(format, [source], out, quarantine)
    assert (counts.kept, counts.quarantined, sum(counts.reasons.values())) == (kept, 1, 1)
    assert len(out.read_text(encoding="utf-8").splitlines()) == kept
    (aside,) = iter_records(quarantine, Quarantined)
    assert counts.first == {aside.reason: f"{source}:{aside.line}"}
    assert reason in aside.reason
    assert aside.reason.endswith(")") and "\n" not in aside.reason  # the mend
    metrics = json.loads((tmp_path / "out.metrics.json").read_text(encoding="utf-8"))
    assert (metrics["kept"], metrics["quarantined"], metrics["reasons"]) == (kept, 1, {aside.reason: 1})
    return aside


@pytest.mark.parametrize(("format", "good", "broken", "reason"), LINES.values(), ids=LINES)
def test_a_broken_line_is_set_aside(tmp_path, format, good, broken, reason) -> None:
    if not isinstance(broken, str | bytes):
        broken = json.dumps(broken)
    raw = broken if isinstance(broken, bytes) else broken.encode()
    source = tmp_path / "in.jsonl"
    line = json.dumps(good).encode()
    source.write_bytes(b"\n".join([line, b"", raw, line]))
    aside = checked(source, format, 2, reason, tmp_path)
    assert (aside.file, aside.line) == (str(source), 3)
    assert aside.record == raw.decode(errors="backslashreplace")  # whole


GOOD = json.dumps(chat(), indent=1)
HEIGHT = GOOD.count("\n") + 1
ARRAYS = {
    "broken element": (
        f'[\n{GOOD},\n{{"a": }},\n{GOOD}\n]',
        2 + HEIGHT,
        '{"a": }',
        "not JSON: Expecting value",
    ),
    "wrong bracket": (f'[\n{GOOD},\n{{"a": [1}},\n{GOOD}]]', 2 + HEIGHT, None, "not JSON"),
    "no comma": (f"[\n{GOOD},{GOOD},\n1 2]", 1 + 2 * HEIGHT, "1 2", "not JSON: Extra data"),
    "no element": (f"[\n{GOOD},\n,\n{GOOD}]", 2 + HEIGHT, ",", "an element is missing"),
    "cut inside": (
        f"[{GOOD},{GOOD},\n{GOOD[:-40]}",
        2 * HEIGHT,
        GOOD[:-40],
        "the file ends inside",
    ),
    "cut in a text": (f"[{GOOD},{GOOD},\n" + '{"a": "[{', 2 * HEIGHT, '{"a": "[{', "the file ends inside"),
    "cut between": (f"[{GOOD},{GOOD},", 2 * HEIGHT - 1, "", "the array has no ]"),
    "text behind": (f"[{GOOD},{GOOD}]\n\nbye", 2 * HEIGHT + 1, "bye", "text after the array"),
}


@pytest.mark.parametrize(("text", "line", "record", "reason"), ARRAYS.values(), ids=ARRAYS)
def test_a_broken_array_gives_what_is_whole(tmp_path, text, line, record, reason) -> None:
    source = tmp_path / "in.json"
    source.write_text(text, encoding="utf-8")
    kept = 1 if record is None else 2
    aside = checked(source, "openai_messages", kept, reason, tmp_path)
    assert aside.line == line
    assert record is None or aside.record == record


def test_a_broken_value_among_others_over_several_lines(tmp_path) -> None:
    source = tmp_path / "in.json"
    source.write_text(f'{GOOD}\n{{"messages":\n}}\n{GOOD}\n', encoding="utf-8")
    assert checked(source, "openai_messages", 2, "not JSON: Expecting value", tmp_path).line == HEIGHT + 1


def test_a_spoiled_row_group_costs_its_rows_alone(tmp_path) -> None:
    source, out, quarantine = (tmp_path / name for name in ("in.parquet", "out.jsonl", "aside.jsonl"))
    table = pyarrow.Table.from_pylist([{"messages": json.dumps(chat()["messages"])}] * 6)
    parquet.write_table(table, source, row_group_size=2, compression="none", use_dictionary=False)
    with source.open("r+b") as handle:
        handle.seek(parquet.ParquetFile(source).metadata.row_group(1).column(0).data_page_offset)
        handle.write(b"\xff" * 40)
    counts = import_files("openai_messages", [source], out, quarantine)
    assert (counts.kept, counts.quarantined) == (4, 2)
    aside = list(iter_records(quarantine, Quarantined))
    assert [(record.file, record.line) for record in aside] == [(str(source), 3), (str(source), 4)]
    assert aside[0].reason.startswith("row group 1 cannot be read on: ")
    assert aside[0].reason.endswith("(download the file again)")


def test_a_parquet_row_that_is_no_record_is_set_aside_with_its_row(tmp_path) -> None:
    good = {"messages": json.dumps(chat()["messages"]), "tools": json.dumps([TOOL])}
    broken = {"messages": json.dumps([{"role": "assistant", "tool_calls": [CALL | {"function": 3}]}])}
    source = tmp_path / "in.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([good, broken, good]), source)
    aside = checked(source, "openai_messages", 2, "tool_calls[0]: an object, not int", tmp_path)
    assert (aside.line, json.loads(aside.record)) == (2, broken | {"tools": None})


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("in.parquet", b"PAR1 cut off", "no readable parquet file"),
        ("in.jsonl", None, "no such file"),
    ],
)
def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path, name, content, reason) -> None:
    source, out = tmp_path / name, tmp_path / "out.jsonl"
    out.write_text("before", encoding="utf-8")
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(EnvaceError) as caught:
        import_files("cm2", [source], out, tmp_path / "aside.jsonl")
    assert caught.value.message.startswith(f"{source}: {reason}") and caught.value.mend
    assert out.read_text(encoding="utf-8") == "before"
