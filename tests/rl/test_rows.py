"""Which rows an update gets, and with which advantages."""

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow import ACT, ENV, close, gradients

from benchmarks.update import row_per_turn
from envace.rehearsal.memory import memory_message
from envace.rehearsal.parallel import Rehearsal
from envace.rewards import Scored
from envace.rewards.base import world_verdict
from envace.rl.experience import Experience, draw_tasks
from envace.rl.rows import PolicyRow, policy_rows
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.episode import Episode, Row
from envace.worlds import WORLDS
from envace.worlds.tasks import Step, pose, solve

PAPER = UpdateSettings("grpo", std=False, bfloat16=False)


@pytest.fixture
def group(writer: Any) -> list[Episode]:
    """Two roll-outs of one task, right and wrong, and two of another, both right."""
    first, second = pose("store", "order", 1, "train"), pose("agenda", "when", 2, "train")
    steps, answer, _ = solve(first)
    wrong = writer.episode(first, [Step(steps[0].call, '{"error":"item"}')], "done")
    right = writer.episode(first, steps, answer)
    return [right, wrong, writer.expert(second), writer.expert(second)]


def experience(
    episodes: Sequence[Episode],
    rewards: Sequence[float | None] | None = None,
    rehearsals: Sequence[Rehearsal | None] | None = None,
) -> Experience:
    """Roll-outs with the world's verdict, and the reward it gives unless others are named."""
    scored = []
    for at, episode in enumerate(episodes):
        verdict = world_verdict(episode)
        assert verdict is not None
        reward = rewards[at] if rewards is not None else float(verdict.success)
        scored.append(Scored(episode, reward, verdict=verdict))
    return Experience(scored, list(rehearsals or [None] * len(episodes)), [], 0)


def summary(rows: Sequence[PolicyRow]) -> list[tuple[Any, dict[int, float]]]:
    return [(row.row, row.by_role) for row in rows]


def row(episode: Episode) -> Row:
    (only,) = episode.rows()
    return only


@pytest.mark.parametrize(
    ("environment", "roles"),
    [("observe", {ACT}), ("none", {ACT}), ("grpo", {ACT, ENV}), ("both", {ACT, ENV})],
)
def test_roles_are_chosen_by_how_the_environment_learns(
    group: list[Episode], environment: Any, roles: set[int]
) -> None:
    chosen = policy_rows(experience(group), dataclasses.replace(PAPER, environment=environment))
    assert summary(chosen.rows) == [
        (row(group[0]), dict.fromkeys(roles, 0.5)),
        (row(group[1]), dict.fromkeys(roles, -0.5)),
    ]
    assert chosen.counts["informative"] == 0.5


def test_branches_carry_their_trajectorys_advantage_on_environment_tokens_only(writer: Any) -> None:
    task = pose("courier", "ship", 3, "train")
    right, wrong = writer.expert(task), writer.episode(task, (), "done")
    rehearsals = [Rehearsal(memory_message([], task.tools), (right, right)) for _ in range(2)]
    both = policy_rows(experience([right, wrong], None, rehearsals), PAPER).rows
    # The wrong one made no call: its environment rows are its branches alone.
    assert [r.by_role for r in both] == [
        {ACT: 0.5, ENV: 0.5}, {ENV: 0.5}, {ENV: 0.5}, {ACT: -0.5}, {ENV: -0.5}, {ENV: -0.5},
    ]  # fmt: skip
    act_only = dataclasses.replace(PAPER, environment="observe")
    assert len(policy_rows(experience([right, wrong], None, rehearsals), act_only).rows) == 2
    # Counted by row, the right trajectory has three of five environment rows.
    by_row = policy_rows(
        experience([right, wrong], None, rehearsals), dataclasses.replace(PAPER, baseline="row")
    ).rows
    assert [r.by_role.get(ENV) for r in by_row] == pytest.approx([0.4, 0.4, 0.4, None, -0.6, -0.6])
    assert [r.by_role.get(ACT) for r in by_row] == [0.5, None, None, -0.5, None, None]


