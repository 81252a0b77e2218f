"""What an executable world is: tools over a small state, goal templates, and an expert.

A world is rebuilt exactly from (world, template, names, seed), so a task carries no
code, and any finished episode can be verified by replaying its calls.
"""

import copy
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from envace.contact import touch
from envace.errors import EnvaceError
from envace.trajectory import Tool, ToolCall
from envace.worlds.names import NamePool

Response = dict[str, Any]
Expert = Generator[ToolCall, Response, str]
"""Yields the next call, receives its response, returns the final answer."""

Split = Literal["demonstrated", "practiced", "held_out"]
"""Warm-up and training; training, and a few times in warm-up; evaluation only."""


class ToolError(Exception):
    """A refusal of a world: becomes an `{"error": …}` response, never a crash."""

    def __init__(self, code: str, **details: Any) -> None:
        self.response: Response = {"error": code, **details}
        super().__init__(code)


class NotPossible(Exception):  # noqa: N818 - control flow: the start state offers no such goal
    """A template cannot pose its goal in this start state; another state is drawn."""


@dataclass(frozen=True)
class Goal:
    """One concrete goal in one start state."""

    text: str
    """What the user asks."""
    expert: Callable[[], Expert]
    """A fresh solver; sees only what the policy sees: the goal and responses."""


class World:
    """Base of all worlds.

    Override `tools`, `templates`, `__init__` (draw a start state), `printed`, `state`,
    `random_arguments` and one method per tool named like the tool. The rest is machinery.
    """

    name: ClassVar[str]
    """Registry name."""
    tools: ClassVar[tuple[Tool, ...]]
    """Tools on offer, each implemented by the method of the same name."""
    templates: ClassVar[dict[str, Split]]
    """Goal templates by name; the method `goal_<name>` poses the goal."""
    commit_once: ClassVar[bool] = False
    """True when the only useful action is irreversible: rehearse before it."""

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        raise NotImplementedError

    def printed(self) -> str:
        """The state as the prompt shows it: every response is a part of it wherever possible."""
        raise NotImplementedError

    def state(self) -> Any:
        """A comparable value; equal values mean the goal state is reached.

        It holds what was done as well as what is: an order that was placed and canceled
        leaves the same stock as doing nothing, and doing nothing must not pass.
        """
        raise NotImplementedError

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        """Plausible arguments for a drill call: usually valid, sometimes naming unknown things."""
        raise NotImplementedError

    def commit_arguments(self) -> list[dict[str, Any]]:
        """Commit-once worlds: arguments of every commit that the start state allows."""
        return []

    def call(self, call: ToolCall) -> Response:
        """Execute a call; refusals and malformed calls answer `{"error": code}`."""
        touch()
        tool = next((tool for tool in self.tools if tool.name == call.name), None)
        if tool is None:
            return {"error": "tool"}
        properties = tool.parameters["properties"]
        if set(call.arguments) != set(properties):
            return {"error": "arguments"}
        kinds = {"string": str, "integer": int}
        for key, value in call.arguments.items():
            if type(value) is not kinds[properties[key]["type"]]:
                return {"error": "arguments"}
        try:
            return getattr(self, call.name)(**call.arguments)
        except ToolError as refusal:
            return refusal.response

    def goal(self, template: str, rng: random.Random, names: NamePool) -> Goal:
        """Pose the goal of a template in the current start state."""
        return getattr(self, f"goal_{template}")(rng, names)

    def copy(self) -> "World":
        """An independent copy of the state."""
        return copy.deepcopy(self)


def tool(
    name: str,
    description: str,
    /,
    irreversible: bool = False,
    returns: dict[str, Any] | None = None,
    **kinds: str,
) -> Tool:
    """A `Tool` whose parameters are all required; `kinds` maps each to its JSON type."""
    return Tool(
        name=name,
        description=description,
        irreversible=irreversible,
        returns=returns,
        parameters={
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in kinds.items()},
            "required": list(kinds),
        },
    )


def one_key(value: dict[str, Any]) -> dict[str, Any]:
    """Schema of an object that echoes one key of the request."""
    return {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": value}


def row(*kinds: str) -> dict[str, Any]:
    """Schema of a fixed-length list with the given JSON types."""
    items = [{"type": kind} for kind in kinds]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def keys(**kinds: str) -> dict[str, Any]:
    """Schema of an object with exactly the given keys."""
    return {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in kinds.items()},
        "required": list(kinds),
        "additionalProperties": False,
    }


def start(
    world: type[World], template: str, pool: NamePool, seed: int, attempts: int = 200
) -> tuple[World, Goal]:
    """The start state and goal of a task; a pure function of its arguments.

    Raises:
        EnvaceError: the template is unknown, or no start state in `attempts` draws can pose it.
    """
    if template not in world.templates:
        raise EnvaceError(
            f"world {world.name} has no template {template!r}", f"one of {', '.join(world.templates)}"
        )
    rng = random.Random(f"{world.name}/{template}/{pool.label}/{seed}")
    for _ in range(attempts):
        instance = world(rng, pool)
        try:
            return instance, instance.goal(template, rng, pool)
        except NotPossible:
            continue
    raise EnvaceError(f"{world.name}.{template}: no start state poses this goal in {attempts} draws")
