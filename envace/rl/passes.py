"""Equally many forward passes on every rank: a sharded policy is gathered by all ranks or not at all."""

from collections.abc import Sequence

import torch

from envace.chat import TokenRole, TokenStream
from envace.rl.aggregate import Across, alone, most
from envace.rl.batch import by_token_budget

NOTHING = TokenStream([0, 0], [int(TokenRole.CONTEXT)] * 2)
"""A row without a token to train: what a rank runs forward when it is out of rows and others are not."""


def even_passes(
    lengths: Sequence[int], budget: int, across: Across = alone, device: torch.device | str = "cpu"
) -> list[list[int]]:
    """Forward passes over this rank's rows, empty ones at the end where another rank has more.

    Args:
        lengths: Tokens of each row of this rank.
        budget: Tokens of one pass, padding included.
        across: Sums over ranks.
        device: Where ranks can add up.

    Returns:
        Indices of the rows of each pass.
    """
    own = list(by_token_budget(lengths, budget))
    return own + [[] for _ in range(most(len(own), across, device) - len(own))]
