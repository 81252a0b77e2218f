"""The server's backend over a policy in process."""

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from envace.chat import Template, load_template
from envace.engines import Engine, Job, Sampled, Sampling, engine
from envace.errors import EnvaceError
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings
from envace.rehearsal.strategies import Named, strategy
from envace.serve.backend import Caller, ChatReply, ChatRequest, ContextTooLongError, Delta
from envace.serve.batching import Batcher, CallerEngine
from envace.serve.errors import RequestError
from envace.serve.limits import MOST_BUDGET
from envace.serve.turn import Turn, decided_turn

ATTEMPTS = 4
"""Turns written at most to get a forced call that is legible."""


class Nobody:
    """A caller that waits for the whole reply."""

    streaming = False

    def waiting(self) -> bool:
        """Always."""
        return True

    def tell(self, delta: Delta) -> None:
        """Not interested."""


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
            branches: Branches of a private rehearsal whose name says no number.
            max_tokens: Tokens of one reply where the client sets no limit.
            strategies: Strategies listed; the plain name stands for the first, and a request may
                name others.
        """
        self.name = name
        self.batcher = Batcher(engine)
        self.template = template
        self.context = context
        self.branches = branches
        self.max_tokens = max_tokens
        self.strategies = strategies

    def models(self) -> list[str]:
        """Names a request may ask for, the default first."""
        return [self.name, *(f"{self.name}@{key}" for key in self.strategies[1:])]

    def reply(self, request: ChatRequest) -> ChatReply:
        """Rehearse if asked, then write `n` assistant turns."""
        return self.answer(request, Nobody())

    def answer(self, request: ChatRequest, caller: Caller) -> ChatReply:
        """The same for a caller that may read along or leave; see `ConcurrentBackend`."""
        chosen = self._strategy(request)
        limit = request.max_tokens or self.max_tokens
        length = len(self.template.render(request.messages, request.tools).ids)
        if length + limit > self.context:
            raise ContextTooLongError(length + limit, self.context)
        seed = secrets.randbelow(2**31) if request.seed is None else request.seed % 2**63
        engine = CallerEngine(self.batcher, caller)
        conversation = Conversation(request.messages, request.tools)
        prepared = chosen.prepare(Policy(engine, self.template), [conversation], seed)[0]
        prompt = self.template.render((*request.messages, *prepared.notes), request.tools).ids
        if len(prompt) >= self.context:
            raise ContextTooLongError(len(prompt) + limit, self.context)
        sampling = Sampling(
            request.temperature,
            min(limit, self.context - len(prompt)),
            self.template.act_stop_ids,
            self.template.forbidden_ids,
            seed,
            request.top_p,
            alternatives=request.alternatives or 0,
        )
        turns = self._decided(request, prepared)
        before = engine.generated_tokens
        if turns is None:
            turns = self._written(request, caller, engine, prompt, sampling)
        completion_tokens = sum(len(turn.sampled) for turn, _ in turns)
        finished = [turn.finish(stopped, request.parallel) for turn, stopped in turns]
        spoiled = max(0, engine.generated_tokens - before - completion_tokens)
        wanted = request.alternatives is not None
        return ChatReply(
            messages=tuple(message for message, _ in finished),
            finish_reasons=tuple(reason for _, reason in finished),
            prompt_tokens=len(prompt),
            completion_tokens=completion_tokens,
            rehearsal_tokens=prepared.tokens + spoiled,
            logprobs=tuple(turn.logprobs() for turn, _ in turns) if wanted else None,
            trace=prepared.trace,
        )

    def _strategy(self, request: ChatRequest) -> Named:
        """The strategy that a request asks for, in its field or its model's name."""
        name, at, suffix = request.model.partition("@")
        if name != self.name or (at and not suffix):
            raise RequestError(f"no model {request.model!r}: see /v1/models", "model_not_found", 404)
        try:
            chosen = strategy(
                request.strategy or suffix or self.strategies[0], Settings(budget=self.branches)
            )
        except EnvaceError as error:
            status = (400, "unsupported_value") if request.strategy else (404, "model_not_found")
            raise RequestError(str(error), status[1], status[0]) from error
        if chosen.budget > (most := max(MOST_BUDGET, self.branches)):
            raise RequestError(f"a rehearsal budget of {chosen.budget}: at most {most}")
        return chosen

    def _turn(self, request: ChatRequest, number: int, forced: bool = True) -> Turn:
        opening = [] if request.forced is None or not forced else self.template.call_opening(request.forced)
        return Turn(self.template, number, request.stop, opening, request.alternatives is not None)

    def _decided(self, request: ChatRequest, prepared: Preparation) -> list[tuple[Turn, bool]] | None:
        """The turns that the strategy settled, unless a call is forced that they lack."""
        if prepared.decided is None:
            return None
        turns = [
            decided_turn(self._turn(request, number, False), prepared.decided) for number in range(request.n)
        ]
        decided = [(turn, prepared.decided.stopped) for turn in turns]
        return decided if all(self._legible(request, *item) for item in decided) else None

    def _written(
        self,
        request: ChatRequest,
        caller: Caller,
        engine: CallerEngine,
        prompt: list[int],
        sampling: Sampling,
    ) -> list[tuple[Turn, bool]]:
        """`n` turns; those that lack a forced call are written anew, not greedily any more."""
        done: dict[int, tuple[Turn, bool]] = {}
        for attempt in range(ATTEMPTS):
            turns = [self._turn(request, number) for number in range(request.n) if number not in done]

            def listener(number: int, sampled: Sampled, turns: list[Turn] = turns) -> bool:
                more = turns[number].add(sampled)
                if caller.streaming and (delta := turns[number].news()) is not None:
                    caller.tell(delta)
                return more

            (group,) = engine.run(Job([prompt + turns[0].opening], sampling, len(turns), listener))
            for turn, completion in zip(turns, group, strict=True):
                if self._legible(request, turn, completion.stopped):
                    done[turn.number] = turn, completion.stopped
            if len(done) == request.n:
                return [done[number] for number in range(request.n)]
            warmer = sampling.temperature or 1.0
            sampling = replace(sampling, seed=sampling.seed + attempt + 1, temperature=warmer)
        wanted = f"a call of {request.forced}" if request.forced else "a call"
        raise RequestError(
            f"the model wrote no {wanted[2:]} in {ATTEMPTS} attempts: allow more tokens, or tool_choice=auto",
            "no_tool_call",
            422,
        )

    def _legible(self, request: ChatRequest, turn: Turn, stopped: bool) -> bool:
        """Whether a turn holds the call that is forced, if one is, and only calls on offer."""
        if request.forced is None:
            return True
        names = {request.forced} if request.forced else {tool.name for tool in request.tools}
        calls = turn.finish(stopped, request.parallel)[0].tool_calls
        return bool(calls) and all(call.name in names for call in calls)


def load_backend(
    folder: Path | str,
    branches: int,
    max_tokens: int,
    name: str = "envace",
    strategies: tuple[str, ...] = ("none", "parallel"),
    sampler: str = "hf",
    **options: Any,
) -> PolicyBackend:
    """A backend over a saved policy folder.

    Args:
        folder: The policy.
        branches: See `PolicyBackend`.
        max_tokens: See `PolicyBackend`.
        name: See `PolicyBackend`.
        strategies: See `PolicyBackend`.
        sampler: Name of the engine.
        options: Its settings.

    Raises:
        EnvaceError: The folder holds no policy, or the engine cannot be had here.
    """
    from envace.models.build import load

    template = load_template(folder)
    model = load(folder)
    context = int(model.config.max_position_embeddings)
    sampling = engine(sampler, model, template.vocabulary, **options)
    return PolicyBackend(name, sampling, template, context, branches, max_tokens, strategies)
