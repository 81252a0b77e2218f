"""Trajectories from the executable worlds: expert demonstrations, drills, memory reading.

Every trajectory is a pure function of its seed, so the same parameters give the same bytes.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envace.rehearsal.memory import Rehearsed, memory_message
from envace.trajectory import Lineage, Message, Task, ToolCall, Trajectory, compact
from envace.worlds import DEFAULT, by_commitment
from envace.worlds import world as world_named
from envace.worlds.base import Split, World
from envace.worlds.names import PoolLabel, pool
from envace.worlds.tasks import pose, rebuild, solve, templates

DRILL_CALLS = 6
"""Calls in one drill."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """What to synthesize."""

    demonstrations: int
    """Expert solutions of demonstrated templates."""
    glimpses: int
    """Expert solutions of practiced templates: few, but exploration has to start from something."""
    drills: int
    """Random calls answered by the world: environment loss only."""
    memories: int
    """Commit-once tasks solved by reading a memory that may be wrong or partial."""
    commits: int
    """Commit-once tasks answered by a random commit: direct acting without knowledge."""
    wrong_call_rate: float
    """Chance of an injected wrong call before an expert call."""
    broken_rate: float
    """Share of drill calls that do not fit their tool's schema, as an exploring policy writes them."""
    noted_rate: float
    """Share of demonstrations with a private memory, so that one does not throw the policy off."""
    format_only: tuple[str, ...]
    """Worlds whose drill responses are shuffled: the role's format without its knowledge."""
    worlds: tuple[str, ...] = DEFAULT
    """Worlds that take part; every kind is spread evenly over those it is for."""

    def scaled(self, total: int) -> "Mixture":
        """The same shares of another number of trajectories; what rounding leaves goes to the drills."""
        chained, committing = by_commitment(self.worlds)
        whom = {
            "demonstrations": chained, "glimpses": chained, "memories": committing, "commits": committing,
        }  # fmt: skip
        numbers: dict[str, int] = {
            kind: getattr(self, kind) if whom.get(kind, self.worlds) else 0 for kind in KINDS
        }
        whole = max(1, sum(numbers.values()))
        scaled: dict[str, Any] = {kind: number * total // whole for kind, number in numbers.items()}
        scaled["drills"] += total - sum(scaled.values())
        return replace(self, **scaled)


KINDS = ("demonstrations", "glimpses", "drills", "memories", "commits")
"""Kinds of trajectories by the field with their number."""
SHARES = Mixture(
    demonstrations=800,
    glimpses=0,
    drills=800,
    memories=150,
    commits=50,
    wrong_call_rate=0.15,
    broken_rate=0.1,
    noted_rate=0.15,
    format_only=("courier", "ferry"),
)
"""What the source makes unless told otherwise."""


class Worlds:
    """The executable worlds as a source."""

    def __init__(self, worlds: Sequence[str] = DEFAULT, **mixture: Any) -> None:
        """A mixture of the worlds; `mixture` are fields of `Mixture` that differ from `SHARES`."""
        self.mixture = replace(SHARES, worlds=tuple(worlds), **mixture)

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Trajectory]:
        """See `Source.generate`; a `count` scales the numbers by kind."""
        yield from synthesize(self.mixture if count is None else self.mixture.scaled(count), seed)

    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {}


def respond(world: World, call: ToolCall, trainable_call: bool = True) -> list[Message]:
    """Execute a call; the assistant and tool messages it makes."""
    return [
        Message(role="assistant", tool_calls=(call,), trainable=trainable_call),
        Message(role="tool", name=call.name, content=compact(world.call(call)), author="world"),
    ]


def answer(text: str) -> Message:
    """The closing assistant turn."""
    return Message(role="assistant", content=text)


