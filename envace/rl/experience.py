"""One step's experience: groups of rehearsed roll-outs, their verdicts, what they revealed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from envace.chat import CompactTemplate, TokenStream
from envace.engines import Engine, Sampling
from envace.rehearsal.parallel import Rehearsal, rehearse_next_call
from envace.rewards.replay import Scored, revealed_stream, score
from envace.rollout.answered import SimulatorResponder, answered_episodes
from envace.rollout.episode import Episode
from envace.rollout.rehearse import Notes, rehearse_episodes
from envace.trajectory import Task
from envace.worlds import WORLDS
from envace.worlds.tasks import pose, templates, verify

REHEARSAL_SEED = 50
"""Offset of the private rehearsals' seed within a step: episodes draw other numbers."""


@dataclass(frozen=True)
class Experience:
    """Roll-outs of one step."""

    scored: list[Scored]
    """Episodes with verdicts; consecutive runs of `group` belong to one task."""
    rehearsals: list[Rehearsal | None]
    """The private rehearsal in front of each episode, None where there was none."""
    revealed: list[TokenStream]
    """Distinct true transcripts that the verdicts revealed."""
    real_calls: int
    """Calls the world executed to verify the episodes: the only contact with it."""

    def success(self, world: str | None = None) -> float:
        """Share of successful episodes, of one world or of all."""
        return _mean([s.reward for s in self.scored if world in (None, s.episode.task.world)])

    def agreement(self, world: str | None = None) -> float:
        """Share of predictions that equal the revealed response.

        After a private rehearsal the prediction is the memory's for the committed call,
        because the episode's own response was written with the memory in view.
        """
        hits: list[bool] = []
        for scored, rehearsal in zip(self.scored, self.rehearsals, strict=True):
            if world not in (None, scored.episode.task.world):
                continue
            if rehearsal is None:
                hits += scored.agreement()
            else:
                predictions = rehearsal.memory.predictions
                hits += [
                    predictions.get(step.call.text()) == step.response
                    for step in scored.verdict.steps
                    if step.call.text() in predictions
                ]
        return _mean(hits)

    def rule_success(self) -> float:
        """Success of a reader that only follows the memory's rule: the witness against collusion."""
        hits = []
        for scored, rehearsal in zip(self.scored, self.rehearsals, strict=True):
            if rehearsal is not None:
                best = rehearsal.memory.best
                hits.append(verify(scored.episode.task, [best] if best else [], None).state_reached)
        return _mean(hits)


def draw_tasks(chained: int, committing: int, rng: random.Random) -> list[Task]:
    """Training tasks of one step, spread evenly over worlds and their training templates."""
    tasks: list[Task] = []
    for count, commit in ((chained, False), (committing, True)):
        names = [name for name, world in WORLDS.items() if world.commit_once is commit]
        for index in range(count):
            name = names[index % len(names)]
            template = rng.choice(templates(name, "demonstrated", "undemonstrated"))
            tasks.append(pose(name, template, rng.randrange(10**9, 2 * 10**9), "train"))
    return tasks


def collect(
    engine: Engine,
    template: CompactTemplate,
    tasks: Sequence[Task],
    group: int,
    branches: int,
    max_new_tokens: int,
    seed: int,
    simulator: Engine | None = None,
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
        simulator: Another model that answers in place of the policy's own environment role.
    """
    chained = [task for task in tasks if not WORLDS[task.world].commit_once]
    committing = [task for task in tasks if WORLDS[task.world].commit_once]
    sampling = Sampling(temperature=1.0, max_new_tokens=max_new_tokens, seed=seed)

    episodes: list[Episode] = []
    if chained:
        episodes = _roll_out(engine, template, [(task, ()) for task in chained], sampling, group, simulator)
    rehearsals: list[Rehearsal | None] = [None] * len(episodes)
    if committing:
        private = rehearse_next_call(
            engine, template, committing, branches, group, seed=seed + REHEARSAL_SEED, simulator=simulator
        )
        repeated = [task for task in committing for _ in range(group)]
        prompts: list[tuple[Task, Notes]] = [
            (task, rehearsal.memory.notes) for task, rehearsal in zip(repeated, private, strict=True)
        ]
        episodes += _roll_out(engine, template, prompts, sampling, 1, simulator)
        rehearsals += private

    scored = [score(episode) for episode in episodes]
    distinct: dict[tuple[str, str], Scored] = {}
    for item in scored:
        if item.verdict.steps:
            calls = "\n".join(call.text() for call in item.episode.calls)
            distinct.setdefault((item.episode.task.id, calls), item)
    return Experience(
        scored=scored,
        rehearsals=rehearsals,
        revealed=[revealed_stream(item, template) for item in distinct.values()],
        real_calls=sum(len(item.verdict.steps) for item in scored),
    )


def _roll_out(
    engine: Engine,
    template: CompactTemplate,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    n: int,
    simulator: Engine | None,
) -> list[Episode]:
    """`n` episodes a prompt, answered by the policy itself or by the simulator."""
    if simulator is None:
        return rehearse_episodes(engine, template, prompts, sampling, n)
    responder = SimulatorResponder(simulator, template, sampling)
    repeated = [prompt for prompt in prompts for _ in range(n)]
    return answered_episodes(engine, template, repeated, sampling, responder)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
