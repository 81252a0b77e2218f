"""Real execution: the policy acts, an executable world answers. Used to evaluate, never to train."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from envace.chat import CompactTemplate
from envace.engines import Engine, Sampling
from envace.rollout.rehearse import Notes
from envace.trajectory import Message, Task, ToolCall, compact
from envace.worlds.base import World
from envace.worlds.tasks import rebuild

MAX_TURNS = 8
"""Assistant turns at most; an episode cut here has no answer and fails."""


@dataclass
class Execution:
    """One episode against a real world."""

    task: Task
    """The task."""
    world: World
    """Its world, changed by every call."""
    messages: list[Message]
    """The conversation so far."""
    calls: list[ToolCall] = field(default_factory=list)
    """Calls executed for real, in order."""
    answer: str | None = None
    """Final answer, if one was given."""
    act_tokens: int = 0
    """Tokens written by the act role."""


def execute_episodes(
    engine: Engine,
    template: CompactTemplate,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
) -> list[Execution]:
    """Run every task to its end in its own world, all in step as one batch per turn."""
    runs = [Execution(task, rebuild(task)[0], [*task.messages, *notes]) for task, notes in prompts]
    stop = frozenset({template.call_end, template.response_end}) | template.end_ids
    open_runs = runs
    for _ in range(MAX_TURNS):
        if not open_runs:
            break
        turn = Sampling(
            sampling.temperature, sampling.max_new_tokens, stop, template.forbidden_ids, sampling.seed
        )
        rendered = [template.render(run.messages, run.task.tools).ids for run in open_runs]
        completions = engine.generate(rendered, turn)
        open_runs = [
            run
            for run, group in zip(open_runs, completions, strict=True)
            if _advance(run, template, group[0].ids)
        ]
    return runs


def _advance(run: Execution, template: CompactTemplate, ids: list[int]) -> bool:
    """Apply one act span; True while the episode goes on."""
    run.act_tokens += len(ids)
    message = template.parse_act(ids)
    if ids[-1] in template.end_ids:
        run.answer = message.content
        return False
    if ids[-1] != template.call_end or not message.tool_calls:
        return False
    run.messages.append(message)
    for call in message.tool_calls:
        response = compact(run.world.call(call))
        run.calls.append(call)
        run.messages.append(Message(role="tool", name=call.name, content=response, author="world"))
    return True
