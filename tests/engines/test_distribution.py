"""What is sampled from, against an obvious computation; and what a trainer sees that ignores it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envace.engines import Sampling
from envace.engines.distribution import chances, draw, log_distribution

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=12)


def slow(logits: list[float], temperature: float, top_p: float, never: set[int]) -> list[float]:
    """Probabilities: the likeliest tokens until their sum reaches `top_p`, renormalized."""
    weights = [0.0 if i in never else math.exp(x / temperature) for i, x in enumerate(logits)]
    total = sum(weights)
    kept: list[int] = []
    for index in sorted(range(len(logits)), key=lambda i: -weights[i]):
        if kept and sum(weights[i] for i in kept) / total >= top_p - 1e-6:
            break
        kept.append(index)
    mass = sum(weights[i] for i in kept)
    return [weights[i] / mass if i in kept else 0.0 for i in range(len(logits))]


@given(LOGITS, st.floats(0.3, 3), st.floats(0.05, 1))
def test_temperature_top_p_and_forbidden_ids(logits: list[float], temperature: float, top_p: float) -> None:
    # A nucleus that ends within rounding of `top_p`, or between equals, may end on either side.
    expected = slow(logits, temperature, top_p, {0})
    if expected != slow(logits, temperature, top_p - 1e-4, {0}) or len(set(logits)) < len(logits):
        return
    given = torch.tensor([logits])
    sampling = Sampling(temperature, top_p=top_p)
    found = log_distribution(given, sampling, torch.tensor([0]))[0].exp()
    assert found.tolist() == pytest.approx(expected, abs=1e-4)
    assert given[0].tolist() == logits  # the caller's logits are not changed


def test_by_hand() -> None:
    logits = torch.tensor([[math.log(0.5), math.log(0.3), math.log(0.2)]])
    none = torch.tensor([], dtype=torch.long)
    for top_p, expected in ((0.4, [1, 0, 0]), (0.7, [5 / 8, 3 / 8, 0]), (0.9, [0.5, 0.3, 0.2])):
        found = log_distribution(logits, Sampling(1.0, top_p=top_p), none).exp()[0].tolist()
        assert found == pytest.approx(expected, abs=1e-6)
    # Half the temperature squares the odds; greedy reports T = 1 without top-p.
    half = log_distribution(logits, Sampling(0.5), none).exp()[0].tolist()
    assert half == pytest.approx([25 / 38, 9 / 38, 4 / 38], abs=1e-6)
    greedy = log_distribution(logits, Sampling(0.0, top_p=0.4), none).exp()[0].tolist()
    assert greedy == pytest.approx([0.5, 0.3, 0.2], abs=1e-6)


def test_draws_have_the_probabilities_and_stay_in_the_nucleus() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2, 1e-9]]).log().expand(20_000, 4)
    none = torch.tensor([], dtype=torch.long)
    logprobs = log_distribution(logits, Sampling(1.0, top_p=0.75), none)
    shares = (
        torch.bincount(draw(logprobs, chances(20_000, torch.Generator().manual_seed(0))), minlength=4)
        / 20_000
    )
    assert shares[:2].tolist() == pytest.approx([5 / 8, 3 / 8], abs=0.02)
    assert shares[2:].tolist() == [0, 0]
