"""From roll-outs with verdicts to rows with advantages: what enters an update, and what not.

A trajectory is one or several rows (`Episode.rows`), and the branches of its private rehearsal
are further rows of the environment role. Baselines are taken within (task, role).
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from envace.chat import TokenRole
from envace.rehearsal.parallel import Rehearsal
from envace.rewards import Scored
from envace.rl.advantage import advantages, unanimous
from envace.rl.experience import Experience, predictions_hold
from envace.rl.settings import UpdateSettings
from envace.rollout.episode import Row

ACT, ENV = int(TokenRole.ACT), int(TokenRole.ENV)
ROLES = {ACT: "act", ENV: "environment"}
"""Roles that learn from reward, as they are called in the log."""
EASY = 0.5
"""Common score from which a group without spread counts as too easy, else as too hard."""


@dataclass(frozen=True)
class PolicyRow:
    """One row with the advantage of each role's tokens."""

    row: Row
    """Tokens, their roles and log-probabilities at sampling time."""
    by_role: dict[int, float]
    """Advantage by token role; a role left out carries no loss."""

    def tokens(self, role: int) -> int:
        """Tokens of a role that carry loss."""
        return self.row.stream.roles.count(role) if role in self.by_role else 0


@dataclass(frozen=True)
class PolicyRows:
    """The rows of one update, and what was left out."""

    rows: list[PolicyRow]
    """Rows of groups with spread."""
    counts: dict[str, float]
    """For the log: `informative` share of trajectories, numbers of trajectories that were `unjudged`,
    `untrue` or `failed_dropped`, and by role of groups that were too easy or too hard."""


def policy_rows(experience: Experience, settings: UpdateSettings, seed: int = 0) -> PolicyRows:
    """Rows that teach something; branches of a rehearsal share their trajectory's reward.

    Two kinds of trajectories leave both baseline and loss: those nobody could judge, and with
    `mask_untrue` those whose rehearsed responses turned out wrong: the act role answered a world
    that does not exist, and blaming or praising it for the outcome is noise. Groups without
    spread leave the loss and its denominator.

    Args:
        experience: Roll-outs of one step, in any order.
        settings: Hyper-parameters.
        seed: Chooses which failures are left out.
    """
    pairs = list(zip(experience.scored, experience.rehearsals, strict=True))
    rewards: dict[int, float] = {}
    unjudged = untrue = 0
    for index, (scored, rehearsal) in enumerate(pairs):
        if scored.reward is None:
            unjudged += 1
        elif settings.mask_untrue and not all(predictions_hold(scored, rehearsal)):
            untrue += 1
        else:
            rewards[index] = scored.reward

    found = [(index, row, roles) for index in rewards for row, roles in _rows(*pairs[index], settings)]
    terms = [(at, index, role) for at, (index, _, roles) in enumerate(found) for role in roles]
    scores = [rewards[index] for _, index, _ in terms]
    groups = [(pairs[index][0].episode.task.id, role) for _, index, role in terms]
    values = advantages(scores, groups, [index for _, index, _ in terms], settings.baseline, settings.std)
    flat = unanimous(scores, groups)
    dropped = _failures_to_drop(
        {index: (pairs[index][0].episode.task.id, reward) for index, reward in rewards.items()},
        settings.failed_kept,
        seed,
    )
    by_role: dict[int, dict[int, float]] = defaultdict(dict)
    for (at, index, role), group, value in zip(terms, groups, values, strict=True):
        if group not in flat and index not in dropped:
            by_role[at][role] = value
    counts: dict[str, float] = {
        "informative": len({found[at][0] for at in by_role}) / max(1, len(pairs)),
        "unjudged": unjudged,
        "untrue": untrue,
        "failed_dropped": len(dropped),
    }
    for role, name in ROLES.items():
        own = [score for (_, group_role), score in flat.items() if group_role == role]
        counts[f"{name}_too_easy"] = sum(score >= EASY for score in own)
        counts[f"{name}_too_hard"] = sum(score < EASY for score in own)
    return PolicyRows([PolicyRow(found[at][1], roles) for at, roles in by_role.items()], counts)


def _rows(
    scored: Scored, rehearsal: Rehearsal | None, settings: UpdateSettings
) -> Iterator[tuple[Row, list[int]]]:
    """Rows of one trajectory with those of their roles that learn from reward."""
    rewarded = [ACT, ENV] if settings.environment in ("grpo", "both") else [ACT]
    for row in scored.episode.rows():
        yield row, [role for role in rewarded if role in row.stream.roles]
    for branch in rehearsal.branches if rehearsal is not None else ():
        for row in branch.rows():
            yield row, [role for role in rewarded if role == ENV and role in row.stream.roles]


def _failures_to_drop(trajectories: dict[int, tuple[str, float]], kept: float, seed: int) -> set[int]:
    """Trajectories without reward to leave out of the loss.

    Args:
        trajectories: Task and reward of each.
        kept: Share to keep of each task's.
        seed: Of the choice.
    """
    failed: dict[str, list[int]] = defaultdict(list)
    for index, (task, reward) in trajectories.items():
        if reward <= 0:
            failed[task].append(index)
    rng = random.Random(f"failed_kept/{seed}")
    return {
        index for own in failed.values() for index in rng.sample(own, len(own) - math.ceil(kept * len(own)))
    }
