"""The records every room shares: tools, calls, messages, tasks, checklists, trajectories.

They follow the OpenAI chat format where it has a word for something (role,
`tool_calls`, `tool_call_id`), so that a user's own logs need renaming, not rethinking.
"""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA_VERSION = 1
"""Version of the trajectory line format; a reader refuses a newer one."""

Role = Literal["system", "user", "assistant", "tool"]
Author = Literal["policy", "world", "recorded", "simulator"]


class Record(BaseModel):
    """Base of all records: immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcome(Record):
    """How the predicted responses of a tool compare, so that a rehearsal memory can be sorted."""

    field: str
    """Key of the response object that holds the number to compare."""
    better: Literal["lower", "higher"] = "lower"
    """Which direction is better."""


class Tool(Record):
    """A callable tool, as shown to the policy."""

    name: str
    """Unique within a task."""
    description: str = ""
    """One or two sentences; may be empty."""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments object."""
    returns: dict[str, Any] | None = None
    """JSON schema of the response, where the tool declares one."""
    irreversible: bool = False
    """True when a call cannot be taken back (MCP `destructiveHint`): worth rehearsing first."""
    outcome: Outcome | None = None
    """Set when responses can be ranked."""


class ToolCall(Record):
    """One call written by the act role."""

    name: str
    """Name of the tool called; may be unknown to the task when a model invents one."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Decoded arguments object."""
    id: str = ""
    """Pairs the call with its response; empty in single-call turns."""

    def text(self) -> str:
        """The call as compact JSON in the Hermes shape, `{"name":…,"arguments":…}`."""
        return compact({"name": self.name, "arguments": self.arguments})


class Message(Record):
    """One turn of a conversation."""

    role: Role
    """Who speaks. A `system` message after the first is a private memory (see `name`)."""
    content: str = ""
    """Text; for `tool` messages, the response as it was returned (usually JSON)."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of an assistant turn, in order."""
    tool_call_id: str = ""
    """For `tool` messages: the call answered."""
    name: str = ""
    """For `tool` messages the tool; `memory` marks a private rehearsal memory."""
    author: Author | None = None
    """Who produced the text: the policy, an executable world, a recording or a simulator."""
    trainable: bool = True
    """False when the turn is context only (an injected wrong call): its tokens carry no loss."""


class ChecklistItem(Record):
    """One machine- or judge-checkable condition on a user turn (CM2 checklist format)."""

    id: str
    """Unique within the task."""
    question: str
    """The condition as a yes/no question."""
    kind: Literal["goal_state", "answer", "call", "judge"] = "judge"
    """Who can check it: the world's state, the answer text, a call, or only a judge."""
    turn: int = Field(default=0, ge=0)
    """User turn it belongs to, from 0."""
    weight: float = Field(default=1.0, ge=0)
    """Share of the turn's reward; weights of one turn sum to 1."""
    focus_on: str = ""
    """Part of the output looked at, e.g. `assistant.tool_calls`."""
    pass_condition: str = ""
    """What counts as a yes."""


def weights_sum_to_one(items: tuple[ChecklistItem, ...]) -> bool:
    """True when, for every turn that has items, their weights sum to 1 (within 1e-6)."""
    totals: dict[int, float] = {}
    for item in items:
        totals[item.turn] = totals.get(item.turn, 0.0) + item.weight
    return all(abs(total - 1.0) < 1e-6 for total in totals.values())


class Task(Record):
    """Something to do: the prompt and how success is checked, without a solution."""

    id: str
    """Unique: world, template and seed."""
    world: str
    """Name of the executable world or tool server."""
    template: str
    """Goal template; held-out templates never occur in training."""
    seed: int
    """Rebuilds the world's start state and the goal exactly."""
    names: Literal["train", "held_out"] = "train"
    """Which pool of entity names the task draws from."""
    tools: tuple[Tool, ...]
    """Tools on offer."""
    messages: tuple[Message, ...]
    """The prompt: system (printed state) and user (goal)."""
    checklist: tuple[ChecklistItem, ...] = ()
    """Conditions of success; weights sum to 1 per turn."""

    @model_validator(mode="after")
    def _weights(self) -> "Task":
        if not weights_sum_to_one(self.checklist):
            raise ValueError(f"task {self.id}: checklist weights of a turn do not sum to 1")
        return self


class Lineage(Record):
    """Where a trajectory came from."""

    task_id: str = ""
    """Task it solves; empty for imported logs."""
    template: str = ""
    """Goal template or drill name."""
    names: str = ""
    """Entity pool."""
    origin: str = ""
    """File and line, or generator, that produced it."""


class Trajectory(Record):
    """A conversation with its tools, rewards and origin: one line of a trajectory file."""

    schema_version: int = SCHEMA_VERSION
    """Format version of this line."""
    id: str
    """Unique within the file."""
    source: str
    """Generator or import format: `world`, `drill`, `openai_messages`, `rollout`, …"""
    world: str = ""
    """World or tool server; empty for imported logs."""
    tools: tuple[Tool, ...] = ()
    """Tools that were on offer."""
    messages: tuple[Message, ...]
    """The whole conversation."""
    seed: int | None = None
    """Seed of the generator, where there is one."""
    reward: dict[str, float] = Field(default_factory=dict)
    """Reward parts by name, each in [0, 1]."""
    checklist: tuple[ChecklistItem, ...] = ()
    """Conditions of success."""
    lineage: Lineage = Lineage()
    """Origin."""

    @model_validator(mode="after")
    def _version(self) -> "Trajectory":
        if self.schema_version > SCHEMA_VERSION:
            raise ValueError(
                f"schema_version {self.schema_version} is newer than {SCHEMA_VERSION}: upgrade envace"
            )
        return self

    def calls(self) -> list[ToolCall]:
        """All calls in order."""
        return [call for message in self.messages for call in message.tool_calls]

    def user_text(self) -> str:
        """All user turns joined by newlines: what the leakage check compares."""
        return "\n".join(m.content for m in self.messages if m.role == "user")


def compact(value: Any) -> str:
    """JSON without spaces, keys in given order, non-ASCII kept."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
