"""A LangChain agent's client against the server."""

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from served_policy import FIND, backend, calls, says

from envace.serve.runner import served

CALL = '{"name":"find","arguments":{"item":"rome"}}'
RESPONSE = '{"price":3}'
ASKED = [HumanMessage("what of rome?")]
WANTED = [("find", {"item": "rome"})]


@pytest.fixture(scope="module")
def model(template: Any, scripted: Any) -> Iterator[Any]:
    """A model with a tool: it calls it, and answers once a result is there."""
    opening = template.call_opening("")

    def script(prompt: list[int], sample: int) -> list[int]:
        if RESPONSE in template.raw(prompt):
            return says(template, "it costs 3")
        forced = prompt[-len(opening) :] == opening
        return calls(template, CALL)[len(opening) if forced else 0 :]

    with served(backend(template, scripted(script))) as url:
        yield ChatOpenAI(base_url=url, api_key="none", model="p", max_retries=0).bind_tools([FIND])


def called(message: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def test_an_agent_calls_a_tool_and_answers_by_its_result(model: Any) -> None:
    first = model.invoke(ASKED)
    assert called(first) == WANTED and first.response_metadata["finish_reason"] == "tool_calls"
    history = [*ASKED, first, ToolMessage(RESPONSE, tool_call_id=first.tool_calls[0]["id"])]
    answer = model.invoke(history)
    assert (answer.content, answer.tool_calls) == ("it costs 3", [])
    parts = list(model.stream(history))
    assert "".join(part.content for part in parts) == "it costs 3" and len(parts) > 3


def test_a_call_streams_and_the_usage_of_a_stream_is_told(model: Any) -> None:
    whole, streamed = model.invoke(ASKED), reduce(add, model.stream(ASKED, stream_usage=True))
    assert called(streamed) == WANTED
    assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"] > 0


def test_a_call_is_forced_and_a_strategy_chosen_as_extra_fields(model: Any) -> None:
    forced = model.bind(tool_choice="required", temperature=0)
    reply = forced.invoke(ASKED, extra_body={"rehearsal": {"strategy": "parallel-2"}})
    assert called(reply) == WANTED
    told = reply.response_metadata["token_usage"]
    assert told["completion_tokens_details"]["rehearsal_tokens"] > 0
