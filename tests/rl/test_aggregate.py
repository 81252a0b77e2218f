"""How tokens are weighted, by hand; and finding a largest count with sums only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envace.rl.aggregate import most, token_weights


def test_weights_by_hand() -> None:
    # Rows of 2 and 6 trained tokens, one that takes no part, and 8 tokens in 2 rows on another rank.
    lengths, tokens, rows = [2, 0, 6], 16, 4
    assert token_weights(lengths, tokens, rows, "token_mean", 100) == [1 / 16, 0, 1 / 16]
    assert token_weights(lengths, tokens, rows, "row_mean", 100) == [1 / 8, 0, 1 / 24]
    assert token_weights(lengths, tokens, rows, "dr_grpo", 100) == [1 / 400, 0, 1 / 400]


@given(lengths=st.lists(st.integers(0, 30), min_size=1).filter(any))
def test_means_weigh_a_batch_with_one(lengths: list[int]) -> None:
    tokens, rows = sum(lengths), sum(map(bool, lengths))
    for aggregation in ("token_mean", "row_mean"):
        weights = token_weights(lengths, tokens, rows, aggregation, 1)  # type: ignore[arg-type]
        assert sum(w * n for w, n in zip(weights, lengths, strict=True)) == pytest.approx(1)


@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_most_finds_the_largest_count_of_all_ranks(counts: list[int]) -> None:
    def across(own: torch.Tensor) -> torch.Tensor:
        return sum(((torch.arange(len(own)) < count).float() for count in counts), torch.zeros_like(own))

    assert [most(count, across) for count in counts] == [max(counts)] * len(counts)
