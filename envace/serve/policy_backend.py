"""The server's backend over a policy in process."""

from pathlib import Path

from envace.chat import Template, load_template
from envace.engines import Engine, Sampling
from envace.rehearsal.base import Conversation, Policy, Settings
from envace.rehearsal.strategies import strategy
from envace.serve.backend import ChatReply, ChatRequest, ContextTooLongError, FinishReason
from envace.trajectory import Message, ToolCall


class PolicyBackend:
    """Answers chats with a policy; `NAME@STRATEGY` rehearses privately first."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        template: Template,
        context: int,
        branches: int,
        max_tokens: int,
        strategies: tuple[str, ...] = ("none", "parallel"),
    ) -> None:
        """Wrap a policy.

        Args:
            name: Model name; strategies other than the first are `name@strategy`.
            engine: The policy.
            template: Its chat template.
            context: Longest conversation plus reply, in tokens.
            branches: Branches of a private rehearsal.
            max_tokens: Tokens of one reply where the client sets no limit.
            strategies: Strategies on offer; the plain name stands for the first.
        """
        self.name = name
        self.engine = engine
        self.template = template
        self.context = context
        self.branches = branches
        self.max_tokens = max_tokens
        self.strategies = {
            name if position == 0 else f"{name}@{key}": key for position, key in enumerate(strategies)
        }

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        return list(self.strategies)

    def reply(self, request: ChatRequest) -> ChatReply:
        """Rehearse if asked, then write `n` assistant turns."""
        limit = request.max_tokens or self.max_tokens
        prompt = self.template.render(request.messages, request.tools).ids
        if len(prompt) + limit > self.context:
            raise ContextTooLongError(len(prompt) + limit, self.context)
        seed = request.seed or 0
        rehearsal = strategy(self.strategies[request.model], Settings(budget=self.branches))
        conversation = Conversation(request.messages, request.tools)
        prepared = rehearsal.prepare(Policy(self.engine, self.template), [conversation], seed)[0]
        prompt = self.template.render((*request.messages, *prepared.notes), request.tools).ids
        stop = self.template.act_stop_ids
        sampling = Sampling(request.temperature, limit, stop, self.template.forbidden_ids, seed)
        if prepared.decided is not None:
            completions = [prepared.decided] * request.n
        else:
            completions = self.engine.generate([prompt], sampling, request.n)[0]
        messages, reasons = [], []
        for completion in completions:
            message, reason = self._turn(completion.ids)
            messages.append(message)
            reasons.append(reason)
        return ChatReply(
            messages=tuple(messages),
            finish_reasons=tuple(reasons),
            prompt_tokens=len(prompt),
            completion_tokens=sum(len(completion.ids) for completion in completions),
            rehearsal_tokens=prepared.tokens,
        )

    def _turn(self, ids: list[int]) -> tuple[Message, FinishReason]:
        message = self.template.parse_act(ids)
        if message.tool_calls:
            calls = tuple(
                ToolCall(name=call.name, arguments=call.arguments, id=f"call_{index}")
                for index, call in enumerate(message.tool_calls)
            )
            return message.model_copy(update={"tool_calls": calls}), "tool_calls"
        return message, "stop" if ids[-1] in self.template.end_ids else "length"


def load_backend(
    folder: Path | str,
    branches: int,
    max_tokens: int,
    name: str = "envace",
    strategies: tuple[str, ...] = ("none", "parallel"),
) -> PolicyBackend:
    """A backend over a saved policy folder."""
    from envace.engines.hf import HFEngine
    from envace.models.build import load

    template = load_template(folder)
    model = load(folder)
    context = int(model.config.max_position_embeddings)
    engine = HFEngine(model, template.vocabulary)
    return PolicyBackend(name, engine, template, context, branches, max_tokens, strategies)
