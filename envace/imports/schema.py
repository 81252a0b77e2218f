"""Tools as they are published (OpenAI functions, MCP tools, bare names) as records, each repair named."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from envace.imports.decode import as_object, decoded, unreadable
from envace.imports.parameters import normalize_parameters
from envace.trajectory import Tool, compact

REPAIRS = {
    "tool_description": "a tool without a description: it gets an empty one",
    "tool_name": "a name that chat APIs refuse or that is taken: changed, the published one in $comment",
    "tool_duplicate": "a tool listed twice, word for word: listed once",
    "parameters_missing": "no parameters at all: an object without properties",
    "parameters_wrapped": "arguments listed without a schema around them: wrapped into an object",
    "properties_missing": "an object schema without properties: it gets none",
    "not_an_object": "parameters that are no object: an object without properties, the original in $comment",
    "not_a_schema": "something else in place of a schema: read as a type name or a description",
    "required_missing": "an object without a list of required arguments: it gets an empty one",
    "required_invalid": "required is no list of distinct names: made one",
    "required_flag": "an argument that says itself whether it is required: its object says so",
    "description": "an argument without a description in words: it gets one, often empty",
    "type_missing": "an argument without a type: inferred, or a list of all types",
    "type_name": "a type name of another language: that of JSON schema, or quoted in the description",
    "type_list": "a list of types that is none, has one, or repeats: mended",
    "any_of": "anyOf of one, of bare types, or of something and null: a list of types",
    "one_of": "oneOf of one, of bare types, or of something and null: a list of types",
    "all_of": "allOf of one schema: that schema",
    "ref": "a reference: what it refers to in its place",
    "ref_recursive": "a reference to what it is inside of: cut, named in $comment",
    "ref_unresolved": "a reference to nothing in the schema: cut, named in $comment",
    "definitions": "definitions, once written out: left out",
    "dialect": "ways of older drafts and identifiers: draft 2020-12's",
    "null_keyword": "a keyword or argument filled with null, as tables do: left out",
    "stop_mark": "a simulated user's closing ###STOP###, which asks nothing: left out",
    "keyword": "a keyword whose value JSON schema refuses: left out",
}
"""Kinds of repair, and what each does."""

MAX_NAME = 64
"""Characters of a tool name, as chat APIs allow them."""

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_PARAMETERS = ("parameters", "inputSchema", "input_schema", "arguments")
_COMMENT = "original name: "


def normalize(value: Any, what: str = "tool") -> tuple[Tool, tuple[str, ...]]:
    """One published tool as a record, and the kinds of repairs made, one entry a repair.

    Args:
        value: A tool of OpenAI's form (with or without `function` around it), of MCP's (`inputSchema`,
            `outputSchema`, `annotations`), a bare name, or any of these as JSON in a string.
        what: How an error names the tool.

    Returns:
        The tool, whose parameters are a valid JSON schema in the form of `imports.parameters`, and the
        repairs; normalizing the result again changes nothing.

    Raises:
        ValueError: It has no name, or its schema is beyond repair.
    """
    if isinstance(value, str) and value.strip()[:1] not in ("{", "["):
        value = {"name": value.strip()}
    tool = as_object(value, what)
    try:
        return _normalize(compact(tool))
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


@lru_cache(maxsize=1024)
def _normalize(text: str) -> tuple[Tool, tuple[str, ...]]:
    """A data set repeats a few hundred tools in every line: each is repaired once."""
    tool = json.loads(text)
    function = as_object(tool.get("function") or tool, "function")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise unreadable("no name", "give every tool one")
    repairs = []
    description = function.get("description")
    if not isinstance(description, str):
        repairs.append("tool_description")
        description = "" if description is None else compact(description)
    schema = next((function[key] for key in _PARAMETERS if function.get(key) is not None), None)
    parameters, found = normalize_parameters(decoded(schema, "parameters"))
    spelled = _ODD.sub("_", name).strip("_")[:MAX_NAME] or "tool"
    if _ODD.search(name) or len(name) > MAX_NAME:
        repairs.append("tool_name")
        name, parameters = spelled, _commented(parameters, name)
    hints = function.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    returns = function.get("outputSchema") or function.get("returns")
    if returns is not None:
        returns, more = normalize_parameters(returns)
        found += more
    record = Tool(
        name=name,
        description=description,
        parameters=parameters,
        returns=returns,
        irreversible=function.get("irreversible") is True
        or (hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True),
    )
    return record, (*repairs, *found)


def _commented(parameters: dict[str, Any], name: str) -> dict[str, Any]:
    former = f"\n{parameters['$comment']}" if "$comment" in parameters else ""
    return parameters | {"$comment": f"{_COMMENT}{json.dumps(name, ensure_ascii=False)}{former}"}


def original_name(tool: Tool) -> str:
    """The name under which a tool was published, which may differ from the one it was imported with."""
    comment = str(tool.parameters.get("$comment", ""))
    if not comment.startswith(_COMMENT):
        return tool.name
    return str(json.loads(comment.removeprefix(_COMMENT).splitlines()[0]))


def normalize_all(values: Sequence[Any]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """A tool list as records of distinct names, and the kinds of repairs made.

    Two tools of one name that differ are both kept, the later one as `name_2`; `original_name` finds
    the published name of every tool.
    """
    tools: dict[str, Tool] = {}
    twins: dict[str, list[Tool]] = {}
    repairs: list[str] = []
    for number, value in enumerate(values):
        tool, made = normalize(value, f"tools[{number}]")
        if tool in twins.setdefault(tool.name, []):
            repairs.append("tool_duplicate")
            continue
        twins[tool.name].append(tool)
        repairs += made
        if tool.name in tools:
            schema = tool.parameters
            if "tool_name" not in made:
                repairs.append("tool_name")
                schema = _commented(schema, tool.name)
            tool = tool.model_copy(update={"name": _free(tool.name, tools), "parameters": schema})
        tools[tool.name] = tool
    return tuple(tools.values()), tuple(repairs)


def _free(name: str, taken: dict[str, Tool]) -> str:
    number = 2
    while (spelled := f"{name[: MAX_NAME - len(f'_{number}')]}_{number}") in taken:
        number += 1
    return spelled
