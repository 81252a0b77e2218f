"""What stands between VitaBench and its three models: the agent under test, the user, the judge.

The benchmark sends each model's whole configuration, the key included, in the body of a request, and takes
an error for an answer. Here the body keeps what the API knows, the key travels in the header alone, and an
endpoint that fails ends the run.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

SIDES = ("agent", "user", "judge")
"""Names that the benchmark knows the models by."""

SENT = ("messages", "tools", "tool_choice", "temperature", "stream")
"""What of the benchmark's request is sent on."""

WAITS = (0.5, 1.0, 2.0)
"""Seconds before each further try."""


class EndpointFailed(BaseException):
    """An endpoint gave no answer; not an `Exception`, which the benchmark would swallow."""


class TaskLost(BaseException):
    """The model's own failure: the task is scored 0 with this reason."""


class NoVerdict(BaseException):
    """The judge answered, but not with a verdict: the task has no score."""


@dataclass(frozen=True)
class Answered:
    """A response as far as the benchmark looks at it."""

    reply: dict[str, Any]
    """The chat completion."""
    status_code: int = 200
    """Always a success: what is none ends elsewhere."""

    def json(self) -> dict[str, Any]:
        """The chat completion."""
        return self.reply


class Wire:
    """Sends the benchmark's requests.

    Args:
        verdict: Reads a judge's answer; empty when it is none.
    """

    def __init__(self, verdict: Callable[[str], Any]) -> None:
        self.verdict = verdict
        self.reset()

    def reset(self) -> None:
        """Start counting for the next task."""
        self.spent = {"act_tokens": 0, "rehearsal_tokens": 0, "steps": 0}

    def post(self, url: str, json: dict[str, Any], **_: Any) -> "Answered":
        """In place of `requests.post`: the answer of the model that `json` names.

        Raises:
            EndpointFailed: It gave none.
            TaskLost: The agent's conversation is too long, or its calls can't be read.
            NoVerdict: The judge gave no verdict, however often asked.
        """
        side = json["model"]
        for wait in (*WAITS, None):
            reply = self.answer(url, side, json)
            message = reply["choices"][0]["message"]
            if side == "agent":
                self.count(reply.get("usage") or {})
                check_calls(message)
            if side != "judge" or self.judged(message.get("content") or ""):
                message["content"] = spoken(message.get("content"))
                return Answered(reply)
            if wait is not None:
                time.sleep(wait)
        raise NoVerdict("the judge gave no verdict")

    def judged(self, content: str) -> bool:
        """True when an answer of the judge's holds a verdict."""
        try:
            return bool(self.verdict(content))
        except Exception:
            return False

    def answer(self, url: str, side: str, asked: dict[str, Any]) -> dict[str, Any]:
        """One chat completion; what may pass with time is tried again."""
        body = {key: asked[key] for key in SENT if asked.get(key) is not None}
        body["model"] = os.environ[f"{side.upper()}_MODEL"]
        if side == "agent":
            body["seed"] = int(os.environ["ENVACE_SEED"])
        headers = {"Authorization": f"Bearer {os.environ[f'{side.upper()}_KEY']}"}
        reason = ""
        for wait in (*WAITS, None):
            try:
                response = requests.post(url, json=body, headers=headers, timeout=(10, 600))
                if response.status_code == 200:
                    reply = response.json()
                    if reply["choices"][0]["message"]["role"] == "assistant":
                        return reply
                reason = f"{response.status_code} {response.text[:200]}"
                if side == "agent" and "context_length_exceeded" in response.text:
                    raise TaskLost("context_length_exceeded")
                if response.status_code < 500 and response.status_code not in (200, 429):
                    break
            except (requests.RequestException, LookupError, TypeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
            if wait is not None:
                time.sleep(wait)
        raise EndpointFailed(f"the {side}'s: {reason}"[:300])

    def count(self, usage: dict[str, Any]) -> None:
        """Add what a turn of the agent cost."""
        details = usage.get("completion_tokens_details") or {}
        self.spent["act_tokens"] += usage.get("completion_tokens") or 0
        self.spent["rehearsal_tokens"] += details.get("rehearsal_tokens") or 0
        self.spent["steps"] += 1


def spoken(content: str | None) -> str | None:
    """Content without thoughts in front, which are no words to anybody."""
    return content.rpartition("</think>")[2].strip() or None if content else content


def check_calls(message: dict[str, Any]) -> None:
    """Refuse calls whose arguments are no JSON object: the benchmark would lose the whole turn."""
    for call in message.get("tool_calls") or []:
        try:
            arguments = json.loads(call["function"].get("arguments") or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise TaskLost("arguments are no JSON object")
