"""Arguments are held against the tool's schema; injected wrong calls are not."""

import json
import os
import socket
from pathlib import Path

import pytest

from envace.filters import calls
from envace.trajectory import Message, Tool, ToolCall, Trajectory

SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "qty": {"type": "integer", "minimum": 1}},
    "required": ["item"],
    "additionalProperties": False,
}


def calling(
    arguments: dict, *, schema: dict = SCHEMA, name: str = "order", trainable: bool = True
) -> Trajectory:
    call = Message(
        role="assistant", tool_calls=(ToolCall(name=name, arguments=arguments),), trainable=trainable
    )
    return Trajectory(
        id="t",
        source="drill",
        tools=(Tool(name="order", parameters=schema),),
        messages=(Message(role="user", content="go"), call, Message(role="tool", content="{}")),
    )


def test_a_fitting_call_passes() -> None:
    assert calls.calls()(calling({"item": "pen", "qty": 2})) is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "message 1: order: 'item' is a required property"),
        ({"item": 3}, "message 1: order: item: 3 is not of type 'string'"),
        ({"item": "pen", "qty": 0}, "message 1: order: qty: 0 is less than the minimum of 1"),
        (
            {"item": "pen", "color": "red"},
            "message 1: order: Additional properties are not allowed ('color' was unexpected)",
        ),
    ],
)
def test_a_wrong_call_is_refused_unless_it_was_injected(arguments, reason) -> None:
    rule = calls.calls()
    assert rule(calling(arguments)) == reason
    assert rule(calling(arguments, trainable=False)) is None


def test_an_unknown_tool_is_refused_unless_it_was_injected() -> None:
    rule = calls.calls()
    assert rule(calling({}, name="fly")) == "message 1: unknown tool fly"
    assert rule(calling({}, name="fly", trainable=False)) is None


def test_a_broken_tool_schema_is_refused_by_both_rules() -> None:
    broken = calling({"item": "pen"}, schema={"type": "object", "properties": {"item": {"type": "float"}}})
    assert "not a JSON schema: properties/item/type: 'float'" in str(calls.tool_schema()(broken))
    assert "not a JSON schema" in str(calls.calls()(broken))


def test_parameters_must_describe_an_object() -> None:
    assert calls.tool_schema()(calling({}, schema={"type": "array"})) == (
        "tool order: parameters are of type array, not object"
    )


@pytest.fixture
def impatient():
    """A fetch that should not happen gives up quickly instead of hanging the test."""
    socket.setdefaulttimeout(0.3)
    yield
    socket.setdefaulttimeout(None)


@pytest.mark.usefixtures("impatient")
def test_a_remote_reference_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        reason = calls.calls()(calling({"item": "pen"}, schema={"type": "object", "$ref": url}))
        assert reason == f"message 1: order: schema refers to {url}, which is not in it"
        with pytest.raises(TimeoutError):
            server.accept()


def test_schemas_are_compiled_once() -> None:
    cache = calls.SchemaCache()
    assert cache.compiled(dict(SCHEMA)) is cache.compiled(json.loads(json.dumps(SCHEMA)))


def test_real_tool_lists_have_usable_schemas() -> None:
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared"))
    path = shared / "data/mcp_servers.jsonl"
    if not path.is_file():
        pytest.skip("data/mcp_servers.jsonl is absent")
    rule = calls.tool_schema()
    servers = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reasons = [
        rule(
            Trajectory(
                id=server["server"],
                source="mcp",
                tools=tuple(
                    Tool(name=tool["name"], parameters=tool["inputSchema"]) for tool in server["tools"]
                ),
                messages=(),
            )
        )
        for server in servers
    ]
    assert len(servers) == 240
    assert sum(reason is not None for reason in reasons) == 0


def test_a_schema_of_the_fourth_draft_is_understood() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
    }
    rule = calls.calls()
    assert rule(calling({"n": 1}, schema=schema)) is None
    assert "message 1: order: n: 0 is less than or equal to the minimum of 0" in str(
        rule(calling({"n": 0}, schema=schema))
    )
