"""Losses by hand, and token log-probabilities against whole softmaxes."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from envace.chat import TokenStream
from envace.rl.batch import Inputs, collate
from envace.rl.loss import (
    clipped,
    cross_entropy,
    entropies,
    k3,
    log_distributions,
    policy_gradient,
    token_logprobs,
    unlikelihood,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "objective", "moves"),
    [
        (1.0, 1.0, 1.0, True),
        (1.1, 2.0, 2.2, True),
        (1.5, 1.0, 1.2, False),  # clipped above
        (0.5, 1.0, 0.5, True),  # a good token that became unlikely is still pulled up
        (0.5, -1.0, -0.8, False),  # clipped below
        (1.5, -1.0, -1.5, True),
        (2.9, -1.0, -2.9, True),
        (5.0, -1.0, -3.0, False),  # dual clip
        (5.0, -2.0, -6.0, False),
        (9.0, 0.0, 0.0, False),
    ],
)
def test_clip_and_dual_clip_by_hand(ratio: float, advantage: float, objective: float, moves: bool) -> None:
    new = tensor([ratio]).log().requires_grad_()
    loss = policy_gradient(new, tensor([0.0]), tensor([advantage]))
    assert -loss.item() == pytest.approx(objective, abs=1e-6)
    assert clipped(new, tensor([0.0]), tensor([advantage])).item() is (not moves and advantage != 0)
    (gradient,) = torch.autograd.grad(loss, new)
    assert bool(gradient != 0) is moves
    if moves:
        assert gradient.item() == pytest.approx(-ratio * advantage, abs=1e-5)


def test_clip_ranges_are_apart() -> None:
    new = tensor([0.85, 0.85, 1.25, 1.25]).log()
    advantages = tensor([1.0, -1.0, 1.0, -1.0])
    loss = policy_gradient(new, torch.zeros(4), advantages, clip_low=0.1, clip_high=0.3)
    torch.testing.assert_close(-loss, tensor([0.85, -0.9, 1.25, -1.25]))
    assert clipped(new, torch.zeros(4), advantages, 0.1, 0.3).tolist() == [False, True, False, False]


def test_an_exploding_ratio_stays_a_number() -> None:
    """exp(200) is infinite in float32, and infinity times an advantage of 0 is not a number."""
    new = torch.zeros(3, requires_grad=True)
    loss = policy_gradient(new, torch.full((3,), -200.0), tensor([0.0, 1.0, -1.0]))
    assert -loss.detach() == pytest.approx([0.0, 1.2, -3.0])
    (gradient,) = torch.autograd.grad(loss.sum(), new)
    assert gradient.tolist() == [0.0, 0.0, 0.0]
    assert k3(torch.full((1,), -200.0), torch.zeros(1)).isfinite().all()


@given(seed=st.integers(0, 10**6))
def test_k3_is_nonnegative_and_unbiased(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    own, other = (torch.randn(9, generator=generator).log_softmax(0) for _ in range(2))
    estimates = k3(own, other)
    assert (estimates >= 0).all()
    # The mean over all tokens under `own` is the divergence itself.
    exact = (own.exp() * (own - other)).sum()
    torch.testing.assert_close((own.exp() * estimates).sum(), exact, atol=1e-5, rtol=1e-4)
    assert k3(own, own).abs().max() == 0


def test_unlikelihood_by_hand() -> None:
    table = tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]).log()
    found = unlikelihood(table, [1, 2])
    assert found[0].item() == pytest.approx(math.log(2))
    assert found[1].isfinite() and found[1] > 10  # certain of a marker: costly, not infinite


def test_entropies_by_hand() -> None:
    table = tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    expected = [math.log(2), -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))]
    assert entropies(table).tolist() == pytest.approx(expected)


def test_gradient_on_policy_is_reinforce() -> None:
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).requires_grad_()
    chosen, advantage = tensor([0, 3, 6, 2, 2]), tensor([1.0, -0.5, 0.3, -2.0, 0.0])
    new = logits.log_softmax(-1)[torch.arange(5), chosen]
    ppo = policy_gradient(new, new.detach(), advantage).mean()
    reinforce = -(new * advantage).mean()
    (left,) = torch.autograd.grad(ppo, logits, retain_graph=True)
    (right,) = torch.autograd.grad(reinforce, logits)
    torch.testing.assert_close(left, right)


def test_cross_entropy_is_a_weighted_mean() -> None:
    logprobs = tensor([-1.0, -2.0, -4.0])
    assert cross_entropy(logprobs, tensor([1.0, 1.0, 1.0])).item() == pytest.approx(7 / 3)
    assert cross_entropy(logprobs, tensor([1.0, 0.0, 0.5])).item() == pytest.approx(2.0)
    assert cross_entropy(logprobs, torch.zeros(3)).item() == 0.0
    assert cross_entropy(torch.empty(0), torch.empty(0)).item() == 0.0


def test_token_logprobs_equal_whole_rows_alone(tiny: Any) -> None:
    rows = [[1, 30, 31, 32, 33], [1, 40, 41], [1, 50, 51, 52, 53, 54, 55]]
    batch = collate([TokenStream(ids, [1] * len(ids)) for ids in rows])
    selected = batch.mask[:, 1:].clone()
    selected[0, 1] = selected[2, 0] = False
    with torch.no_grad():
        got, entropy = token_logprobs(tiny.model, batch, selected, bfloat16=False)
        expected, spread = [], []
        for index, ids in enumerate(rows):
            table = tiny.model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            for position, token in enumerate(ids[1:]):
                if selected[index, position]:
                    expected.append(table[position, token])
                    spread.append(-(table[position].exp() * table[position]).sum())
        near, _ = token_logprobs(tiny.model, batch, selected)
    torch.testing.assert_close(got, torch.stack(expected), atol=1e-4, rtol=0)
    torch.testing.assert_close(entropy, torch.stack(spread), atol=1e-4, rtol=0)
    assert near.dtype == torch.float32
    torch.testing.assert_close(near, got, atol=0.1, rtol=0)  # bfloat16 products


def test_forbidden_ids_and_temperature_give_the_samplers_distribution(tiny: Any) -> None:
    ids = [1, 30, 31, 32]
    batch = collate([TokenStream(ids, [1] * len(ids))])
    never = [0, 2, 77]
    with torch.no_grad():
        inputs = Inputs(batch.ids, torch.arange(3))
        got = log_distributions(tiny.model, inputs, False, never, 0.5).exp()
        logits = tiny.model(input_ids=torch.tensor([ids])).logits[0, :-1]
    for position, row in enumerate(got):
        whole = [
            0.0 if token in never else math.exp(2 * logit) for token, logit in enumerate(logits[position])
        ]
        assert row.tolist() == pytest.approx([value / sum(whole) for value in whole], abs=1e-6)
