"""Who rehearses a call: a policy's environment role in process, or a model behind a chat endpoint.

Neither holds anything that could execute the call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from envace.chat import load_template
from envace.chat.prompted import PromptedLayout, Situation, fitted_messages
from envace.engines import Sampling
from envace.engines.openai import ChatClient
from envace.errors import EnvaceError
from envace.rehearsal.base import Policy
from envace.rollout.remote import evened
from envace.rollout.sampling import with_markers
from envace.serve.batching import Batcher, CallerEngine
from envace.serve.policy_backend import Nobody
from envace.trajectory import Message, Tool, ToolCall

CHARACTERS_A_TOKEN = 3
"""Characters that stand for a token where no tokenizer is at hand: more tokens than there will be."""


@dataclass(frozen=True)
class Pending:
    """A call that waits for a verdict, and what is known when it is made."""

    call: ToolCall
    """The call."""
    tools: tuple[Tool, ...] = ()
    """Tools on offer."""
    messages: tuple[Message, ...] = ()
    """The conversation before the call; where none is known, the earlier calls with their results."""


@dataclass(frozen=True)
class Rehearsal:
    """What came of rehearsing a call."""

    predictions: tuple[str | None, ...]
    """Predicted responses; None for one that was cut or illegible."""
    tokens: int
    """Tokens written for them."""


class Rehearser(Protocol):
    """Predicts what a call would return; safe to use from several threads."""

    def rehearse(self, pending: Pending, times: int) -> Rehearsal:
        """Predict the response independently, several times.

        Args:
            pending: The call.
            times: How many predictions.

        Raises:
            EnvaceError: The call cannot be rehearsed.
        """
        ...


class PolicyRehearser:
    """The environment role of a policy in process; it continues the chat, as in roll-outs."""

    def __init__(
        self, policy: Policy, context: int, temperature: float = 1.0, max_tokens: int = 256, seed: int = 0
    ) -> None:
        """Rehearse with a policy.

        Args:
            policy: The policy; its engine is entered by many threads.
            context: Tokens that prompt and response may have together.
            temperature: Of the sampling; at 0 all predictions are the same.
            max_tokens: Tokens of a response at most.
            seed: Of the sampling: an equal call in an equal situation gets equal predictions.
        """
        self.policy = policy
        self.context = context
        sampling = Sampling(temperature, max_tokens, seed=seed)
        self.sampling = with_markers(sampling, policy.template, policy.template.environment_stop_ids)

    def rehearse(self, pending: Pending, times: int) -> Rehearsal:
        """Sample all predictions in one batch; they share the prompt's prefill."""
        template = self.policy.template
        turn = Message(role="assistant", tool_calls=(pending.call,))
        prompt = template.render((*pending.messages, turn), pending.tools).ids
        length = len(prompt) + self.sampling.max_new_tokens
        if length > self.context:
            raise EnvaceError(
                f"the call, what came before it and a response have {length} tokens, the policy reads "
                f"{self.context}",
                "show less history, or rehearse with a larger model",
            )
        (group,) = self.policy.engine.generate([prompt], self.sampling, times)
        predictions = tuple(
            template.response_text(item.ids)
            if item.stopped and template.ends_response(item.ids[-1], False)
            else None
            for item in group
        )
        return Rehearsal(predictions, sum(len(item.ids) for item in group))


def load_policy_rehearser(folder: Path, temperature: float, max_tokens: int) -> PolicyRehearser:
    """A rehearser over a saved policy folder."""
    from envace.engines.hf import HFEngine
    from envace.models.build import load

    template = load_template(folder)
    model = load(folder)
    policy = Policy(shared_engine(Batcher(HFEngine(model, template.vocabulary))), template)
    return PolicyRehearser(policy, int(model.config.max_position_embeddings), temperature, max_tokens)


def shared_engine(batcher: Batcher) -> CallerEngine:
    """An engine for many threads: calls that are rehearsed at once are decoded together."""
    return CallerEngine(batcher, Nobody())


class ChatRehearser:
    """A model behind an OpenAI-compatible endpoint, shown the `prompted` layout as text."""

    def __init__(
        self,
        client: ChatClient,
        layout: PromptedLayout | None = None,
        temperature: float = 1.0,
        max_tokens: int = 256,
        seed: int = 0,
    ) -> None:
        """Rehearse through `client`.

        Args:
            client: The servers.
            layout: What the model is shown; everything but the caller's raw message unless given.
            temperature: Of its sampling.
            max_tokens: Tokens of a response at most.
            seed: Of the first prediction; each further one adds one.
        """
        self.client = client
        self.layout = layout or PromptedLayout(caller=False)
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.seed = seed

    def rehearse(self, pending: Pending, times: int) -> Rehearsal:
        """Ask for all predictions concurrently.

        Raises:
            ChatError: No server gave a reply.
        """
        situation = Situation(pending.tools, pending.messages, "", pending.call)
        prompt = fitted_messages(_estimated_tokens, self.layout, situation)
        seeds = range(self.seed, self.seed + times)
        predictions, tokens = [], 0
        for text, written in self.client.each(lambda seed: self._one(prompt, seed), seeds):
            predictions.append(text)
            tokens += written
        return Rehearsal(tuple(predictions), tokens)

    def _one(self, prompt: Sequence[Message], seed: int) -> tuple[str | None, int]:
        reply = self.client.chat(prompt, temperature=self.temperature, max_tokens=self.max_tokens, seed=seed)
        whole = reply.finish_reason != "length"
        return (evened(reply.message.content) or None) if whole else None, reply.completion_tokens


def _estimated_tokens(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages) // CHARACTERS_A_TOKEN
