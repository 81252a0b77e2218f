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


def collate(streams: Sequence[TokenStream]) -> Batch:
    """Pad streams to the longest of them."""
    length = max(len(stream) for stream in streams)
    ids = torch.zeros(len(streams), length, dtype=torch.long)
    roles = torch.full((len(streams), length), int(TokenRole.CONTEXT))
    mask = torch.zeros(len(streams), length, dtype=torch.bool)
    for row, stream in enumerate(streams):
        size = len(stream)
        ids[row, :size] = torch.tensor(stream.ids)
        roles[row, :size] = torch.tensor(stream.roles)
        mask[row, :size] = True
    return Batch(ids, roles, mask)


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
