"""The relay between two ends that a test plays itself, message by message."""

import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import jsonrpc_message_adapter

from envace.guard.calls import GuardedCalls, result_text
from envace.guard.guard import Guard
from envace.guard.rehearsers import Pending, Rehearsal
from envace.guard.relay import Relay
from envace.guard.rules import RuleSettings
from envace.guard.which import Lists

TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "wipe", "inputSchema": {"type": "object"}},
]
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


class Rehearser:
    """Predicts one text; counts; can be held up, or fail in a way nobody foresaw."""

    def __init__(self, text: str = "{}") -> None:
        self.text = text
        self.asked: list[Pending] = []
        self.go = threading.Event()
        self.go.set()
        self.broken = False

    def rehearse(self, pending: Pending, times: int) -> Rehearsal:
        self.asked.append(pending)
        assert self.go.wait(10)
        if self.broken:
            raise RuntimeError("out of memory")
        return Rehearsal((self.text,) * times, times)


class Ends:
    """Both ends of a relay."""

    def __init__(
        self,
        rehearser: Rehearser,
        rules: RuleSettings | None = None,
        handshake_only: bool = False,
        **lists: Any,
    ) -> None:
        self.rehearser = rehearser
        self.from_client, client_read = anyio.create_memory_object_stream[Any](50)
        client_write, self.to_client = anyio.create_memory_object_stream[Any](50)
        self.from_server, self.server_read = anyio.create_memory_object_stream[Any](50)
        self.server_write, self.to_server = anyio.create_memory_object_stream[Any](50)
        self.client_streams = client_read, client_write
        calls = GuardedCalls(Guard(rehearser, rules, times=2), Lists(**lists), history=2)
        self.relay = Relay(calls, "shop", handshake_only)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        async with self.server_read, self.server_write:
            yield self.server_read, self.server_write

    async def client_says(self, **message: Any) -> None:
        await self.from_client.send(SessionMessage(parsed(message)))

    async def server_says(self, **message: Any) -> None:
        await self.from_server.send(SessionMessage(parsed(message)))

    async def client_hears(self) -> dict[str, Any]:
        return dumped(await self.to_client.receive())

    async def server_hears(self) -> dict[str, Any]:
        return dumped(await self.to_server.receive())

    async def nothing_arrives(self) -> None:
        await anyio.wait_all_tasks_blocked()
        for stream in (self.to_client, self.to_server):
            with pytest.raises(anyio.WouldBlock):
                stream.receive_nowait()

    async def list_tools(self) -> None:
        """The client lists the tools."""
        await self.client_says(id="list", method="tools/list")
        await self.server_hears()
        await self.server_says(id="list", result={"tools": TOOLS})
        await self.client_hears()


def parsed(message: dict[str, Any]) -> Any:
    return jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0"} | message)


def dumped(item: SessionMessage) -> dict[str, Any]:
    message = item.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert message.pop("jsonrpc") == "2.0"
    return message


def play(ends: Callable[[], Ends], script: Callable[[Ends], Coroutine[Any, Any, None]]) -> None:
    """Run a relay while a script plays both ends; nothing may hang."""

    async def both() -> None:
        playing = ends()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(playing.relay.run, playing.client_streams, playing.connect)
                await script(playing)
                await playing.from_client.aclose()

    anyio.run(both)


def call(name: str, number: int = 1, **params: Any) -> dict[str, Any]:
    return {"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}} | params}


def test_everything_passes_in_both_directions_as_it_is() -> None:
    async def script(ends: Ends) -> None:
        initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "x": [None]}
        await ends.client_says(id=0, method="initialize", params=initialize)
        assert await ends.server_hears() == {"id": 0, "method": "initialize", "params": initialize}
        await ends.server_says(id=0, result={"protocolVersion": "2025-11-25", "own": {"y": 1}})
        assert (await ends.client_hears())["result"] == {"protocolVersion": "2025-11-25", "own": {"y": 1}}
        for message in (
            {"id": "a", "method": "of/later/revisions", "params": {"z": 1.5}},
            {"method": "notifications/anything", "params": {"k": None}},
            {"id": 7, "error": {"code": -1, "message": "no roots", "data": [1]}},
            {"id": 8, "result": {"roots": []}},
        ):
            await ends.client_says(**message)
            assert await ends.server_hears() == message
        for message in (
            {"id": "a", "error": {"code": -32601, "message": "no such method"}},
            {"id": 8, "method": "sampling/createMessage", "params": {"messages": []}},
            {"method": "notifications/message", "params": {"level": "info", "data": 1}},
        ):
            await ends.server_says(**message)
            assert await ends.client_hears() == message
        assert ends.rehearser.asked == []

    play(lambda: Ends(Rehearser()), script)