class Forked(Episode):
    """An episode of a layout in which no turn extends the last one."""

    def rows(self) -> tuple[Row, ...]:
        return tuple(row_per_turn(row(Episode(**vars(self)))))


def test_rows_of_a_trajectory_count_once_in_its_baseline(group: list[Episode]) -> None:
    forked = [Forked(**vars(episode)) for episode in group[:2]]
    rows = policy_rows(experience(forked), PAPER).rows
    assert len(rows) == sum(len(episode.rows()) for episode in forked) > 5
    of_right = len(forked[0].rows())
    assert [tuple(r.by_role.values()) for r in rows] == [(0.5,)] * of_right + [(-0.5,)] * (
        len(rows) - of_right
    )
    assert {role for r in rows for role in r.by_role} == {ACT, ENV}


def test_roles_have_baselines_of_their_own(group: list[Episode], writer: Any) -> None:
    silent = writer.episode(group[0].task, (), "no idea")
    rows = policy_rows(experience([group[0], group[1], silent], [1.0, 0.0, 0.5]), PAPER).rows
    # The middle one is exactly average; it stays, with its tokens in the denominator.
    assert [r.by_role for r in rows] == [{ACT: 0.5, ENV: 0.5}, {ACT: -0.5, ENV: -0.5}, {ACT: 0.0}]


def test_an_untrue_roll_out_leaves_baseline_and_loss(group: list[Episode], writer: Any) -> None:
    # group[1] rehearsed a refusal that the world would not have given; a second wrong one did not.
    task = group[0].task
    honest_failure = writer.episode(task, solve(task)[0], "done")
    episodes = [group[0], group[1], honest_failure]
    settings = dataclasses.replace(PAPER, environment="none")
    masked = policy_rows(experience(episodes), dataclasses.replace(settings, mask_untrue=True))
    assert summary(masked.rows) == [(row(group[0]), {ACT: 0.5}), (row(honest_failure), {ACT: -0.5})]
    assert (masked.counts["untrue"], masked.counts["informative"]) == (1, pytest.approx(2 / 3))
    everyone = policy_rows(experience(episodes), settings).rows
    assert [r.by_role[ACT] for r in everyone] == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_a_roll_out_nobody_could_judge_leaves_baseline_and_loss(group: list[Episode]) -> None:
    episodes = [group[0], group[1], group[0]]
    chosen = policy_rows(experience(episodes, [1.0, 0.0, None]), PAPER)
    assert [r.by_role[ACT] for r in chosen.rows] == [0.5, -0.5]  # a false zero would give 2/3
    assert chosen.counts["unjudged"] == 1
    nobody = policy_rows(experience(episodes, [None] * 3), PAPER)
    assert nobody.rows == [] and nobody.counts["unjudged"] == 3
    # One verdict left: nothing to compare it with.
    single = policy_rows(experience(episodes, [None, None, 1.0]), PAPER)
    assert single.rows == [] and single.counts["act_too_easy"] == 1


def test_failure_5_zero_spread_groups_leave_the_denominator_alone(tiny: Any, group: list[Episode]) -> None:
    """Rows that teach nothing must not make the steps of those that do smaller."""
    with_unanimous, without = tiny.fresh(), tiny.fresh()
    for aggregation in ("token_mean", "row_mean", "dr_grpo"):
        settings = dataclasses.replace(PAPER, aggregation=aggregation)  # type: ignore[arg-type]
        for model, episodes in ((with_unanimous, group), (without, group[:2])):
            model.zero_grad()
            backward(model, policy_rows(experience(episodes), settings).rows, settings)
        close(gradients(with_unanimous), gradients(without))


