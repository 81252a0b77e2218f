"""Batches: nothing lost, nothing twice, nothing over budget."""

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from envace.chat import TokenStream
from envace.params import WarmupParams
from envace.rl.batch import by_token_budget, collate
from envace.rl.warmup import schedule

LENGTHS = st.lists(st.integers(1, 60), max_size=40)


@given(lengths=LENGTHS, budget=st.integers(1, 200))
def test_groups_partition_within_the_budget(lengths: list[int], budget: int) -> None:
    groups = list(by_token_budget(lengths, budget))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        padded = len(group) * max(lengths[index] for index in group)
        assert padded <= budget or len(group) == 1


def test_similar_lengths_share_a_batch() -> None:
    assert list(by_token_budget([9, 1, 10, 2, 1], 20)) == [[1, 4, 3], [0, 2]]


def test_collate_pads_on_the_right_with_context() -> None:
    batch = collate([TokenStream([5, 6, 7], [0, 1, 2]), TokenStream([8], [1])])
    assert batch.ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.roles.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.ids.dtype == torch.long


def warmup(steps: int, token_budget: int) -> WarmupParams:
    return WarmupParams(
        steps=steps, token_budget=token_budget, matrix_rate=0.02, rest_rate=0.004,
        environment_weight=1.0, checkpoint_every=10,
    )  # fmt: skip


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_an_epoch_shows_every_stream_once(lengths: list[int], seed: int) -> None:
    plan = schedule(lengths, warmup(200, 120), seed)
    assert len(plan) == 200
    assert plan == schedule(lengths, warmup(200, 120), seed)
    assert plan[:50] == schedule(lengths, warmup(50, 120), seed)  # a longer run begins alike
    epoch: list[int] = []
    for batch in plan:
        epoch += batch
        if len(epoch) == len(lengths):
            assert sorted(epoch) == list(range(len(lengths)))
            epoch = []
    assert len(epoch) < len(lengths)


def test_epochs_and_seeds_differ() -> None:
    lengths = [random.Random(0).randint(1, 60) for _ in range(300)]
    batches = len(schedule(lengths, warmup(1, 10**6), 0))
    assert batches == 1
    plan = schedule(lengths, warmup(400, 300), 0)
    first = next(end for end in range(1, 400) if sum(len(b) for b in plan[:end]) == 300)
    assert plan[:first] != plan[first : 2 * first]
    assert plan != schedule(lengths, warmup(400, 300), 1)