def test_while_a_call_is_rehearsed_everything_else_goes_on_and_it_can_be_cancelled() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        ends.rehearser.go.clear()
        await ends.client_says(**call("wipe", 1))
        await ends.client_says(id=2, method="ping")
        assert await ends.server_hears() == {"id": 2, "method": "ping"}
        await ends.client_says(**call("look", 3))
        assert (await ends.server_hears())["id"] == 3
        await ends.client_says(method="notifications/cancelled", params={"requestId": 1})
        ends.rehearser.go.set()
        await anyio.sleep(0.05)
        await ends.nothing_arrives()  # neither the call nor its cancellation
        await ends.client_says(method="notifications/cancelled", params={"requestId": 3})
        assert (await ends.server_hears())["params"] == {"requestId": 3}

    play(lambda: Ends(Rehearser()), script)


def test_a_question_that_was_given_up_leaves_no_trace_at_the_server() -> None:
    async def script(ends: Ends) -> None:
        await ends.client_says(id=0, method="initialize", params={"capabilities": {"elicitation": {}}})
        await ends.server_hears()
        await ends.list_tools()
        await ends.client_says(**call("wipe"))
        question = await ends.client_hears()
        assert question["method"] == "elicitation/create"
        await ends.client_says(method="notifications/cancelled", params={"requestId": 1})
        accepted = {"action": "accept", "content": {"allow": True}}
        await ends.client_says(id=question["id"], result=accepted)
        await ends.nothing_arrives()

    unsure = RuleSettings(decisions={"predicted_error": "ask"})
    play(lambda: Ends(Rehearser('{"error":"?"}'), unsure), script)


def test_messages_travel_on_the_stream_of_the_request_they_belong_to() -> None:
    ended: list[int] = []

    async def script(ends: Ends) -> None:
        async def end(number: int) -> None:
            ended.append(number)

        await ends.list_tools()
        for number in (1, 2):
            message = parsed(call("look", number, _meta={"progressToken": f"t{number}"}))
            metadata = ServerMessageMetadata(on_request_unanswered=partial(end, number))
            await ends.from_client.send(SessionMessage(message, metadata))
            await ends.server_hears()
        progress = {"progressToken": "t1", "progress": 1}
        await ends.server_says(method="notifications/progress", params=progress)
        assert (await ends.to_client.receive()).metadata.related_request_id == 1
        await ends.server_says(id="s", method="roots/list")
        assert (await ends.to_client.receive()).metadata.related_request_id == 2
        await ends.client_says(method="notifications/cancelled", params={"requestId": 2})
        await ends.server_hears()
        assert ended == [2]  # over HTTP its stream must end without a response
        await ends.server_says(id=1, result={})
        await ends.client_hears()
        await ends.server_says(method="notifications/message", params={})
        assert (await ends.to_client.receive()).metadata.related_request_id is None

    play(lambda: Ends(Rehearser()), script)


def test_a_guard_that_breaks_lets_nothing_through() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        ends.rehearser.broken = True
        await ends.client_says(**call("wipe"))
        error = (await ends.client_hears())["error"]["message"]
        assert error.startswith("the guard could not decide") and "RuntimeError: out of memory" in error
        await ends.nothing_arrives()

    play(lambda: Ends(Rehearser()), script)


