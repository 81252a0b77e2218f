"""Rows with one prompt in one sequence: the same states as apart, and never more attention."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envace.chat import TokenStream
from envace.models.forward import selected_logits
from envace.rl.pack import attention_mask, pack

PROMPTS = st.sampled_from([[], [5], [5, 6, 7, 8], [9] * 9])
STREAMS = st.lists(st.tuples(PROMPTS, st.lists(st.integers(10, 40), max_size=9)), max_size=12)


def stream(prompt: list[int], rest: list[int]) -> TokenStream:
    return TokenStream(prompt + rest, [0] * len(prompt) + [1 + at % 2 for at in range(len(rest))])


def test_a_pack_by_hand() -> None:
    rows = [stream([7, 8, 9], [1, 2]), stream([7, 8], [3]), stream([7, 8, 9], [4])]
    first, second = pack(rows, "sdpa", 100)
    assert (first.ids, first.prompt) == ([7, 8, 9, 1, 2, 4], 3)
    assert first.positions == [0, 1, 2, 3, 4, 3]
    assert first.branches == [0, 0, 0, 1, 1, 2]
    assert [first.place(0, at) for at in range(5)] == [0, 1, 2, 3, 4]
    assert [first.place(2, at) for at in range(4)] == [0, 1, 2, 5]
    assert (second.ids, second.moved) == ([7, 8, 3], {1: 0})
    visible = attention_mask(torch.tensor([[*first.branches, -1]]), torch.float32)[0, 0] == 0
    assert visible.long().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 1, 0],  # not the other row's rest
        [1, 1, 1, 0, 0, 0, 1],  # padding sees something, so that no softmax is empty
    ]


@given(parts=STREAMS, budget=st.integers(1, 40))
def test_every_token_is_there_and_attention_is_never_dearer(
    parts: list[tuple[list[int], list[int]]], budget: int
) -> None:
    rows = [stream(*part) for part in parts]
    packs = pack(rows, "grouped", budget)
    assert sorted(row for packed in packs for row in packed.moved) == list(range(len(rows)))
    for packed in packs:
        for row in packed.moved:
            places = [packed.place(row, at) for at in range(len(rows[row]))]
            assert [packed.ids[place] for place in places] == rows[row].ids
            assert [packed.positions[place] for place in places] == list(range(len(places)))
        assert len(packed.ids) <= budget or len(packed.moved) == 1
        assert len(packed.ids) ** 2 <= sum(len(rows[row]) ** 2 for row in packed.moved)


def test_an_attention_without_masks_gets_rows_apart() -> None:
    rows = [stream([7, 8, 9], [1]), stream([7, 8, 9], [2])]
    assert len(pack(rows, "grouped", 100)) == 1
    assert [packed.ids for packed in pack(rows, "flash_attention_2", 100)] == [row.ids for row in rows]


@pytest.mark.parametrize("implementation", ["grouped", "sdpa", "eager"])
def test_states_are_those_of_rows_apart(tiny: Any, implementation: str) -> None:
    rows = [stream([7, 8, 9, 10, 11, 12], rest) for rest in ([20, 21, 22], [30], [40, 41])]
    (packed,) = pack(rows, implementation, 100)
    model = tiny.fresh()
    model.set_attn_implementation(implementation)
    # A second, longer sequence beside it: the pack is padded.
    width = len(packed.ids) + 4
    ids = torch.tensor([packed.ids + [0] * 4, list(range(50, 50 + width))])
    positions = torch.tensor([packed.positions + [0] * 4, list(range(width))])
    branches = torch.tensor([packed.branches + [-1] * 4, [0] * width])
    with torch.no_grad():
        for number, row in enumerate(rows):
            places = torch.tensor([packed.place(number, at) for at in range(len(row))])
            mask = attention_mask(branches, torch.float32)
            together = selected_logits(model, ids, places, positions, mask)
            apart = model(input_ids=torch.tensor([row.ids])).logits[0]
            torch.testing.assert_close(together, apart, atol=1e-4, rtol=1e-4)
