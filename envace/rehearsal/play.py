"""The moves of which rehearsals are made: write act turns, answer them, say something in words."""

from collections.abc import Sequence

from envace.chat.compact import act_text
from envace.engines import Completion, Sampling
from envace.rehearsal.base import Conversation, Policy, Preparation
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Episode, Limits, Notes
from envace.rollout.responders import RehearsalResponder
from envace.rollout.sampling import with_markers

Prompt = tuple[Conversation, Notes]
"""A conversation with the private messages in view."""


def write_turns(
    policy: Policy, prompts: Sequence[Prompt], sampling: Sampling, n: int = 1
) -> list[list[Completion]]:
    """Sample `n` act turns for every prompt, in one batch; those of a prompt share its prefill."""
    template = policy.template
    rendered = [template.render((*state.messages, *notes), state.tools).ids for state, notes in prompts]
    return policy.engine.generate(rendered, with_markers(sampling, template, template.act_stop_ids), n)


def say(policy: Policy, prompts: Sequence[Prompt], sampling: Sampling) -> list[tuple[str, Completion]]:
    """Let the act role write in words; a call that it writes instead is taken as its words."""
    turns = [group[0] for group in write_turns(policy, prompts, sampling)]
    return [(act_text(policy.template.parse_act(turn.ids)).strip(), turn) for turn in turns]


def respond(
    policy: Policy, conversations: Sequence[Conversation], turns: Sequence[Completion], sampling: Sampling
) -> list[Episode]:
    """Let the environment role answer act turns, whatever notes these were written in view of.

    It sees the conversation and the calls alone: that is how it learned to predict, and a memory of
    its former predictions would only make it repeat them.
    """
    prompts = [(state.task(), ()) for state in conversations]
    responder = RehearsalResponder(policy.engine, policy.template, sampling)
    return answered_episodes(_Spoken(turns), policy.template, prompts, sampling, responder, Limits(turns=1))


class _Spoken:
    """An act role whose turns are already written."""

    generated_tokens = 0

    def __init__(self, turns: Sequence[Completion]) -> None:
        self.turns = turns

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """The turns, in the order of the prompts."""
        return [[turn] for turn in self.turns]


def commit(
    policy: Policy,
    conversations: Sequence[Conversation],
    prepared: Sequence[Preparation],
    sampling: Sampling,
) -> list[Completion]:
    """The act turn of every conversation: the one decided on, or one sampled with the notes in view."""
    open_ones = [
        (state, item.notes)
        for state, item in zip(conversations, prepared, strict=True)
        if item.decided is None
    ]
    sampled = iter(write_turns(policy, open_ones, sampling) if open_ones else [])
    return [item.decided if item.decided is not None else next(sampled)[0] for item in prepared]
