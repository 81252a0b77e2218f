"""What a rehearsal strategy is: conversations in, preparations out, with a policy and nothing else.

A strategy never holds what could execute a call: a `Conversation` is stripped of the world and the
seed from which a task's world is rebuilt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from envace.chat import Template, load_template
from envace.engines import Completion, Engine
from envace.rehearsal.trace import Trace
from envace.trajectory import Message, Task, Tool, ToolCall


@dataclass(frozen=True, slots=True)
class Conversation:
    """A state to rehearse from: any point of an episode at which the act role writes next."""

    messages: tuple[Message, ...]
    """The conversation so far."""
    tools: tuple[Tool, ...] = ()
    """Tools on offer."""

    def task(self) -> Task:
        """The conversation in the form that roll-outs take; no world can be rebuilt from it."""
        return Task(id="private", world="", template="", seed=0, tools=self.tools, messages=self.messages)


def conversations(tasks: Sequence[Task]) -> list[Conversation]:
    """The start states of tasks."""
    return [Conversation(task.messages, task.tools) for task in tasks]


@dataclass(frozen=True)
class Policy:
    """A policy, able to play both roles."""

    engine: Engine
    """Where its tokens come from."""
    template: Template
    """Its chat template."""


def load_policy(folder: Path, device: str = "cpu", dtype: str = "float32") -> Policy:
    """The policy of a model folder, sampled in process."""
    from envace.engines.hf import HFEngine
    from envace.models.build import load

    template = load_template(folder)
    return Policy(HFEngine(load(folder, device, dtype), template.vocabulary), template)


@dataclass(frozen=True)
class Settings:
    """Parameters that all strategies share."""

    budget: int = 4
    """How much is rehearsed: branches, rounds, steps or samples, see the strategy."""
    memory: str = "ranked"
    """Who writes the memory, a name in `envace.rehearsal.memories.MEMORIES`."""
    memory_tokens: int = 1024
    """Tokens of the memory at most; what stands last in it leaves first."""
    temperature: float = 1.0
    """Of everything that is sampled in private."""
    turn_tokens: int = 64
    """Tokens at most of one private turn; of a whole branch where both roles write in one generation."""


@dataclass(frozen=True)
class Preparation:
    """What a strategy hands to the act role for one conversation."""

    notes: tuple[Message, ...] = ()
    """Private messages to put after the conversation."""
    decided: Completion | None = None
    """The act turn itself, where the strategy settled it; nothing is then left to sample."""
    trace: Trace = field(default_factory=Trace)
    """How it came about."""

    @property
    def tokens(self) -> int:
        """Tokens written in private, a turn that was decided on not among them."""
        return sum(self.trace.tokens.values())

    @property
    def recommended(self) -> ToolCall | None:
        """The call the memory's rule ranks first, without the act role's judgment."""
        return self.trace.recommended


class Strategy(Protocol):
    """What a policy does in private before it commits; made from `Settings`."""

    every_turn: ClassVar[bool]
    """Whether an evaluation prepares before each act turn; otherwise before the first one only."""

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        """Prepare the next act turn of every conversation, all of them together.

        Args:
            policy: The policy, in both roles.
            conversations: States to rehearse from.
            seed: Seed of all sampling; equal seeds give equal preparations.

        Returns:
            One preparation a conversation, in order.
        """
        ...