def test_tools_are_listed_page_by_page_before_the_first_verdict_and_anew_after_they_changed() -> None:
    async def script(ends: Ends) -> None:
        await ends.client_says(**call("look"))
        first = await ends.server_hears()
        assert first["method"] == "tools/list" and "params" not in first
        await ends.server_says(id=first["id"], result={"tools": [{}, TOOLS[1]], "nextCursor": "2"})
        second = await ends.server_hears()
        assert second["params"] == {"cursor": "2"}
        await ends.server_says(id=second["id"], result={"tools": TOOLS[:1]})
        assert (await ends.server_hears())["id"] == 1 and ends.rehearser.asked == []

        await ends.server_says(method="notifications/tools/list_changed")
        assert (await ends.client_hears())["method"] == "notifications/tools/list_changed"
        # A client that only looks at the first page does not leave the guard with half a list.
        await ends.client_says(id=2, method="tools/list")
        await ends.server_hears()
        await ends.server_says(id=2, result={"tools": TOOLS[1:], "nextCursor": "2"})
        await ends.client_hears()
        await ends.client_says(**call("look", 3))
        relisted = await ends.server_hears()
        assert relisted["method"] == "tools/list"
        destructive = TOOLS[0] | {"annotations": {}}
        await ends.server_says(id=relisted["id"], result={"tools": [destructive]})
        assert (await ends.server_hears())["id"] == 3 and len(ends.rehearser.asked) == 1

    play(lambda: Ends(Rehearser()), script)


def test_a_server_that_cannot_list_its_tools_gets_no_guarded_call_but_listed_free_ones() -> None:
    async def script(ends: Ends) -> None:
        await ends.client_says(**call("wipe"))
        asked = await ends.server_hears()
        await ends.server_says(id=asked["id"], error={"code": -32601, "message": "no tools here"})
        assert "no tools here" in (await ends.client_hears())["error"]["message"]
        await ends.client_says(**call("noted", 2))
        assert (await ends.server_hears())["id"] == 2
        assert ends.rehearser.asked == []

    play(lambda: Ends(Rehearser(), reversible=("note*",)), script)


@pytest.mark.parametrize(
    "odd", [{"tools": ["wipe"]}, {"tools": 3}, {"tools": [{"name": "wipe", "annotations": 1}]}]
)
def test_a_server_that_lists_nonsense_is_passed_on_and_gets_no_guarded_call(odd: dict[str, Any]) -> None:
    async def script(ends: Ends) -> None:
        await ends.client_says(id="list", method="tools/list")
        await ends.server_hears()
        await ends.server_says(id="list", result=odd)
        assert (await ends.client_hears())["result"] == odd
        await ends.client_says(**call("wipe"))
        asked = await ends.server_hears()
        assert asked["method"] == "tools/list"
        await ends.server_says(id=asked["id"], result=odd)
        assert "could not decide" in (await ends.client_hears())["error"]["message"]
        await ends.nothing_arrives()

    play(lambda: Ends(Rehearser()), script)


def test_a_call_that_the_server_itself_asks_about_is_decided_on_once() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        await ends.client_says(**call("wipe", 1, _meta=MODERN))
        await ends.server_hears()
        asks = {"resultType": "input_required", "inputRequests": {"pin": {}}, "requestState": "s"}
        await ends.server_says(id=1, result=asks)
        assert (await ends.client_hears())["result"] == asks
        answered = {"inputResponses": {"pin": {"action": "accept"}}, "requestState": "s", "_meta": MODERN}
        await ends.client_says(**call("wipe", 2, **answered))
        assert await ends.server_hears() == call("wipe", 2, **answered)
        assert len(ends.rehearser.asked) == 1
        # The answers do not open the door a second time, nor for another call.
        await ends.client_says(**call("wipe", 3, **answered))
        assert (await ends.server_hears())["id"] == 3 and len(ends.rehearser.asked) == 2

    play(lambda: Ends(Rehearser()), script)


