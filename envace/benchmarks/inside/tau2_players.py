"""Who talks in a τ² conversation: the served model as agent, a script or another model as user."""

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

import openai
from tau2.agent.base import LocalAgent
from tau2.agent.llm_agent import AGENT_INSTRUCTION, SYSTEM_PROMPT
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, ToolMessage, UserMessage
from tau2.user.base import STOP, BaseUser, UserState
from tau2.user.user_simulator import UserSimulator
from tau2.utils.utils import get_now


class EndpointFailed(BaseException):
    """The endpoint gave no answer; not an `Exception`, so that no task is scored by it."""


class TaskLost(Exception):  # noqa: N818
    """The model's own failure: the task is scored 0 with this reason."""


def to_wire(message: Any) -> list[dict[str, Any]]:
    """A τ² message as OpenAI messages; several tool responses travel as one in τ²."""
    if isinstance(message, MultiToolMessage):
        return [row for inner in message.tool_messages for row in to_wire(inner)]
    if isinstance(message, ToolMessage):
        return [{"role": "tool", "tool_call_id": message.id, "content": message.content or ""}]
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.is_tool_call():
        row["tool_calls"] = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
            }
            for c in message.tool_calls
        ]
    return [row]


WAITS = (0.5, 1.0, 2.0)
"""Seconds before each further try of a request that failed."""


def complete(body: dict[str, Any]) -> dict[str, Any]:
    """One chat completion; what may pass with time is tried again.

    Raises:
        TaskLost: when the context is too long.
        EndpointFailed: on any other error.
    """
    for wait in (*WAITS, None):
        try:
            return post(body)
        except (OSError, ValueError) as error:
            text = (
                error.read().decode("utf-8", "replace") if isinstance(error, urllib.error.HTTPError) else ""
            )
            if "context_length_exceeded" in text:
                raise TaskLost("context_length_exceeded") from error
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
            if wait is None or refused:
                raise EndpointFailed(f"{error}: {text[:200]}") from error
            time.sleep(wait)
    raise AssertionError("unreachable")


def post(body: dict[str, Any]) -> dict[str, Any]:
    """One request."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        },
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.loads(response.read())


def arguments_of(text: str) -> dict[str, Any]:
    """Arguments of a call; text that is no JSON object is passed on for the tool to refuse."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"_raw": text}


class ServedAgent(LocalAgent):  # type: ignore[misc]
    """The model behind the endpoint, prompted as the official agent is."""

    def __init__(self, tools: list[Any], domain_policy: str) -> None:
        super().__init__(tools, domain_policy)
        self.act_tokens = self.rehearsal_tokens = self.steps = 0

    def set_seed(self, seed: int) -> None:
        """Seed of every request."""
        self.seed = seed

    def get_init_state(self, message_history: list[Any] | None = None) -> list[dict[str, Any]]:
        """The conversation so far, in OpenAI's format."""
        prompt = SYSTEM_PROMPT.format(domain_policy=self.domain_policy, agent_instruction=AGENT_INSTRUCTION)
        history = [row for message in message_history or [] for row in to_wire(message)]
        return [{"role": "system", "content": prompt}, *history]

    def generate_next_message(self, message: Any, state: list[dict[str, Any]]) -> tuple[Any, Any]:
        """The model's next message."""
        state = state + to_wire(message)
        reply = complete(
            {
                "model": os.environ["ENVACE_MODEL"],
                "messages": state,
                "tools": [tool.openai_schema for tool in self.tools],
                "temperature": 0.0,
                "seed": self.seed,
            }
        )
        usage = reply.get("usage") or {}
        self.steps += 1
        self.act_tokens += usage.get("completion_tokens") or 0
        details = usage.get("completion_tokens_details") or {}
        self.rehearsal_tokens += details.get("rehearsal_tokens") or 0
        wire = reply["choices"][0]["message"]
        calls = [
            ToolCall(
                id=call["id"],
                name=call["function"]["name"],
                arguments=arguments_of(call["function"]["arguments"]),
            )
            for call in wire.get("tool_calls") or []
        ]
        # Thoughts are no words to the user, and must not reach whoever plays it.
        text = (wire.get("content") or "").rpartition("</think>")[2] or None
        if not calls and not (text or "").strip():
            raise TaskLost("empty answer")
        answer = AssistantMessage(
            role="assistant", content=text, tool_calls=calls or None, timestamp=get_now()
        )
        return answer, state + to_wire(answer)


class ScriptedUser(BaseUser):  # type: ignore[misc]
    """Says what the task tells the user to want, word for word, and leaves after the agent's answer."""

    def get_init_state(self, message_history: list[Any] | None = None) -> UserState:
        """The conversation so far."""
        return UserState(system_messages=[], messages=message_history or [])

    def set_seed(self, seed: int) -> None:
        """Nothing here is random."""

    @classmethod
    def is_stop(cls, message: Any) -> bool:
        """True for the message that ends the conversation."""
        return bool(UserSimulator.is_stop(message))

    def generate_next_message(self, message: Any, state: UserState) -> tuple[Any, UserState]:
        """The instructions, then the stop word."""
        said = any(isinstance(m, UserMessage) and m.content == self.instructions for m in state.messages)
        answer = UserMessage(role="user", content=STOP if said else self.instructions, timestamp=get_now())
        state.messages.extend([message, answer])
        return answer, state


class ModelUser(UserSimulator):  # type: ignore[misc]
    """The official simulated user; a failure of its endpoint is no outcome of the task."""

    def generate_next_message(self, message: Any, state: UserState) -> tuple[UserMessage, UserState]:
        """What the user says or does next."""
        try:
            return super().generate_next_message(message, state)
        except openai.OpenAIError as error:  # litellm's errors are of this kind
            raise EndpointFailed(f"the user's: {type(error).__name__}: {str(error)[:200]}") from error


def user_of(task: Any, environment: Any) -> BaseUser:
    """The user of a task: the model that `USER_MODEL` names, or the script."""
    model = os.environ.get("USER_MODEL", "")
    if not model:
        return ScriptedUser(instructions=str(task.user_scenario.instructions))
    where = {"base_url": os.environ["USER_BASE_URL"], "api_key": os.environ["USER_API_KEY"]}
    return ModelUser(
        tools=environment.get_user_tools() if environment.user_tools else None,
        instructions=str(task.user_scenario),
        llm=f"openai/{model}",
        llm_args={"temperature": 0.0, **where},
    )
