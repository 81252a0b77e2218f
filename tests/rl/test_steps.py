"""Several optimizer steps on one batch, and a sampler that means another distribution."""

import dataclasses
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from slow import ACT, drawn_from, policy_row

from envace.chat import TokenRole, TokenStream
from envace.engines import Sampling
from envace.engines.hf import HFEngine
from envace.errors import EnvaceError
from envace.rl.rows import PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.steps import minibatches, optimize
from envace.rl.update import backward
from envace.rollout.episode import Row
from envace.worlds.tasks import pose

EXACT = UpdateSettings("none", bfloat16=False)


@pytest.fixture
def rows(tiny: Any, writer: Any) -> list[PolicyRow]:
    """Four on-policy rows."""
    episodes = [writer.expert(pose("store", "order", seed, "train")) for seed in range(4)]
    return [
        drawn_from(tiny.model, policy_row(episode, 1.0 if at % 2 else -1.0))
        for at, episode in enumerate(episodes)
    ]


class Stepper:
    """Plain gradient descent that counts its steps."""

    def __init__(self, model: Any, rate: float) -> None:
        self.model, self.rate, self.taken = model, rate, 0

    def __call__(self) -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e9))
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter -= self.rate * parameter.grad
                parameter.grad = None
        self.taken += 1
        return norm


def run(model: Any, rows: list[PolicyRow], settings: UpdateSettings, rate: float = 0.0, seed: int = 0) -> Any:
    step = Stepper(model, rate)
    log = optimize(rows, settings, partial(backward, model, settings=settings), step, seed)
    return step.taken, log


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_one_step_is_one_backward(tiny: Any, rows: list[PolicyRow]) -> None:
    model, alone = tiny.fresh(), tiny.fresh()
    taken, log = run(model, rows, EXACT, 0.1)
    expected = backward(alone, rows, EXACT)
    norm = Stepper(alone, 0.1)()
    assert taken == 1 and log == expected | {"gradient_norm": norm}
    assert torch.equal(weights(model), weights(alone))


def test_old_log_probabilities_stay_the_samplers_and_clips_start_to_matter(
    tiny: Any, rows: list[PolicyRow]
) -> None:
    settings = dataclasses.replace(EXACT, epochs=8)
    taken, log = run(tiny.fresh(), rows, settings, rate=3.0)
    assert taken == 8
    assert log["sampler_gap"] < 1e-5  # the first step's: there policy and sampler are the same
    assert log["approx_kl"] > 1e-3 and log["act_clipped"] > 0.02
    # Clipped, the policy moves less far than without clips.
    free = dataclasses.replace(settings, clip_low=1.0, clip_high=99.0, dual_clip=99.0)
    moved = []
    for options in (settings, free):
        model = tiny.fresh()
        run(model, rows, options, rate=3.0)
        moved.append(backward(model, rows, EXACT)["approx_kl"])
    assert moved[0] < moved[1]


@given(count=st.integers(1, 6), rows=st.integers(0, 20), seed=st.integers(0, 5))
def test_minibatches_show_every_row_once_an_epoch(count: int, rows: int, seed: int) -> None:
    own = [PolicyRow(Row(TokenStream([at, at], [0, 1]), (0.0, 0.0)), {ACT: 1.0}) for at in range(rows)]
    parts = minibatches(own, count, str(seed))
    assert len(parts) == count and sorted(map(len, parts))[-1] - min(map(len, parts)) <= 1
    assert sorted(row.row.stream.ids[0] for part in parts for row in part) == list(range(rows))
    assert parts == minibatches(own, count, str(seed))
    if count == 1:
        assert parts == [own]


def test_minibatches_are_dealt_anew_each_epoch(tiny: Any, rows: list[PolicyRow]) -> None:
    seen: list[tuple[int, ...]] = []

    def gradient(part: Any) -> dict[str, float]:
        seen.append(tuple(rows.index(row) for row in part))
        return {"policy_loss": float(len(seen))}

    settings = dataclasses.replace(EXACT, epochs=4, minibatches=2)
    log = optimize(rows, settings, gradient, lambda: 1.0, seed=3)
    assert len(seen) == 8 and len(set(seen)) > 2
    assert log == {"policy_loss": 4.5, "gradient_norm": 1.0}


def test_no_rows_take_an_empty_step(tiny: Any) -> None:
    log = optimize([], EXACT, partial(backward, tiny.fresh(), settings=EXACT), lambda: 0.0)
    assert log == {"gradient_norm": 0.0}


@pytest.mark.parametrize(
    "changed", [{"temperature": 0.5}, {"top_p": 0.3}, {"forbidden_ids": frozenset(range(9, 480, 2))}]
)
def test_failure_8_a_sampler_of_another_distribution_is_refused(tiny: Any, changed: dict[str, Any]) -> None:
    """Temperature, top-p or forbidden ids on one side only: ratios would be wrong from the first step."""
    model = tiny.fresh()
    with torch.no_grad():
        model.model.norm.weight *= 6  # a policy with opinions: a flat one hardly notices
    settings = dataclasses.replace(EXACT, max_sampler_gap=0.05)

    def sampled(sampling: Sampling) -> list[PolicyRow]:
        prompt = [1, 30, 31]
        (group,) = HFEngine(model, tiny.vocabulary).generate([prompt], sampling, 8)
        return [
            PolicyRow(
                Row(
                    TokenStream(prompt + done.ids, [0] * len(prompt) + [int(TokenRole.ACT)] * len(done.ids)),
                    (0.0,) * len(prompt) + tuple(done.logprobs),
                ),
                {ACT: 1.0},
            )
            for done in group
        ]

    unreal = list(range(tiny.vocabulary, model.config.vocab_size))
    fair = Sampling(max_new_tokens=20, seed=1)
    before = weights(model)

    def attempt(rows: list[PolicyRow], settings: UpdateSettings, never: list[int]) -> float:
        gradient = partial(backward, model, settings=settings, never=never)
        return optimize(rows, settings, gradient, lambda: 0.0)["sampler_gap"]

    assert attempt(sampled(fair), settings, unreal) < 1e-4
    skewed = sampled(dataclasses.replace(fair, **changed))
    with pytest.raises(EnvaceError, match="sampler and trainer differ by"):
        attempt(skewed, settings, unreal)
    assert torch.equal(weights(model), before)
    # Where both sides can be told the same, they are the same; a cut by top-p cannot.
    if "temperature" in changed:
        assert attempt(skewed, dataclasses.replace(settings, temperature=0.5), unreal) < 1e-4
    if "forbidden_ids" in changed:
        assert attempt(skewed, settings, unreal + sorted(changed["forbidden_ids"])) < 1e-4
