"""A served model that answers by rule."""

from collections.abc import Callable

from envace.serve import ChatReply, ChatRequest
from envace.trajectory.records import Message


class RuleBackend:
    """Answers with whatever `rule` makes of the request."""

    def __init__(self, rule: Callable[[ChatRequest], Message]) -> None:
        self.rule = rule
        self.requests: list[ChatRequest] = []

    def models(self) -> list[str]:
        return ["rule_model/1"]

    def reply(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        turn = self.rule(request)
        return ChatReply(
            messages=(turn,),
            finish_reasons=("tool_calls" if turn.tool_calls else "stop",),
            prompt_tokens=10,
            completion_tokens=2,
            rehearsal_tokens=5,
        )
