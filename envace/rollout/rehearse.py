"""Roll-outs in which the policy answers its own calls: no world, no simulator."""

from collections.abc import Sequence

from envace.chat import SeamlessTemplate, Template
from envace.engines import Engine, Sampling
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Episode, Limits, Notes, parse_episode
from envace.rollout.responders import RehearsalResponder
from envace.rollout.sampling import with_markers
from envace.trajectory import Task


def rehearse_episodes(
    engine: Engine,
    template: Template,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    n: int = 1,
    limits: Limits | None = None,
) -> list[Episode]:
    """Roll out `n` episodes for every prompt, both roles played by the policy, inline.

    Without bridges, an episode is one uninterrupted generation: all samples of a prompt share
    its prefill, no role switch costs anything, and `max_new_tokens` is a limit per episode.
    With bridges the roles take turns, and it is a limit per turn.

    Returns:
        Episodes grouped by prompt: entry `i * n + k` is sample `k` of prompt `i`.
    """
    if not isinstance(template, SeamlessTemplate):
        repeated = [prompt for prompt in prompts for _ in range(n)]
        responder = RehearsalResponder(engine, template, sampling)
        return answered_episodes(engine, template, repeated, sampling, responder, limits)
    limits = limits or Limits()
    rendered = [template.render((*task.messages, *notes), task.tools).ids for task, notes in prompts]
    stop = template.end_ids
    if limits.turns == 1:  # more turns are counted when the whole is parsed
        stop |= {template.response_end}
    completions = engine.generate(rendered, with_markers(sampling, template, stop), n)
    return [
        parse_episode(template, task, notes, ids, completion, limits)
        for (task, notes), ids, group in zip(prompts, rendered, completions, strict=True)
        for completion in group
    ]