def test_consent_to_one_call_is_not_consent_to_another() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        await ends.client_says(**call("wipe", 1, _meta=MODERN))
        asked = (await ends.client_hears())["result"]
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"]["allow"]["method"] == "elicitation/create"
        yes = {
            "inputResponses": {"allow": {"action": "accept", "content": {"allow": True}}},
            "requestState": asked["requestState"],
            "_meta": MODERN,
        }
        await ends.client_says(**call("wipe", 2, arguments={"all": True}, **yes))
        again = (await ends.client_hears())["result"]
        assert again["resultType"] == "input_required" and again["requestState"] != asked["requestState"]
        await ends.client_says(**call("wipe", 3, arguments={"all": True}, **yes))
        assert (await ends.client_hears())["result"]["resultType"] == "input_required"  # the state is spent
        last = yes | {"requestState": again["requestState"]}
        await ends.client_says(**call("wipe", 4, arguments={"all": True}, **last))
        assert await ends.server_hears() == call("wipe", 4, arguments={"all": True}, _meta=MODERN)

    unsure = RuleSettings(decisions={"predicted_error": "ask"})
    play(lambda: Ends(Rehearser('{"error":"?"}'), unsure), script)


def test_what_is_no_message_is_answered_and_revisions_that_cannot_be_relayed_are_declined() -> None:
    async def script(ends: Ends) -> None:
        await ends.from_client.send(ValueError("bad line"))
        assert (await ends.client_hears())["error"]["code"] == -32700
        await ends.client_says(id=1, method="server/discover", params={"_meta": MODERN})
        error = (await ends.client_hears())["error"]
        assert error["code"] == -32022 and error["data"]["requested"] == "2026-07-28"
        assert "2025-11-25" in error["data"]["supported"]
        await ends.nothing_arrives()

    play(lambda: Ends(Rehearser(), handshake_only=True), script)


def test_a_server_that_leaves_is_told_to_every_request_that_waits_and_to_all_that_follow() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        await ends.client_says(id=1, method="resources/list")
        await ends.server_hears()
        await ends.from_server.aclose()
        for number in (1, 2):
            heard = await ends.client_hears()
            assert heard["id"] == number and "the MCP server shop is gone" in heard["error"]["message"]
            await ends.client_says(**call("wipe", number + 1))
        assert (await ends.client_hears())["id"] == 3

    play(lambda: Ends(Rehearser()), script)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"structuredContent": {"a": 1}, "content": []}, '{"a":1}'),
        ({"content": [{"type": "text", "text": '{"a": 1}'}]}, '{"a":1}'),
        ({"content": [{"type": "text", "text": "done"}, {"type": "image", "data": "…"}]}, "done\n(image)"),
        ({"content": [{"type": "text", "text": "no"}], "isError": True}, '{"error":"no"}'),
        ({"content": [{"type": "text", "text": '{"error":1}'}], "isError": True}, '{"error":1}'),
        ({}, ""),
    ],
)
def test_results_read_as_a_world_would_print_them(result: dict[str, Any], text: str) -> None:
    assert result_text(result) == text


def test_a_rehearsal_is_shown_the_last_calls_of_the_session() -> None:
    async def script(ends: Ends) -> None:
        await ends.list_tools()
        for number in (1, 2, 3):
            await ends.client_says(**call("look", number, arguments={"at": number}))
            await ends.server_hears()
            await ends.server_says(id=number, result={"structuredContent": {"seen": number}})
            await ends.client_hears()
        await ends.client_says(**call("wipe", 4))
        await ends.server_hears()
        (pending,) = ends.rehearser.asked
        shown = [message.content or message.tool_calls[0].text() for message in pending.messages]
        assert shown == [
            '{"name":"look","arguments":{"at":2}}', '{"seen":2}',
            '{"name":"look","arguments":{"at":3}}', '{"seen":3}',
        ]  # fmt: skip
        assert [tool.name for tool in pending.tools] == ["look", "wipe"]

    play(lambda: Ends(Rehearser()), script)


def test_a_cancellation_that_names_nothing_sensible_passes() -> None:
    async def script(ends: Ends) -> None:
        for odd in ({"requestId": ["x"]}, {}, {"requestId": 99}):
            await ends.client_says(method="notifications/cancelled", params=odd)
            assert await ends.server_hears() == {"method": "notifications/cancelled", "params": odd}

    play(lambda: Ends(Rehearser()), script)
