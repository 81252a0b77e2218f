"""What one client session knows of its server, and the verdicts on the calls that the client makes."""

import json
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from pydantic import ValidationError

from envace.guard.asking import (
    ANSWER,
    CAPABILITIES_KEY,
    VERSION_KEY,
    answer_of,
    can_ask,
    input_required,
    question,
    refusal,
)
from envace.guard.guard import Guard
from envace.guard.rehearsers import Pending
from envace.guard.verdict import Verdict
from envace.guard.which import Lists, tool_from_mcp
from envace.rollout.remote import evened
from envace.trajectory import Message, Tool, ToolCall, compact

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request of ours, method and parameters, and waits for its result."""

ANSWERS = ("inputResponses", "requestState")
"""Parameters by which a call is made again, with answers."""


@dataclass(frozen=True)
class Admitted:
    """A call that may pass."""

    params: dict[str, Any]
    """Its parameters; only answers to our own questions are taken out."""


@dataclass
class GuardedCalls:
    """Decides about the calls of one session."""

    guard: Guard
    """Gives the verdicts."""
    lists: Lists
    """Which tools are guarded whatever their annotations say."""
    history: int
    """Earlier calls that a rehearsal is shown."""
    context: str = ""
    """What a rehearsal is told about the server."""
    capabilities: dict[str, Any] = field(default_factory=dict)
    """What the client said it can do."""
    tools: dict[str, Tool] | None = None
    """The server's tools; None until they were listed, and after they changed."""

    def __post_init__(self) -> None:
        self._pages: dict[str, Tool] = {}
        self._made: deque[tuple[ToolCall, str]] = deque(maxlen=self.history)
        self._asked: dict[str, tuple[ToolCall, Verdict]] = {}
        self._continued: set[tuple[str, str]] = set()

    def free(self, name: str) -> bool:
        """Whether calls of a tool are known to need no verdict."""
        if self.tools is None:
            return not self.lists.guards(name, True)
        return not self.lists.guards(name, name not in self.tools or self.tools[name].irreversible)

    def greeted(self, result: Mapping[str, Any]) -> None:
        """Take note of the server's instructions, unless the configuration says more."""
        self.context = self.context or str(result.get("instructions") or "")

    def listed(self, result: Mapping[str, Any], first: bool) -> None:
        """Take note of a page of tools; a list counts once it is whole, an odd entry counts as unknown."""
        if first:
            self._pages = {}
        for entry in result.get("tools") or ():
            with suppress(ValidationError):
                tool = tool_from_mcp(entry)
                self._pages[tool.name] = tool
        if not result.get("nextCursor"):
            self.tools = dict(self._pages)

    def returned(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Take note of what the server answered to a call."""
        call = call_of(params)
        if result.get("resultType") == "input_required":
            # The server itself asks something: the same call, made again with the answer, was decided on.
            self._continued.add((call.text(), str(result.get("requestState"))))
            return
        self._made.append((call, result_text(result)))

    async def consider(
        self, params: Mapping[str, Any], ask_server: Ask, ask_client: Ask
    ) -> Admitted | dict[str, Any]:
        """Decide about a call, with everything that takes: a rehearsal, a person, a line in the log.

        Args:
            params: Parameters of `tools/call`.
            ask_server: Sends requests to the server.
            ask_client: Sends requests to the client.

        Returns:
            The call as it may pass, or the result that the client gets instead.

        Raises:
            LostError: The server does not list its tools.
        """
        call, meta = call_of(params), dict(params.get("_meta") or {})
        if self.tools is None:
            await self._list_tools(meta, ask_server)
        continued = (call.text(), str(params.get("requestState")))
        if "inputResponses" in params and continued in self._continued:
            self._continued.discard(continued)
            return Admitted(dict(params))
        if self.free(call.name):
            return Admitted(dict(params))
        modern = VERSION_KEY in meta
        asked, verdict = self._asked.pop(str(params.get("requestState")), (None, None))
        if verdict is not None and asked == call:
            elicited = (params.get("inputResponses") or {}).get(ANSWER)
            bare = {key: value for key, value in params.items() if key not in ANSWERS}
            return self._answered(call, verdict, answer_of(elicited), bare, modern)
        pending = Pending(call, tuple((self.tools or {}).values()), tuple(self._messages()))
        verdict = await anyio.to_thread.run_sync(self.guard.examine, pending, abandon_on_cancel=True)
        if verdict.decision != "ask":
            return self._answered(call, verdict, "", dict(params), modern)
        if not can_ask(meta.get(CAPABILITIES_KEY) if modern else self.capabilities):
            return self._answered(call, verdict, "unasked", dict(params), modern)
        if modern:
            state = uuid.uuid4().hex
            self._asked[state] = call, verdict
            return input_required(call, verdict, state)
        elicited = await ask_client("elicitation/create", question(call, verdict))
        return self._answered(call, verdict, answer_of(elicited), dict(params), modern)

    def _answered(
        self, call: ToolCall, verdict: Verdict, answer: str, params: dict[str, Any], modern: bool
    ) -> Admitted | dict[str, Any]:
        """The end of a decision; it is in the log before anything comes of it."""
        self.guard.record(call, verdict, answer)
        if verdict.decision == "allow" or answer == "accept":
            return Admitted(params)
        return refusal(call, verdict, answer, modern)

    async def _list_tools(self, meta: Mapping[str, Any], ask_server: Ask) -> None:
        envelope = {key: value for key, value in meta.items() if key != "progressToken"}
        params: dict[str, Any] = {"_meta": envelope} if envelope else {}
        result = await ask_server("tools/list", params)
        self.listed(result, first=True)
        while cursor := result.get("nextCursor"):
            result = await ask_server("tools/list", params | {"cursor": cursor})
            self.listed(result, first=False)

    def _messages(self) -> list[Message]:
        messages = [Message(role="system", content=self.context)] if self.context else []
        for call, text in self._made:
            messages.append(Message(role="assistant", tool_calls=(call,)))
            messages.append(Message(role="tool", name=call.name, content=text, author="world"))
        return messages


def call_of(params: Mapping[str, Any]) -> ToolCall:
    """The call in the parameters of `tools/call`."""
    arguments = params.get("arguments")
    return ToolCall(name=str(params.get("name")), arguments=arguments if isinstance(arguments, dict) else {})


def result_text(result: Mapping[str, Any]) -> str:
    """A call's result as a world would print it: structured content where there is any, or its texts."""
    if isinstance(result.get("structuredContent"), dict):
        text = compact(result["structuredContent"])
    else:
        parts = [part.get("text") or f"({part.get('type')})" for part in result.get("content") or ()]
        text = evened("\n".join(map(str, parts)))
    if result.get("isError") is True and not _is_error_object(text):
        return compact({"error": text})
    return text


def _is_error_object(text: str) -> bool:
    try:
        return "error" in json.loads(text)
    except (ValueError, TypeError):
        return False
