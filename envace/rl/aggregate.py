"""How token losses become one number: the weight of a token in each row.

    token_mean  1 / tokens of all rows: every token counts alike (DAPO, arXiv 2503.14476)
    row_mean    1 / (rows · tokens of the row): every row counts alike (GRPO, arXiv 2402.03300)
    dr_grpo     1 / (rows · constant length): as token_mean, but a batch of short rows does not
                take longer steps a token (Dr. GRPO, arXiv 2503.20783)

Only `token_mean` does not care whether a trajectory is one row or several.
"""

from collections.abc import Callable, Sequence

import torch

from envace.rl.settings import Aggregation

Across = Callable[[torch.Tensor], torch.Tensor]
"""Sums a tensor over all ranks; every rank calls it equally often with equal shapes."""

PLACES = 4096
"""Most forward passes of one rank that `most` can tell apart."""


def alone(tensor: torch.Tensor) -> torch.Tensor:
    """The sum over ranks where there is only one."""
    return tensor


def token_weights(
    lengths: Sequence[int], tokens: float, rows: float, aggregation: Aggregation, max_length: int
) -> list[float]:
    """Weight of each trained token of each row, for the tokens of one role.

    Args:
        lengths: Trained tokens of each row; 0 for a row that does not take part.
        tokens: Trained tokens of all rows of all ranks.
        rows: Rows of all ranks that take part.
        aggregation: See the module.
        max_length: The constant of `dr_grpo`, in tokens.

    Returns:
        One weight a row; 0 for a row that does not take part.
    """
    weights = {
        "token_mean": lambda length: 1 / tokens,
        "row_mean": lambda length: 1 / (rows * length),
        "dr_grpo": lambda length: 1 / (rows * max_length),
    }
    return [weights[aggregation](length) if length else 0.0 for length in lengths]


def most(count: int, across: Across, device: torch.device | str = "cpu") -> int:
    """The largest `count` of all ranks, found with sums only: a rank marks its first `count` places."""
    places = torch.zeros(PLACES, device=device)
    places[:count] = 1
    return int((across(places) > 0).sum())
