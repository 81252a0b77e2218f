"""Rows and batches: flat token streams, padded on the right, weighted token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from envace.chat import TokenRole, TokenStream


@dataclass(frozen=True)
class Batch:
    """Padded rows. Targets of position t are the tokens at t + 1."""

    ids: torch.Tensor
    """Token ids, [rows, length], padded with 0 on the right."""
    roles: torch.Tensor
    """`TokenRole` of each token, [rows, length]; padding is CONTEXT."""
    mask: torch.Tensor
    """True for real tokens, [rows, length]."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same rows on another device."""
        return Batch(self.ids.to(device), self.roles.to(device), self.mask.to(device))


@dataclass(frozen=True)
class Inputs:
    """One forward pass and the places whose predictions are wanted."""

    ids: torch.Tensor
    """Token ids, [rows, length], padded on the right."""
    sources: torch.Tensor
    """Where each wanted token is predicted, [tokens]: row · length + place of the token before it."""
    positions: torch.Tensor | None = None
    """Position of each token, [rows, length]; None counts from the left."""
    attention: torch.Tensor | None = None
    """Added to attention scores, [rows, 1, length, length]; None lets each token see all before it."""


def collate(streams: Sequence[TokenStream], device: torch.device | str = "cpu") -> Batch:
    """Pad streams to the longest of them.

    Args:
        streams: Token streams, at least one.
        device: Where the tensors go; for a forward pass, the model's device.
    """
    length = max(len(stream) for stream in streams)
    ids = torch.zeros(len(streams), length, dtype=torch.long)
    roles = torch.full((len(streams), length), int(TokenRole.CONTEXT))
    mask = torch.zeros(len(streams), length, dtype=torch.bool)
    for row, stream in enumerate(streams):
        size = len(stream)
        ids[row, :size] = torch.tensor(stream.ids)
        roles[row, :size] = torch.tensor(stream.roles)
        mask[row, :size] = True
    # Filled on the CPU and moved once: many small writes to another device are slow.
    return Batch(ids, roles, mask).to(device)


def by_token_budget(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group indices of similar length so that rows x longest stays within `budget` tokens.

    A row longer than the budget makes a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    group: list[int] = []
    for index in order:
        if group and lengths[index] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
