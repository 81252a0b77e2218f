"""One step's experience: groups of rehearsed roll-outs, their verdicts, what they revealed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envace.chat import PromptedLayout, Template
from envace.engines import Engine, Sampling
from envace.rehearsal.parallel import Rehearsal, rehearse_next_call
from envace.rewards import Reward, Scored
from envace.rewards.replay import Replay, revealed_streams
from envace.rl.observe import Transcript
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Episode, Notes
from envace.rollout.rehearse import rehearse_episodes
from envace.rollout.responders import Responder, WorldResponder
from envace.trajectory import Task
from envace.worlds import DEFAULT, WORLDS, by_commitment
from envace.worlds.base import Split
from envace.worlds.tasks import Step, pose, templates, verify

Answerer = Callable[[Sequence[Task], int], Responder]
"""(tasks, seed) → who answers the calls of these tasks, one episode each, in place of the policy."""
REHEARSAL_SEED = 50
"""Offset of the private rehearsals' seed within a step: episodes draw other numbers."""


@dataclass(frozen=True)
class Experience:
    """Roll-outs of one step."""

    scored: list[Scored]
    """Episodes with verdicts; consecutive runs of `group` belong to one task."""
    rehearsals: list[Rehearsal | None]
    """The private rehearsal in front of each episode, None where there was none."""
    revealed: list[Transcript]
    """What the verdicts revealed, without repetition."""
    real_calls: int
    """Calls the world executed: to verify episodes or, where it answers, in roll-outs and rehearsals."""

    def success(self, world: str | None = None) -> float:
        """Mean reward of one world or of all, of those episodes that could be judged; under `replay`
        the share of successes."""
        mine = [s.reward for s in self.scored if world in (None, s.episode.task.world)]
        return _mean([reward for reward in mine if reward is not None])

    def agreement(self, world: str | None = None) -> float:
        """Share of predictions that equal the revealed response."""
        hits: list[bool] = []
        for scored, rehearsal in zip(self.scored, self.rehearsals, strict=True):
            if world in (None, scored.episode.task.world):
                hits += predictions_hold(scored, rehearsal)
        return _mean(hits)

    def rule_success(self) -> float:
        """Success of a reader that only follows the memory's rule: the witness against collusion."""
        hits = []
        for scored, rehearsal in zip(self.scored, self.rehearsals, strict=True):
            if rehearsal is not None:
                best = rehearsal.memory.best
                hits.append(verify(scored.episode.task, [best] if best else [], None).state_reached)
        return _mean(hits)


def joined(parts: Sequence[Experience]) -> Experience:
    """One step's roll-outs from several shares of its tasks."""
    return Experience(
        scored=[scored for part in parts for scored in part.scored],
        rehearsals=[rehearsal for part in parts for rehearsal in part.rehearsals],
        revealed=[transcript for part in parts for transcript in part.revealed],
        real_calls=sum(part.real_calls for part in parts),
    )


def draw_tasks(
    chained: int, committing: int, rng: random.Random, worlds: Sequence[str] = DEFAULT
) -> list[Task]:
    """Training tasks of one step, spread evenly over `worlds`.

    Two of three chained tasks are of practiced templates: the others are mostly
    solved after warm-up, and a group without spread teaches nothing.
    """
    tasks: list[Task] = []
    for count, names in zip((chained, committing), by_commitment(worlds), strict=True):
        for index in range(count if names else 0):
            name = names[index % len(names)]
            split: Split = "practiced" if index // len(names) % 3 else "demonstrated"
            template = rng.choice(templates(name, split) or templates(name, "demonstrated"))
            tasks.append(pose(name, template, rng.randrange(10**9, 2 * 10**9), "train"))
    return tasks


