"""One update against gradients that are recomputed slowly, token by token, in float32."""

import dataclasses
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from slow import ACT, ENV, close, drawn_from, gradients, norm, policy_row, slow_update

from benchmarks.update import row_per_turn
from envace.chat import TokenStream
from envace.errors import EnvaceError
from envace.rl.rows import PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.episode import Row
from envace.worlds.tasks import Step, pose, solve

EXACT = UpdateSettings("grpo", bfloat16=False)
NOISE = (0.0, -0.5, 0.1, 0.4, -1.5, 0.05)
"""Ratios of about 1, 1.65, 0.9, 0.67, 4.5 and 0.95: every clip has something to do."""


@pytest.fixture
def rows(tiny: Any, writer: Any) -> list[PolicyRow]:
    """Four rows of uneven length with both roles, off-policy, one without environment advantage."""
    first, second = pose("store", "order", 1, "train"), pose("agenda", "when", 2, "train")
    steps, answer, _ = solve(first)
    plain = [
        policy_row(writer.episode(first, steps, answer), 0.5, 0.25),
        policy_row(writer.episode(first, [Step(steps[0].call, '{"error":"item"}')], "done"), -0.5, -1.0),
        policy_row(writer.expert(second), 1.5),
        policy_row(writer.episode(second, (), "no idea"), -0.75, 0.5),
    ]
    return [drawn_from(tiny.model, row, NOISE) for row in plain]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aggregation": "row_mean"},
        {"aggregation": "dr_grpo", "max_length": 64},
        {"act_weight": 0.5, "environment_weight": 0.25},
        {"clip_low": 0.1, "clip_high": 0.28, "dual_clip": 1.5},
        {"kl": 0.1},
        {"kl": 0.1, "aggregation": "row_mean", "environment_weight": 0.25},
        {"entropy": 0.01},
        {"leak_penalty": 0.3, "act_weight": 0.5},
        {"temperature": 0.7},
    ],
    ids=lambda changes: " ".join(map(str, changes)) or "default",
)
def test_gradient_equals_the_slow_one(tiny: Any, rows: list[PolicyRow], changes: dict[str, Any]) -> None:
    settings = dataclasses.replace(EXACT, **changes)
    reference = tiny.fresh()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    markers = [tiny.template.response_end]
    fast, slow = tiny.fresh(), tiny.fresh()
    log = backward(fast, rows, settings, environment_only=markers, reference=reference)
    expected = slow_update(slow, rows, settings, reference if settings.kl else None, markers)
    close(gradients(fast), gradients(slow))
    assert {name: log[name] for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_micro_batches_give_the_gradient_and_the_log_of_one_batch(tiny: Any, rows: list[PolicyRow]) -> None:
    whole, split = tiny.fresh(), tiny.fresh()
    logs = [
        backward(model, rows, dataclasses.replace(EXACT, entropy=0.01, token_budget=budget))
        for model, budget in ((whole, 10**6), (split, 1))
    ]
    close(gradients(split), gradients(whole))
    assert logs[0] == pytest.approx(logs[1], rel=1e-4)


def test_bfloat16_points_the_same_way(tiny: Any, rows: list[PolicyRow]) -> None:
    exact, rough = tiny.fresh(), tiny.fresh()
    backward(exact, rows, EXACT)
    backward(rough, rows, UpdateSettings("grpo"))
    left, right = (torch.cat([g.flatten() for g in gradients(model).values()]) for model in (exact, rough))
    assert torch.cosine_similarity(left, right, dim=0) > 0.99


def test_one_row_and_forked_rows_are_the_same_trajectory(tiny: Any, rows: list[PolicyRow]) -> None:
    """Act row with responses as context, and one row a response with its prefix as context."""
    apart = [fork for row in rows for fork in forked(row)]
    assert len(apart) > len(rows)
    one, several = tiny.fresh(), tiny.fresh()
    logs = [backward(one, rows, EXACT), backward(several, apart, EXACT)]
    close(gradients(several), gradients(one))
    assert logs[0] == pytest.approx(logs[1], rel=1e-4)
    # Act turns apart from each other as well, as a chat template that rewrites history would have them.
    turns = [PolicyRow(turn, row.by_role) for row in rows for turn in row_per_turn(row.row)]
    assert len(turns) > len(apart)
    turn_by_turn = tiny.fresh()
    backward(turn_by_turn, turns, EXACT)
    close(gradients(turn_by_turn), gradients(one))


def forked(row: PolicyRow) -> list[PolicyRow]:
    """An act row without environment roles, and the environment's turns."""
    ids, roles = row.row.stream.ids, row.row.stream.roles
    act = Row(TokenStream(ids, [role if role == ACT else 0 for role in roles]), row.row.logprobs)
    turns = [turn for turn in row_per_turn(row.row) if ENV in turn.stream.roles and ENV in row.by_role]
    return [PolicyRow(turn, row.by_role) for turn in (act, *turns)]


def test_padding_changes_nothing(tiny: Any, rows: list[PolicyRow]) -> None:
    for budget in (10**6, 1):
        settings = dataclasses.replace(EXACT, token_budget=budget, aggregation="row_mean")
        without, padded = tiny.fresh(), tiny.fresh()
        logs = [backward(without, rows, settings)]
        logs.append(backward(padded, [PolicyRow(row.row, {}) for row in rows] + rows, settings))
        close(gradients(padded), gradients(without))
        assert logs[0] == pytest.approx(logs[1], rel=1e-5)


class Ranks:
    """Processes played by threads: a sum over ranks waits for all of them, as the real one does."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count, timeout=30)
        self.parts: dict[int, torch.Tensor] = {}

    def across(self, rank: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def total(tensor: torch.Tensor) -> torch.Tensor:
            self.parts[rank] = tensor
            self.barrier.wait()
            result = sum(self.parts.values(), torch.zeros_like(tensor))
            self.barrier.wait()
            return result

        return total


@pytest.mark.parametrize("cut", [3, 4, 0])
@pytest.mark.parametrize("aggregation", ["token_mean", "row_mean"])
def test_ranks_add_up_to_one_process(tiny: Any, rows: list[PolicyRow], cut: int, aggregation: Any) -> None:
    settings = dataclasses.replace(EXACT, token_budget=1, entropy=0.01, aggregation=aggregation)
    alone = tiny.fresh()
    expected = backward(alone, rows, settings)
    ranks, models = Ranks(2), [tiny.fresh(), tiny.fresh()]
    logs: dict[int, dict[str, float]] = {}
    passes = [0, 0]

    def work(rank: int) -> None:
        def count(*_: Any) -> None:
            passes[rank] += 1

        models[rank].model.register_forward_hook(count)
        own = rows[:cut] if rank == 0 else rows[cut:]
        logs[rank] = backward(models[rank], own, settings, across=ranks.across(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left, right = (gradients(model) for model in models)
    close({name: left[name] + right[name] for name in left}, gradients(alone))
    assert logs[0] == logs[1] == pytest.approx(expected, rel=1e-4)
    # A sharded model gathers its weights in every pass: a rank that ran fewer would hang the others.
    assert passes == [max(cut, 4 - cut)] * 2


def test_nothing_to_learn_leaves_the_model_alone(tiny: Any, rows: list[PolicyRow]) -> None:
    model = tiny.fresh()
    assert backward(model, [], EXACT) == {}
    assert backward(model, [PolicyRow(row.row, {}) for row in rows], EXACT) == {}
    assert gradients(model) == {}


def test_failure_14_scaffold_tokens_carry_no_loss(tiny: Any, rows: list[PolicyRow]) -> None:
    """Template tokens inside a turn are context: neither their probability nor their count matters."""
    row = rows[0]
    ids, roles = list(row.row.stream.ids), list(row.row.stream.roles)
    bridge = [at for at in range(len(ids)) if roles[at] == ENV][:3]
    for at in bridge:
        roles[at] = 0
    old = list(row.row.logprobs)
    scaffold = PolicyRow(Row(TokenStream(ids, roles), tuple(old)), row.by_role)
    for at in bridge:
        old[at] = -99.0
    absurd = PolicyRow(Row(TokenStream(ids, roles), tuple(old)), row.by_role)
    first, second, slow = tiny.fresh(), tiny.fresh(), tiny.fresh()
    log = backward(first, [scaffold], EXACT)
    assert log == backward(second, [absurd], EXACT)
    assert log["environment_tokens"] == row.tokens(ENV) - 3
    close(gradients(first), gradients(second), 1e-9)
    # The whole-sequence gradient differs: the test would notice a leak.
    slow_update(slow, [row], EXACT)
    with pytest.raises(AssertionError):
        close(gradients(first), gradients(slow))


def test_the_log_by_hand(tiny: Any, rows: list[PolicyRow]) -> None:
    marker = tiny.template.response_end
    log = backward(tiny.fresh(), rows, EXACT, environment_only=[marker])
    assert log["act_tokens"] == sum(row.tokens(ACT) for row in rows)
    assert log["environment_tokens"] == sum(row.tokens(ENV) for row in rows) > 0
    # Old log-probabilities are the model's own plus NOISE, so every ratio is known.
    drawn = [
        (role, row.by_role[role], -NOISE[at % len(NOISE)])
        for row in rows
        for at, role in enumerate(row.row.stream.roles)
        if role in row.by_role
    ]
    assert log["sampler_gap"] == pytest.approx(sum(abs(gap) for *_, gap in drawn) / len(drawn), rel=1e-3)
    # Ratios of e^0.5 and e^1.5 are above 1.2, that of e^-0.4 below 0.8, that of e^1.5 above 3 as well.
    for role, name in ((ACT, "act"), (ENV, "environment")):
        own = [(advantage > 0, gap) for r, advantage, gap in drawn if r == role]
        stopped = sum(
            (good, gap) in {(True, 0.5), (True, 1.5), (False, -0.4), (False, 1.5)} for good, gap in own
        )
        assert 0 < stopped < len(own)
        assert log[f"{name}_clipped"] == pytest.approx(stopped / len(own))
    divergence = [math.exp(gap) - 1 - gap for *_, gap in drawn]
    assert log["approx_kl"] == pytest.approx(sum(divergence) / len(drawn), rel=1e-3)
    assert log["leak_rate"] == 0.0


def test_a_leaked_marker_is_counted_and_pushed_down(tiny: Any, writer: Any) -> None:
    """The act role wrote the marker that only the environment role may write."""
    marker = tiny.template.response_end
    episode = writer.expert(pose("store", "order", 1, "train"))
    (row,) = episode.rows()
    roles = row.stream.roles
    ids = [*row.stream.ids, marker]
    leaky = PolicyRow(Row(TokenStream(ids, [*roles, ACT]), (*row.logprobs, -1.0)), {ACT: 0.0})
    settings = dataclasses.replace(EXACT, leak_penalty=1.0)
    model = tiny.fresh()
    log = backward(model, [leaky], settings, environment_only=[marker])
    assert log["leak_rate"] == pytest.approx(1 / (roles.count(ACT) + 1))
    assert norm(gradients(model)) > 0  # the advantage is 0: all of it is the penalty
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    again = backward(model, [leaky], settings, environment_only=[marker])
    assert 0 < again["leak_loss"] < log["leak_loss"]


def test_kl_pulls_towards_the_reference(tiny: Any, rows: list[PolicyRow]) -> None:
    anchor, model = tiny.model, tiny.fresh()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
    still = [PolicyRow(row.row, dict.fromkeys(row.by_role, 0.0)) for row in rows]
    settings = dataclasses.replace(EXACT, kl=1.0)
    before = backward(model, still, settings, reference=anchor)["kl"]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.05 * parameter.grad
    assert 0 < backward(model, still, settings, reference=anchor)["kl"] < before
    at_home = backward(tiny.fresh(), still, settings, reference=anchor)
    assert at_home["kl"] == pytest.approx(0, abs=1e-9)
    with pytest.raises(EnvaceError, match="reference"):
        backward(model, rows, settings)
    with pytest.raises(EnvaceError, match="marker"):
        backward(model, rows, dataclasses.replace(EXACT, leak_penalty=0.1))


def test_entropy_bonus_flattens_act_tokens(tiny: Any, rows: list[PolicyRow]) -> None:
    still = [PolicyRow(row.row, {ACT: 0.0}) for row in rows]
    model = tiny.fresh()
    before = backward(model, still, dataclasses.replace(EXACT, entropy=1.0))["act_entropy"]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.001 * parameter.grad
    assert backward(model, still, EXACT)["act_entropy"] > before
