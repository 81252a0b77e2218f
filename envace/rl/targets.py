"""The trained tokens of one forward pass, gathered from rows with advantages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from envace.models.precision import products
from envace.rl.batch import Inputs
from envace.rl.pack import Pack, attention_mask
from envace.rl.rows import PolicyRow


@dataclass(frozen=True)
class Targets:
    """The trained tokens of one forward pass; all but `inputs` have shape [tokens]."""

    inputs: Inputs
    """What goes through the model, and where it predicts them."""
    ids: torch.Tensor
    """Id of each."""
    roles: torch.Tensor
    """Role of each."""
    advantages: torch.Tensor
    """Advantage of each."""
    old_logprobs: torch.Tensor
    """Log-probability of each at sampling time."""
    weights: torch.Tensor
    """Aggregation weight of each, without its role's."""


def gather(
    packs: Sequence[Pack],
    rows: Sequence[PolicyRow],
    weights: Mapping[int, Sequence[float]],
    device: torch.device | str = "cpu",
    bfloat16: bool = True,
) -> Targets:
    """The trained tokens of some packs.

    Args:
        packs: Packs of rows, at least one.
        rows: All rows, as the packs number them.
        weights: By role, weight of a token of each row.
        device: Where the tensors go.
        bfloat16: Whether attention runs in bfloat16, on a device that has it.
    """
    width = max(len(packed.ids) for packed in packs)
    places: list[tuple[int, int, int]] = []
    values: list[tuple[float, float, float]] = []
    for at, packed in enumerate(packs):
        for number in packed.moved:
            row, by_role = rows[number].row, rows[number].by_role
            for token, role in enumerate(row.stream.roles):
                # Nothing stands before the first token, so nothing predicts it.
                if token and role in by_role:
                    source = at * width + packed.place(number, token - 1)
                    places.append((source, row.stream.ids[token], role))
                    values.append((by_role[role], row.logprobs[token], weights[role][number]))

    def padded(lists: Sequence[list[int]], value: int) -> torch.Tensor:
        return torch.tensor([own + [value] * (width - len(own)) for own in lists])

    positions = attention = None
    if any(len(packed.moved) > 1 for packed in packs):
        dtype = products(bfloat16, device)
        positions = padded([packed.positions for packed in packs], 0).to(device)
        attention = attention_mask(padded([packed.branches for packed in packs], -1).to(device), dtype)
    # Filled as lists and moved once: many small writes to another device are slow.
    sources, *whole = torch.tensor(places, dtype=torch.long, device=device).reshape(-1, 3).unbind(1)
    numbers = torch.tensor(values, dtype=torch.float32, device=device).reshape(-1, 3).unbind(1)
    ids = padded([packed.ids for packed in packs], 0).to(device)
    return Targets(Inputs(ids, sources, positions, attention), *whole, *numbers)