def trajectory(kind: str, task: Task, messages: list[Message], seed: int) -> Trajectory:
    """Assemble a synthetic trajectory; successful kinds carry reward 1."""
    return Trajectory(
        id=f"{kind}/{task.id}/{seed}",
        source=kind,
        world=task.world,
        tools=task.tools,
        messages=(*task.messages, *messages),
        seed=seed,
        reward={"success": 1.0} if kind == "demonstration" else {},
        checklist=task.checklist if kind == "demonstration" else (),
        lineage=Lineage(task_id=task.id, template=task.template, names=task.names, origin="envace.synthesis"),
    )


def demonstration(task: Task, rng: random.Random, mixture: Mixture) -> Trajectory:
    """The expert's solution.

    Now and then a wrong call (context only) gets its error response, and now and then a
    memory stands in front, with right and wrong predictions for useful and useless calls.
    """
    world, _ = rebuild(task)
    messages: list[Message] = []
    steps, final, _ = solve(task)
    if rng.random() < mixture.noted_rate:
        messages.append(_mixed_memory(task, world, steps[0].call, rng))
    for step in steps:
        if rng.random() < mixture.wrong_call_rate:
            wrong = random_call(world, rng, task.names)
            if "error" in world.copy().call(wrong):
                messages += respond(world, wrong, trainable_call=False)
        messages += respond(world, step.call)
    return trajectory("demonstration", task, [*messages, answer(final)], task.seed)


def _mixed_memory(task: Task, world: World, first: ToolCall, rng: random.Random) -> Message:
    """A memory as parallel rehearsal leaves it: mostly the first call, some others, some wrong."""
    calls = [first] if rng.random() < 0.7 else [random_call(world, rng, task.names)]
    calls += [random_call(world, rng, task.names) for _ in range(rng.randint(0, 2))]
    responses = [compact(world.copy().call(call)) for call in calls]
    if rng.random() < 0.3:
        rng.shuffle(responses)
    return memory_message(list(map(Rehearsed, calls, responses)), task.tools).message


def random_call(world: World, rng: random.Random, names: PoolLabel) -> ToolCall:
    """A drill call with plausible arguments."""
    name = rng.choice(world.tools).name
    return ToolCall(name=name, arguments=world.random_arguments(name, rng, pool(names)))


def broken_call(call: ToolCall, rng: random.Random) -> ToolCall:
    """The same call without one of its arguments, or with one of another type."""
    arguments = dict(call.arguments)
    key = rng.choice(list(arguments))
    if rng.random() < 0.5:
        del arguments[key]
    else:
        arguments[key] = rng.randint(0, 9) if isinstance(arguments[key], str) else str(arguments[key])
    return call.model_copy(update={"arguments": arguments})


def drill(task: Task, rng: random.Random, mixture: Mixture) -> Trajectory:
    """Random calls with their responses; the calls carry no loss.

    A commit-once world starts afresh for every call, or all but the first would be refused.
    There the calls do carry loss: they name a random offer by its own record, which is what
    the branches of a rehearsal have to do.
    """
    start, _ = rebuild(task)
    world = start.copy()
    messages: list[Message] = []
    for _ in range(DRILL_CALLS):
        if world.commit_once:
            world = start.copy()
        call = random_call(world, rng, task.names)
        broken = rng.random() < mixture.broken_rate
        if broken:
            call = broken_call(call, rng)
        messages += respond(world, call, trainable_call=world.commit_once and not broken)
    if task.world in mixture.format_only:
        messages = _responses_from_elsewhere(messages, task, rng)
    prompt = task.messages[0], Message(role="user", content="drill")
    return trajectory("drill", task.model_copy(update={"messages": prompt}), messages, task.seed)


def _responses_from_elsewhere(messages: list[Message], task: Task, rng: random.Random) -> list[Message]:
    """Give every call the response that the same tool gave in some other start state.

    The form and the spread of the responses stay true, their connection to the call is cut. Refusals
    of calls that do not fit the tool stay: they tell nothing of the rules.
    """
    world, _ = rebuild(task)
    return [
        message.model_copy(update={"content": _response_elsewhere(world, message.name, task.names, rng)})
        if message.role == "tool" and "error" not in json.loads(message.content)
        else message
        for message in messages
    ]


