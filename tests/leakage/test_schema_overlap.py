"""Tools that training and evaluation share are named, whatever the spelling, and are no leak."""

import os
from pathlib import Path

import pytest
from leakage_samples import item, said

from envace.benchmarks import harness
from envace.leakage import check
from envace.leakage.schema import canonical_schema
from envace.leakage.sources import read_items
from envace.trajectory import Tool

ROOT = Path(__file__).parents[2]


def schema(*names: str, **more) -> dict:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, **more}


def test_shared_tools_are_named_and_kept() -> None:
    tools = (Tool(name="Pay"), Tool(name="transfer", parameters=schema("to", "amount", "currency")))
    schemas = {"pay": ("to",), "send_money": ("amount", "currency", "to"), "fly": ("where",)}
    asked = item("send money", tools=("pay", "send_money", "fly"), schemas=schemas)
    other = said("what do I have", id_="earlier")
    result, leaks = check([other, said("hello", id_="first", tools=tools)], [asked])
    (match,) = result.matches
    assert (match.kind, match.train_id, match.train_text) == ("same_domain", "first", "hello")
    assert match.detail == "pay (name), send_money (parameters)"
    assert match.score == pytest.approx(2 / 3)
    assert leaks == [None, None]
    assert "same domain: training has 2 of the 3 tools of bench" in result.notes


def test_whole_schemas_are_compared_where_they_are_known() -> None:
    ours = schema("to", "amount", "note", required=["to", "amount"])
    theirs = {
        "type": "dict",
        "required": ["amount", "to"],
        "properties": {
            "note": {"type": "str", "description": "free text"},
            "amount": {"type": "string", "default": "1"},
            "to": {"title": "To", "type": "string"},
        },
    }
    tools = (Tool(name="bank.transfer", parameters=theirs),)
    asked = item("x", tools=("send", "bank_transfer"), json_schemas={"send": ours, "bank_transfer": ours})
    (match,) = check([said("hello", tools=tools)], [asked])[0].matches
    assert match.detail == "send (parameters, schema), bank_transfer (name, parameters, schema)"
    looser = ours | {"required": ["to"]}
    (match,) = check([said("hello", tools=tools)], [item("x", tools=("s",), json_schemas={"s": looser})])[
        0
    ].matches
    assert match.detail == "s (parameters)"


def test_a_property_may_be_called_like_an_annotation() -> None:
    assert canonical_schema(schema("title")) != canonical_schema(schema("default"))
    assert canonical_schema(schema("a", title="A")) == canonical_schema(schema("a"))


def test_few_equal_parameters_are_chance() -> None:
    tools = (Tool(name="search", parameters=schema("query", "limit")),)
    asked = item("x", tools=("find",), schemas={"find": ("limit", "query")})
    assert check([said("hello", tools=tools)], [asked])[0].matches == []


def test_tools_of_a_benchmark_domain_are_the_same_domain() -> None:
    root = Path(os.environ.get(harness.ROOT_VARIABLE, ROOT / ".harness"))
    if not harness.installed("tau2", root):
        pytest.skip("the harness tau2 is not installed")
    os.environ[harness.ROOT_VARIABLE] = str(root)
    retail = [found for found in read_items("tau2") if found.split.startswith("retail")]
    # A dialog of a published training set whose tools are those of the benchmark's shop.
    tools = tuple(Tool(name=name, parameters=schema(*names)) for name, names in retail[0].schemas.items())
    result, leaks = check([said("Hi! I want to return the lamp I bought.", tools=tools)], retail)
    assert len(retail) == 114
    assert {(match.kind, match.score) for match in result.matches} == {("same_domain", 1.0)}
    assert len(result.matches) == 114 and leaks == [None]
    assert f"same domain: training has {len(tools)} of the {len(tools)} tools of tau2" in result.notes
