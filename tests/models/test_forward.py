"""The head on selected places only: the logits of the whole forward pass, and no trace left behind."""

from typing import Any

import pytest
import torch

from envace.models.forward import selected_logits


@pytest.fixture
def ids(tiny: Any) -> torch.Tensor:
    return torch.randint(7, tiny.vocabulary, (3, 20), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_equals_the_whole_forward_pass_at_the_selected_places(tiny: Any, ids: torch.Tensor) -> None:
    everything = tiny.model(input_ids=ids).logits
    for chosen in ([0, 19, 20, 59, 20], [41], []):
        places = torch.tensor(chosen, dtype=torch.long)
        found = selected_logits(tiny.model, ids, places)
        torch.testing.assert_close(found, everything.flatten(0, 1)[places], atol=1e-5, rtol=1e-5)
    assert torch.equal(tiny.model(input_ids=ids).logits, everything)  # the hook is gone


@torch.no_grad()
def test_positions_and_attention_reach_the_model(tiny: Any, ids: torch.Tensor) -> None:
    # Two rows side by side in one, told apart by positions and attention, are the two rows.
    length = ids.shape[1]
    joined = torch.cat([ids[0], ids[1]])[None]
    positions = torch.arange(length).repeat(2)[None]
    visible = torch.block_diag(*[torch.ones(length, length).tril()] * 2)
    attention = torch.where(visible > 0, 0.0, -1e9)[None, None]
    places = torch.tensor([5, length - 1, length, 2 * length - 1])
    packed = selected_logits(tiny.model, joined, places, positions, attention)
    apart = selected_logits(tiny.model, ids[:2], places)
    torch.testing.assert_close(packed, apart, atol=1e-4, rtol=1e-4)


def test_an_error_leaves_the_model_as_it_was(tiny: Any, ids: torch.Tensor) -> None:
    with pytest.raises(IndexError):
        selected_logits(tiny.model, ids, torch.tensor([1000]))
    with torch.no_grad():
        assert tiny.model(input_ids=ids).logits.shape[:2] == ids.shape