def _response_elsewhere(world: World, tool: str, names: PoolLabel, rng: random.Random) -> str:
    """What a tool answered to some other call in some other start state."""
    other = type(world)(rng, pool(names))
    arguments = other.random_arguments(tool, rng, pool(names))
    return compact(other.call(ToolCall(name=tool, arguments=arguments)))


def memory_reading(task: Task, rng: random.Random) -> Trajectory:
    """Commit to what a memory recommends, though the memory may be wrong or partial."""
    world, _ = rebuild(task)
    commits = _all_commits(world)
    known = rng.sample(commits, len(commits) if rng.random() < 0.6 else rng.randint(1, len(commits)))
    wrong = rng.random() < 0.4
    rehearsed = []
    for call in known:
        response = compact(world.copy().call(call))
        if wrong and rng.random() < 0.5:
            response = _response_elsewhere(world, call.name, task.names, rng)
        rehearsed.append(Rehearsed(call, response))
    memory = memory_message(rehearsed, task.tools)
    best = memory.best or rng.choice(commits)
    messages = [memory.message, *respond(world, best), answer("done")]
    return trajectory("memory", task, _without_environment_loss(messages), task.seed)


def random_commit(task: Task, rng: random.Random) -> Trajectory:
    """Commit to a random offer without a memory: what acting without knowledge looks like."""
    world, _ = rebuild(task)
    messages = [*respond(world, rng.choice(_all_commits(world))), answer("done")]
    return trajectory("commit", task, _without_environment_loss(messages), task.seed)


def _without_environment_loss(messages: list[Message]) -> list[Message]:
    """Take the loss off responses: these demonstrations must not teach the hidden rules."""
    return [m.model_copy(update={"trainable": False}) if m.role == "tool" else m for m in messages]


def _all_commits(world: World) -> list[ToolCall]:
    """Every call of the irreversible tool that the start state allows."""
    tool = next(tool for tool in world.tools if tool.irreversible)
    return [ToolCall(name=tool.name, arguments=arguments) for arguments in world.commit_arguments()]


def synthesize(mixture: Mixture, seed: int) -> Iterator[Trajectory]:
    """All trajectories of a mixture, interleaved by kind, in a fixed order."""
    chained, committing = by_commitment(mixture.worlds)

    def demonstrate(task: Task, rng: random.Random) -> Trajectory:
        return demonstration(task, rng, mixture)

    def drilled(task: Task, rng: random.Random) -> Trajectory:
        return drill(task, rng, mixture)

    plan: list[tuple[int, list[str], Split, Callable[[Task, random.Random], Trajectory]]] = [
        (mixture.demonstrations, chained, "demonstrated", demonstrate),
        (mixture.drills, list(mixture.worlds), "demonstrated", drilled),
        (mixture.memories, committing, "demonstrated", memory_reading),
        (mixture.commits, committing, "demonstrated", random_commit),
        (mixture.glimpses, chained, "practiced", demonstrate),
    ]
    number = 0
    for count, names, split, make in plan:
        # A kind that no chosen world is for is left out, as its numbers would be.
        for index in range(count if names else 0):
            number += 1
            rng = random.Random(f"synthesis/{seed}/{number}")
            name = names[index % len(names)]
            choices = templates(name, split)
            template = choices[(index // len(names)) % len(choices)]
            yield make(pose(name, template, seed * 1_000_000 + number, "train"), rng)


def held_out_tasks(per_template: int, commits: int, seed: int, worlds: Sequence[str] = DEFAULT) -> list[Task]:
    """Evaluation tasks of every template, on held-out names; commit-once worlds get `commits`."""
    tasks = []
    for name in worlds:
        world = world_named(name)
        count = commits if world.commit_once else per_template
        for template in world.templates:
            tasks += [pose(name, template, seed * 1_000_000 + index, "held_out") for index in range(count)]
    return tasks