def collect(
    engine: Engine,
    template: Template,
    tasks: Sequence[Task],
    group: int,
    branches: int,
    max_new_tokens: int,
    seed: int,
    answerer: Answerer | None = None,
    reward: Reward | None = None,
    layout: PromptedLayout | None = None,
) -> Experience:
    """Roll every task out `group` times; commit-once tasks rehearse privately before each.

    Args:
        engine: The policy, in both roles.
        template: Its chat template.
        tasks: Tasks of this step.
        group: Roll-outs a task.
        branches: Branches of each private rehearsal.
        max_new_tokens: Tokens at most in one episode.
        seed: Seed of all sampling in this step.
        answerer: Who answers in place of the policy's own environment role.
        reward: Who judges the finished episodes; the world by `Replay` unless given.
        layout: The environment role's layout in what verdicts reveal; None is inline.
    """
    chained = [task for task in tasks if not WORLDS[task.world].commit_once]
    committing = [task for task in tasks if WORLDS[task.world].commit_once]
    sampling = Sampling(temperature=1.0, max_new_tokens=max_new_tokens, seed=seed)

    worlds: list[WorldResponder] = []

    def answering(answered: Sequence[Task], own_seed: int) -> Responder:
        assert answerer is not None
        responder = answerer(answered, own_seed)
        if isinstance(responder, WorldResponder):
            worlds.append(responder)
        return responder

    others = answering if answerer is not None else None
    episodes: list[Episode] = []
    if chained:
        episodes = _roll_out(engine, template, [(task, ()) for task in chained], sampling, group, others)
    rehearsals: list[Rehearsal | None] = [None] * len(episodes)
    if committing:
        private = rehearse_next_call(
            engine, template, committing, branches, group, seed=seed + REHEARSAL_SEED, answerer=others
        )
        repeated = [task for task in committing for _ in range(group)]
        prompts: list[tuple[Task, Notes]] = [
            (task, rehearsal.memory.notes) for task, rehearsal in zip(repeated, private, strict=True)
        ]
        episodes += _roll_out(engine, template, prompts, sampling, 1, others)
        rehearsals += private

    scored = (reward or Replay()).score(episodes)
    return Experience(
        scored=scored,
        rehearsals=rehearsals,
        revealed=_transcripts(scored, template, layout),
        real_calls=sum(world.executed for world in worlds) or sum(len(item.revealed) for item in scored),
    )


def predictions_hold(scored: Scored, rehearsal: Rehearsal | None) -> list[bool]:
    """For each prediction of an episode that was put to the test, whether it came true.

    After a private rehearsal the prediction is the memory's for the committed call, because
    the episode's own response was written with the memory in view.
    """
    if rehearsal is None:
        return scored.agreement()
    predictions = rehearsal.memory.predictions
    return [
        predictions[step.call.text()] == step.response
        for step in scored.revealed
        if step.call.text() in predictions
    ]


def _transcripts(
    scored: Sequence[Scored], template: Template, layout: PromptedLayout | None
) -> list[Transcript]:
    """What the verdicts revealed, without repetition.

    Equal call sequences of a task make one transcript. The commits of a commit-once task
    make one together: each is answered from the same start state.
    """
    tasks: dict[str, Task] = {}
    steps: dict[tuple[str, str], dict[str, Step]] = {}
    for item in scored:
        task, revealed = item.episode.task, item.revealed
        if not revealed:
            continue
        tasks[task.id] = task
        if WORLDS[task.world].commit_once:
            key, told = (task.id, ""), revealed[:1]
        else:
            key, told = (task.id, "\n".join(step.call.text() for step in revealed)), revealed
        for position, step in enumerate(told):
            name = step.call.text() if WORLDS[task.world].commit_once else str(position)
            steps.setdefault(key, {}).setdefault(name, step)
    return [
        Transcript(tasks[key[0]].world, stream)
        for key, told in steps.items()
        for stream in revealed_streams(tasks[key[0]], list(told.values()), template, layout)
    ]


def _roll_out(
    engine: Engine,
    template: Template,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    n: int,
    answerer: Answerer | None,
) -> list[Episode]:
    """`n` episodes a prompt, answered by the policy itself or by somebody else."""
    if answerer is None:
        return rehearse_episodes(engine, template, prompts, sampling, n)
    repeated = [prompt for prompt in prompts for _ in range(n)]
    responder = answerer([task for task, _ in repeated], sampling.seed)
    return answered_episodes(engine, template, repeated, sampling, responder)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
