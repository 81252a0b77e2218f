"""Conversion between OpenAI JSON and records."""

import json

from hypothesis import given
from hypothesis import strategies as st

from envace.serve.openai_format import (
    WireMessage,
    WireTool,
    decode_arguments,
    encode_arguments,
    message_from_wire,
    message_to_wire,
    tool_from_wire,
    tool_to_wire,
)
from envace.trajectory.records import Message, Tool, ToolCall

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text())
def test_any_argument_text_decodes_to_an_object(text):
    decoded = decode_arguments(text)
    assert isinstance(decoded, dict)
    if "_raw" in decoded and not text.lstrip().startswith("{"):
        assert encode_arguments(decoded) == text


@given(st.dictionaries(st.text(), values, max_size=4))
def test_messages_survive_the_wire(arguments):
    message = Message(role="assistant", tool_calls=(ToolCall(name="f", arguments=arguments, id="c1"),))
    wire = json.loads(json.dumps(message_to_wire(message)))
    back = message_from_wire(WireMessage.model_validate(wire))
    if arguments.keys() != {"_raw"}:
        assert back == message


def test_deep_nesting_does_not_crash():
    assert decode_arguments("[" * 100_000).keys() == {"_raw"}


def test_missing_call_ids_are_unique():
    message = Message(role="assistant", tool_calls=(ToolCall(name="f"), ToolCall(name="f")))
    assert [c["id"] for c in message_to_wire(message, "7")["tool_calls"]] == ["call_7_0", "call_7_1"]


def test_parts_join_and_developer_is_system():
    wire = WireMessage.model_validate(
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    )
    assert message_from_wire(wire) == Message(role="system", content="a\nb")


def test_tool_round_trip():
    tool = Tool(name="f", description="d", parameters={"type": "object", "properties": {"x": {}}})
    assert tool_from_wire(WireTool.model_validate(tool_to_wire(tool))) == tool
