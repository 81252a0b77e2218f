"""How a person is asked about a call, and what a client is told of a call that was stopped.

Protocol revisions up to 2025-11-25 have elicitation as a request to the client. From 2026-07-28 on the
call itself is answered by `input_required`, and the client makes it again with the answer.
"""

from collections.abc import Mapping
from typing import Any

from envace.guard.verdict import Verdict
from envace.trajectory import ToolCall, compact

ANSWER = "allow"
"""Name of the one field of the question, and of the input request."""
SHOWN = 400
"""Characters of arguments that are shown."""
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
"""Key in `_meta` of a request in revisions without a handshake."""
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
"""Key in `_meta` of what the client can do, there."""
VERDICT_KEY = "envace/verdict"
"""Key in `_meta` of a result under which the verdict stands."""


def can_ask(capabilities: Mapping[str, Any] | None) -> bool:
    """Whether a client shows forms to a person; `elicitation: {}` means forms."""
    offered = (capabilities or {}).get("elicitation")
    return isinstance(offered, dict) and ("form" in offered or not offered)


def question(call: ToolCall, verdict: Verdict) -> dict[str, Any]:
    """Parameters of `elicitation/create`."""
    field = {"type": "boolean", "title": f"Execute {call.name}", "default": False}
    return {
        "message": f"{_shown(call)} cannot be undone, and the guard has a doubt "
        f"(rule {verdict.rule}): {verdict.reason}. Execute it?",
        "requestedSchema": {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]},
    }


def input_required(call: ToolCall, verdict: Verdict, state: str) -> dict[str, Any]:
    """The question as the result of the call."""
    asked = {"method": "elicitation/create", "params": question(call, verdict)}
    return {"resultType": "input_required", "inputRequests": {ANSWER: asked}, "requestState": state}


def answer_of(elicited: Mapping[str, Any] | None) -> str:
    """`accept`, `decline` or `cancel`; a form that was sent without consent in it is a `decline`."""
    action = (elicited or {}).get("action")
    if action == "accept":
        return "accept" if ((elicited or {}).get("content") or {}).get(ANSWER) is True else "decline"
    return "cancel" if action == "cancel" else "decline"


def stopped(call: ToolCall, verdict: Verdict, said: str, mend: str) -> str:
    """What a client reads of a call that did not pass."""
    return (
        f"The guard stopped {_shown(call)}: {said}, rule {verdict.rule}: {verdict.reason}. "
        f"Nothing was executed. Mend: {mend}."
    )


def refusal(call: ToolCall, verdict: Verdict, answer: str, modern: bool) -> dict[str, Any]:
    """The result of a call that was stopped.

    Args:
        call: The call.
        verdict: Why.
        answer: What became of a question, empty where none was due.
        modern: The revision wants a `resultType`.
    """
    if answer == "unasked":
        said = "needs consent"
        mend = (
            "it takes a person's consent: use a client with elicitation, or allow it in the guard's "
            "configuration (tools.reversible, or another decision for the rule)"
        )
    elif answer:
        said, mend = f"asked about, answer: {answer}", "a person decided against it"
    else:
        said, mend = "denied", "change the call, or look closer at the state first"
    text = stopped(call, verdict, said, mend)
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {VERDICT_KEY: verdict.model_dump(mode="json")},
    }
    return result | ({"resultType": "complete"} if modern else {})


def _shown(call: ToolCall) -> str:
    arguments = compact(call.arguments)
    return f"{call.name} {arguments if len(arguments) <= SHOWN else arguments[:SHOWN] + '…'}"
