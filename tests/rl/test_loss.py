"""Losses by hand, and token log-probabilities against whole softmaxes."""

from typing import Any

import pytest
import torch
from torch import tensor

from envace.chat import TokenStream
from envace.rl.batch import collate
from envace.rl.loss import cross_entropy, policy_gradient, token_logprobs


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
    loss = policy_gradient(new, tensor([0.0]), tensor([advantage]), tensor([1.0]))
    assert -loss.item() == pytest.approx(objective, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, new)
    assert bool(gradient != 0) is moves
    if moves:
        assert gradient.item() == pytest.approx(-ratio * advantage, abs=1e-5)


def test_weights_aggregate_tokens() -> None:
    zero = torch.zeros(3)
    loss = policy_gradient(zero, zero, tensor([1.0, -1.0, 2.0]), tensor([0.5, 0.25, 0.125]))
    assert loss.item() == -(0.5 - 0.25 + 0.25)


def test_gradient_on_policy_is_reinforce() -> None:
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).requires_grad_()
    chosen, advantage = tensor([0, 3, 6, 2, 2]), tensor([1.0, -0.5, 0.3, -2.0, 0.0])
    new = logits.log_softmax(-1)[torch.arange(5), chosen]
    ppo = policy_gradient(new, new.detach(), advantage, torch.full((5,), 0.2))
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
