"""One update against gradients that are recomputed slowly, token by token."""

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from envace.chat import TokenRole, TokenStream
from envace.rehearsal.memory import memory_message
from envace.rehearsal.parallel import Rehearsal
from envace.rewards.replay import score
from envace.rl import loss
from envace.rl.experience import Experience, draw_tasks
from envace.rl.update import PolicyRow, UpdateSettings, backward, policy_rows
from envace.rollout.episode import Episode
from envace.worlds import WORLDS
from envace.worlds.tasks import Step, pose, solve

ACT, ENV = int(TokenRole.ACT), int(TokenRole.ENV)


@pytest.fixture(autouse=True)
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact comparisons need exact products."""
    plain = torch.autocast("cpu", torch.bfloat16, enabled=False)
    monkeypatch.setattr(loss, "autocast", lambda enabled: plain)


@torch.no_grad()
def on_policy(model: Any, episode: Episode) -> Episode:
    """The episode with the log-probabilities that `model` itself gives."""
    ids = list(episode.prompt + episode.sampled)
    table = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    start = len(episode.prompt)
    logprobs = tuple(float(table[at - 1, ids[at]]) for at in range(start, len(ids)))
    return dataclasses.replace(episode, logprobs=logprobs)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: gradient.clone() for name, gradient in found.items()}


def close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys() and left
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=2e-5, rtol=1e-3)


def slow_gradients(model: Any, terms: Sequence[tuple[TokenStream, dict[int, float]]]) -> Any:
    """Gradient of Σ −weight(role)·log p(token), one row at a time without batching."""
    total = torch.zeros(())
    for stream, weights in terms:
        table = model(input_ids=torch.tensor([stream.ids])).logits[0].log_softmax(-1)
        for at in range(1, len(stream)):
            if stream.roles[at] in weights:
                total = total - weights[stream.roles[at]] * table[at - 1, stream.ids[at]]
    total.backward()
    return gradients(model)


@pytest.fixture
def group(writer: Any) -> list[Episode]:
    """Two roll-outs of one task, right and wrong, and two of another, both right."""
    first, second = pose("store", "order", 1, "train"), pose("agenda", "when", 2, "train")
    steps, answer, _ = solve(first)
    wrong = writer.episode(first, [Step(steps[0].call, '{"error":"item"}')], "done")
    right = writer.episode(first, steps, answer)
    return [right, wrong, writer.expert(second), writer.expert(second)]


def experience(episodes: list[Episode], rehearsals: Sequence[Rehearsal | None] | None = None) -> Experience:
    scored = [score(episode) for episode in episodes]
    return Experience(scored, list(rehearsals or [None] * len(episodes)), [], 0)


def test_only_informative_episodes_make_rows_and_roles_are_chosen(group: list[Episode]) -> None:
    for environment, roles in (
        ("observe", {ACT}),
        ("none", {ACT}),
        ("grpo", {ACT, ENV}),
        ("both", {ACT, ENV}),
    ):
        settings = UpdateSettings(environment=environment, std=False)  # type: ignore[arg-type]
        rows = policy_rows(experience(group), 2, settings)
        assert [(row.episode, row.by_role) for row in rows] == [
            (group[0], dict.fromkeys(roles, 0.5)),
            (group[1], dict.fromkeys(roles, -0.5)),
        ]


def test_branches_carry_their_trajectorys_advantage_on_environment_tokens_only(writer: Any) -> None:
    task = pose("courier", "ship", 3, "train")
    right = writer.expert(task)
    wrong = writer.episode(task, (), "done")
    rehearsals = [Rehearsal(memory_message([], task.tools), (branch,)) for branch in (right, wrong)]
    for environment, count in (("grpo", 4), ("observe", 2)):
        settings = UpdateSettings(environment=environment, std=False)  # type: ignore[arg-type]
        rows = policy_rows(experience([right, wrong], rehearsals), 2, settings)
        assert len(rows) == count
    both = policy_rows(experience([right, wrong], rehearsals), 2, UpdateSettings("both", std=False))
    assert [row.by_role for row in both] == [
        {ACT: 0.5, ENV: 0.5}, {ENV: 0.5}, {ACT: -0.5, ENV: -0.5}, {ENV: -0.5},
    ]  # fmt: skip


@pytest.mark.parametrize(("environment", "weight"), [("none", 1.0), ("grpo", 1.0), ("grpo", 0.25)])
def test_policy_gradient_equals_reinforce_on_the_chosen_roles(
    tiny: Any, group: list[Episode], environment: Any, weight: float
) -> None:
    episodes = [on_policy(tiny.model, episode) for episode in group]
    settings = UpdateSettings(environment=environment, environment_weight=weight, std=False)
    model = tiny.fresh()
    rows = policy_rows(experience(episodes), 2, settings)
    parts = backward(model, rows, settings)
    assert parts["sampler_gap"] < 1e-5

    streams = [episode.stream() for episode in episodes[:2]]
    counts = {role: sum(stream.roles.count(role) for stream in streams) for role in (ACT, ENV)}
    assert counts[ENV] > 20
    scale = {ACT: 1 / counts[ACT]} | ({ENV: weight / counts[ENV]} if environment == "grpo" else {})
    terms = [
        (stream, {role: value * share for role, share in scale.items()})
        for stream, value in zip(streams, (0.5, -0.5), strict=True)
    ]
    close(gradients(model), slow_gradients(tiny.fresh(), terms))


@pytest.mark.parametrize("environment", ["both", "observe", "none"])
def test_micro_batches_give_the_gradient_of_one_batch(
    tiny: Any, group: list[Episode], environment: Any
) -> None:
    whole, split = tiny.fresh(), tiny.fresh()
    results = []
    for model, budget in ((whole, 10**6), (split, 1)):
        settings = UpdateSettings(
            environment=environment, environment_weight=0.7, entropy=0.01, token_budget=budget
        )
        results.append(backward(model, policy_rows(experience(group), 2, settings), settings))
    close(gradients(whole), gradients(split))
    assert results[0] == pytest.approx(results[1], rel=1e-4)


def test_unanimous_groups_change_nothing_not_even_the_denominator(tiny: Any, group: list[Episode]) -> None:
    settings = UpdateSettings(environment="none")
    with_unanimous, without = tiny.fresh(), tiny.fresh()
    backward(with_unanimous, policy_rows(experience(group), 2, settings), settings)
    backward(without, policy_rows(experience(group[:2]), 2, settings), settings)
    close(gradients(with_unanimous), gradients(without))
    nothing = tiny.fresh()
    assert backward(nothing, policy_rows(experience(group[2:]), 2, settings), settings) == {}
    assert gradients(nothing) == {}


def test_entropy_bonus_flattens_act_tokens(tiny: Any, group: list[Episode]) -> None:
    def act_entropy(model: Any) -> float:
        row = PolicyRow(group[0], {ACT: 1e-9})
        return backward(model, [row], UpdateSettings("none"))["act_entropy"]

    model = tiny.fresh()
    before = act_entropy(model)
    model.zero_grad()
    backward(model, [PolicyRow(group[0], {ACT: 1e-9})], UpdateSettings("none", entropy=1.0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.001 * parameter.grad
    assert act_entropy(model) > before


def test_an_untrue_roll_out_leaves_baseline_and_loss(group: list[Episode], writer: Any) -> None:
    # group[1] rehearsed a refusal that the world would not have given; a second wrong one did not.
    task = group[0].task
    steps, _, _ = solve(task)
    honest_failure = writer.episode(task, steps, "done")
    episodes = [group[0], group[1], honest_failure]
    rows = policy_rows(experience(episodes), 3, UpdateSettings("none", mask_untrue=True, std=False))
    assert [(row.episode, row.by_role) for row in rows] == [
        (group[0], {ACT: 0.5}),
        (honest_failure, {ACT: -0.5}),
    ]
    everyone = policy_rows(experience(episodes), 3, UpdateSettings("none", std=False))
    assert [row.by_role[ACT] for row in everyone] == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_two_of_three_chained_training_tasks_have_no_demonstrations() -> None:
    tasks = draw_tasks(18, 3, random.Random(0))
    chained = [task for task in tasks if not WORLDS[task.world].commit_once]
    splits = [WORLDS[task.world].templates[task.template] for task in chained]
    assert (len(chained), splits.count("undemonstrated"), splits.count("demonstrated")) == (18, 12, 6)
    assert [task.world for task in tasks[18:]] == ["courier"] * 3
