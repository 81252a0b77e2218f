"""Tool schemas as they are published become valid ones of one form; every repair is named, none narrows."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_samples import published
from jsonschema import Draft202012Validator

from envace.imports import REPAIRS, normalize, original_name
from envace.imports.parameters import normalize_parameters
from envace.imports.schema import normalize_all
from envace.imports.type_names import ANY, schema_of

TEXT = {"type": "string", "description": ""}


def argument(schema: Any, **root: Any) -> tuple[Any, Counter]:
    """The one argument `a` of a tool after normalizing, and the repairs."""
    whole = {"type": "object", "properties": {"a": schema}, "required": []} | root
    found, repairs = normalize_parameters(whole)
    assert Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(found)
    return found["properties"]["a"], Counter(repairs)


D = {"description": ""}
ENUM = {"enum": ["x", 2, 2.5], "description": ""}
NULLABLE = {"type": ["string", "null"], "description": ""}
NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}},
    "required": [],
    "description": "d",
}
ARGUMENTS = {
    "nothing to do": (TEXT, TEXT, {}),
    "no description": ({"type": "string"}, TEXT, {"description": 1}),
    "no text": (TEXT | {"description": ["a"]}, TEXT | {"description": '["a"]'}, {"description": 1}),
    "type of an enum": (ENUM, ENUM | {"type": ["string", "number"]}, {"type_missing": 1}),
    "type of a constant": (D | {"const": True}, D | {"const": True, "type": "boolean"}, {"type_missing": 1}),
    "type of a default": (D | {"default": 3}, D | {"default": 3, "type": "number"}, {"type_missing": 1}),
    "type of a keyword": (D | {"minLength": 1}, D | {"minLength": 1, "type": "string"}, {"type_missing": 1}),
    "no sign of a type": (D | {"title": "A"}, D | {"title": "A", "type": list(ANY)}, {"type_missing": 1}),
    "anything": (True, D | {"type": list(ANY)}, {"not_a_schema": 1, "type_missing": 1, "description": 1}),
    "Python's name": (D | {"type": "int"}, D | {"type": "integer"}, {"type_name": 1}),
    "Python's generic": (
        D | {"type": "List[int], optional"}, D | {"type": "array", "items": {"type": "integer"}},
        {"type_name": 1},
    ),
    "Python's union": (D | {"type": "str | None"}, NULLABLE, {"type_name": 1, "any_of": 1}),
    "unknown name": (
        {"type": "Callable", "description": "f"}, {"description": "f (type: Callable)", "type": list(ANY)},
        {"type_name": 1, "type_missing": 1},
    ),
    "a name for a schema": ("string", TEXT, {"not_a_schema": 1, "description": 1}),
    "list of types": (NULLABLE, NULLABLE, {}),
    "list of one type": (D | {"type": ["string"]}, TEXT, {"type_list": 1}),
    "list of odd types": (D | {"type": ["str", "null", "null"]}, NULLABLE, {"type_list": 1}),
    "anyOf of types": (D | {"anyOf": [{"type": "string"}, {"type": "null"}]}, NULLABLE, {"any_of": 1}),
    "anyOf of one": (D | {"anyOf": [{"type": "string", "title": "S"}]}, TEXT | {"title": "S"}, {"any_of": 1}),
    "anyOf of something and null": (
        D | {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        D | {"type": ["array", "null"], "items": {"type": "string"}}, {"any_of": 1},
    ),
    "anyOf that must stay": (
        D | {"anyOf": [{"enum": ["x"]}, {"type": "null"}]},
        D | {"anyOf": [{"enum": ["x"]}, {"type": "null"}], "type": ["string", "null"]}, {"type_missing": 1},
    ),
    "oneOf of types": (D | {"oneOf": [{"type": "string"}, {"type": "null"}]}, NULLABLE, {"one_of": 1}),
    "oneOf that overlaps": (
        D | {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        D | {"oneOf": [{"type": "integer"}, {"type": "number"}], "type": "number"}, {"type_missing": 1},
    ),
    "allOf of one": (D | {"allOf": [{"type": "string"}]}, TEXT, {"all_of": 1}),
    "nested object": (
        D | {"type": "object", "properties": {"b": {"type": "str"}}},
        D | {"type": "object", "properties": {"b": TEXT}, "required": []},
        {"type_name": 1, "description": 1, "required_missing": 1},
    ),
    "required as a text": (
        D | {"type": "object", "properties": {}, "required": "b"},
        D | {"type": "object", "properties": {}, "required": ["b"]}, {"required_invalid": 1},
    ),
    "required flags": (
        D | {"type": "object", "properties": {n: TEXT | {"required": n == "b"} for n in "bc"}},
        D | {"type": "object", "properties": {"b": TEXT, "c": TEXT}, "required": ["b"]}, {"required_flag": 2},
    ),
    "draft 4 bounds": (
        D | {"type": "number", "minimum": 0, "exclusiveMinimum": True, "exclusiveMaximum": False},
        D | {"type": "number", "exclusiveMinimum": 0}, {"dialect": 2},
    ),
    "draft 7 tuple": (
        D | {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        D | {"type": "array", "prefixItems": [{"type": "string"}], "items": False}, {"dialect": 1},
    ),
    "filled with null": (TEXT | {"enum": None, "items": None}, TEXT, {"null_keyword": 2}),
    "keywords refused": (TEXT | {"minLength": "1", "pattern": "(?<x>", "enum": "b"}, TEXT, {"keyword": 3}),
    "empty alternatives": (TEXT | {"anyOf": []}, TEXT, {"keyword": 1}),
}  # fmt: skip


@pytest.mark.parametrize(("given", "wanted", "repairs"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_argument_takes_the_form(given, wanted, repairs) -> None:
    before = json.dumps(given)
    assert argument(given) == (wanted, repairs)
    assert argument(wanted) == (wanted, {})
    assert json.dumps(given) == before


def test_references_are_written_out_and_circles_cut() -> None:
    found, repairs = argument({"$ref": "#/$defs/Node", "title": "N"}, **{"$defs": {"Node": NODE}})
    cut = {"type": "object", "$comment": "cut here: $ref #/$defs/Node", "description": ""}
    assert found == {**NODE, "title": "N", "properties": {"next": cut}}
    assert repairs == {"ref": 1, "ref_recursive": 1, "description": 1, "definitions": 1}
    found, repairs = argument({"$ref": "https://example.com/schema", "description": "d"})
    comment = "cut here: $ref https://example.com/schema"
    assert found == {"description": "d", "$comment": comment, "type": list(ANY)}
    assert repairs == {"ref_unresolved": 1, "type_missing": 1}
    found, _ = argument(
        {"$ref": "#/definitions/a~1b%20c/anyOf/1"}, definitions={"a/b c": {"anyOf": [True, TEXT]}}
    )
    assert found == TEXT


ROOTS = {
    "nothing": (None, {}, {"parameters_missing": 1}),
    "only a type": ({"type": "object"}, {}, {"properties_missing": 1, "required_missing": 1}),
    "arguments alone": (
        {"type": {"type": "string", "description": ""}, "n": "int"},
        {"properties": {"type": TEXT, "n": D | {"type": "integer"}}},
        {"parameters_wrapped": 1, "not_a_schema": 1, "description": 1, "required_missing": 1},
    ),
    "a list of arguments": (
        [{"name": "a", "type": "string", "description": "", "required": True}],
        {"properties": {"a": TEXT}, "required": ["a"]}, {"parameters_wrapped": 1, "required_flag": 1},
    ),
    "a list": (
        {"type": "array"}, {"$comment": 'not the schema of an object: {"type":"array"}'},
        {"not_an_object": 1, "properties_missing": 1, "required_missing": 1},
    ),
    "a number": (
        3, {"$comment": "not a schema: 3"},
        {"not_a_schema": 1, "properties_missing": 1, "required_missing": 1},
    ),
    "an identifier": (
        {"type": "object", "properties": {}, "required": [], "$schema": "http://json-schema.org/schema#"},
        {}, {"dialect": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "wanted", "repairs"), ROOTS.values(), ids=ROOTS)
def test_the_root_is_an_object(given, wanted, repairs) -> None:
    found, made = normalize_parameters(given)
    assert found == {"type": "object", "properties": {}, "required": []} | wanted
    assert Counter(made) == repairs


def test_a_tool_of_any_published_shape() -> None:
    schema = {"type": "object", "properties": {}, "required": []}
    openai = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    mcp = {"name": "f", "description": "d", "inputSchema": schema}
    assert normalize(openai) == normalize(mcp) == normalize(json.dumps(mcp))
    tool, repairs = normalize(
        mcp | {"outputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
    )
    assert (tool.irreversible, tool.returns, Counter(repairs)) == (
        True, schema, {"properties_missing": 1, "required_missing": 1},
    )  # fmt: skip
    assert not normalize(mcp | {"annotations": {"destructiveHint": True, "readOnlyHint": True}})[
        0
    ].irreversible
    tool, repairs = normalize("look")
    assert (tool.name, tool.description, tool.parameters) == ("look", "", schema)
    assert repairs == ("tool_description", "parameters_missing")


def test_odd_and_taken_names_change_and_are_found_again() -> None:
    schema = {"type": "object", "properties": {}, "required": []}
    names = ["a.b", "a_b", "a_b", "查询", "x" * 70, "!pg"]
    tools, repairs = normalize_all(
        [{"name": name, "description": str(n), "parameters": schema} for n, name in enumerate(names)]
    )
    assert [tool.name for tool in tools] == ["a_b", "a_b_2", "a_b_3", "tool", "x" * 64, "pg"]
    assert [original_name(tool) for tool in tools] == names
    assert Counter(repairs) == {"tool_name": 6}
    again, repairs = normalize_all([tool.model_dump(mode="json") for tool in tools])
    assert (again, repairs) == (tools, ())
    twice, repairs = normalize_all([tools[0].model_dump()] * 2)
    assert (twice, repairs) == (tools[:1], ("tool_duplicate",))


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("str", {"type": "string"}),
        ("Optional[Dict[str, int]]", {"anyOf": [{"type": "object"}, {"type": "null"}]}),
        ("List[List[float]]", {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        ("Tuple[int, str]", {"type": "array"}),
        ("string[]", {"type": "array", "items": {"type": "string"}}),
        ("int, default 3", {"type": "integer"}),
        ("Callable[[float], float]", None),
        ("int | Widget", None),
        ("", None),
    ],
)
def test_type_names(name, schema) -> None:
    assert schema_of(name) == schema


TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, "", "x"]))
KEYWORDS = [
    "type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "x", "enum",
    "const", "default", "description", "not", "minimum", "exclusiveMinimum", "pattern",
    "additionalProperties", "patternProperties", "definitions", "$schema", "title", "name", "if",
]  # fmt: skip
ANYTHING = st.recursive(
    VALUES | st.sampled_from(["object", "array", "str, optional", "List[int]", "#", "#/$defs/x", "("]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
SOUND = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True))
    | st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=3)),
    lambda inner: (
        st.builds(
            lambda key, branches: {key: branches},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(
            lambda inside, names: {"type": "object", "properties": inside, "required": names},
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        )
    ),
    max_leaves=8,
)
INSTANCES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=150)
@given(ANYTHING.filter(lambda schema: not isinstance(schema, str)))
def test_whatever_comes_the_result_is_valid_and_normalizing_it_again_changes_nothing(schema) -> None:
    tool, repairs = normalize({"name": "f", "description": "", "parameters": schema})
    Draft202012Validator.check_schema(tool.parameters)
    assert tool.parameters["type"] == "object"
    assert set(repairs) <= set(REPAIRS)
    assert normalize(tool.model_dump(mode="json")) == (tool, ())


@settings(max_examples=150)
@given(SOUND, INSTANCES)
def test_what_the_schema_accepted_is_accepted_still(schema, value) -> None:
    found, _ = argument(schema)
    assert Draft202012Validator(found).is_valid(value) or not Draft202012Validator(schema).is_valid(value)


def test_the_tools_of_240_published_servers() -> None:
    with published("mcp_servers.jsonl").open(encoding="utf-8") as lines:
        servers = [json.loads(line) for line in lines]
    counts: Counter[str] = Counter()
    for server in servers:
        tools, repairs = normalize_all(server["tools"])
        assert [original_name(tool) for tool in tools] == [tool["name"] for tool in server["tools"]]
        counts.update(repairs)
    assert len(servers) == 240
    assert counts == {
        "description": 1393, "dialect": 608, "required_missing": 349, "any_of": 94, "tool_description": 85,
        "tool_name": 19, "properties_missing": 19, "type_missing": 9, "definitions": 2, "ref": 2,
    }  # fmt: skip
