"""Roll-outs in which the policy answers its own calls: no world, no simulator."""

from collections.abc import Sequence
from dataclasses import replace

from envace.chat import CompactTemplate
from envace.engines import Engine, Sampling
from envace.rollout.episode import Episode, parse_episode
from envace.trajectory import Message, Task

Notes = tuple[Message, ...]


def rehearse_episodes(
    engine: Engine,
    template: CompactTemplate,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    n: int = 1,
    stop: frozenset[int] | None = None,
) -> list[Episode]:
    """Roll out whole episodes in one generation each, `n` for every prompt.

    In the inline layout both roles continue the same stream, so the cache is never
    rebuilt at a role switch; the episode ends at the answer, at a marker of `stop`
    (markers that end an episode, if not given), or at the token limit.

    Returns:
        Episodes grouped by prompt: entry `i * n + k` is sample `k` of prompt `i`.
    """
    rendered = [template.render((*task.messages, *notes), task.tools).ids for task, notes in prompts]
    sampling = with_markers(sampling, template, stop or template.end_ids)
    completions = engine.generate(rendered, sampling, n)
    return [
        parse_episode(template, task, notes, ids, completion)
        for (task, notes), ids, group in zip(prompts, rendered, completions, strict=True)
        for completion in group
    ]


def with_markers(sampling: Sampling, template: CompactTemplate, stop: frozenset[int]) -> Sampling:
    """The same sampling with the template's stop and forbidden markers."""
    return replace(sampling, stop_ids=stop, forbidden_ids=template.forbidden_ids)