def test_zero_spread_groups_are_counted_as_too_easy_or_too_hard(group: list[Episode], writer: Any) -> None:
    silent = writer.episode(pose("store", "price", 5, "train"), (), "no idea")
    episodes = [*group, silent, silent]
    counts = policy_rows(experience(episodes, [1, 0, 1, 1, 0, 0]), PAPER).counts
    assert counts["act_too_easy"] == counts["environment_too_easy"] == 1
    assert (counts["act_too_hard"], counts["environment_too_hard"]) == (1, 0)  # no environment tokens there
    assert counts["informative"] == pytest.approx(1 / 3)


@given(
    kept=st.floats(0, 1),
    rewards=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.4, 1.0]), min_size=2, max_size=9),
    seed=st.integers(0, 9),
)
def test_failure_6_leaving_failures_out_never_touches_a_success(
    kept: float, rewards: list[float], seed: int, writer: Any
) -> None:
    """The one success among failures is what a group has to tell; its advantage stays whole, too."""
    task = pose("store", "order", 1, "train")
    episodes = [writer.episode(task, (), f"answer {at}") for at in range(len(rewards))]
    everyone = policy_rows(experience(episodes, rewards), PAPER)
    chosen = policy_rows(experience(episodes, rewards), dataclasses.replace(PAPER, failed_kept=kept), seed)
    if not everyone.rows:
        assert not chosen.rows
        return
    before = dict(zip(map(id, episodes), everyone.rows, strict=True))
    texts = {tuple(r.row.stream.ids): r.by_role for r in chosen.rows}
    failures = 0
    for episode, reward in zip(episodes, rewards, strict=True):
        ids = tuple(episode.stream().ids)
        if reward > 0:
            assert texts[ids] == before[id(episode)].by_role
        elif ids in texts:
            failures += 1
            assert texts[ids] == before[id(episode)].by_role
    count = rewards.count(0.0)
    assert failures == math.ceil(kept * count)
    assert chosen.counts["failed_dropped"] == count - failures


def test_which_failures_stay_is_a_matter_of_the_seed(writer: Any) -> None:
    task = pose("store", "order", 1, "train")
    episodes = [writer.episode(task, (), f"answer {at}") for at in range(12)]
    settings = dataclasses.replace(PAPER, failed_kept=0.5)
    drawn = experience(episodes, [1.0, *[0.0] * 11])
    picks = [
        tuple(tuple(r.row.stream.ids) for r in policy_rows(drawn, settings, seed).rows) for seed in (1, 1, 2)
    ]
    assert picks[0] == picks[1] != picks[2]


@given(order=st.permutations(range(6)))
def test_failure_12_groups_are_told_by_their_task_not_by_position(order: list[int], writer: Any) -> None:
    """Mixed roll-outs of two tasks: each is compared with its own task's others."""
    tasks = [pose("store", "order", seed, "train") for seed in (1, 2)]
    # Successes are rare on the first task and common on the second.
    plan = [(0, 1.0), (0, 0.0), (0, 0.0), (1, 1.0), (1, 1.0), (1, 0.0)]
    expected = [2 / 3, -1 / 3, -1 / 3, 1 / 3, 1 / 3, -2 / 3]
    episodes = [writer.episode(tasks[plan[at][0]], (), "done") for at in order]
    rows = policy_rows(experience(episodes, [plan[at][1] for at in order]), PAPER).rows
    assert [r.by_role[ACT] for r in rows] == pytest.approx([expected[at] for at in order])


def test_two_of_three_chained_training_tasks_have_no_demonstrations() -> None:
    tasks = draw_tasks(18, 3, random.Random(0))
    chained = [task for task in tasks if not WORLDS[task.world].commit_once]
    splits = [WORLDS[task.world].templates[task.template] for task in chained]
    assert (len(chained), splits.count("practiced"), splits.count("demonstrated")) == (18, 12, 6)
    assert [task.world for task in tasks[18:]] == ["courier"] * 3
    assert {task.world for task in draw_tasks(4, 4, random.Random(0), ("agenda",))} == {"agenda"}
