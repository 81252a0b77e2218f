"""Rows with one prompt in one sequence: the prompt goes through the model once for all of them.

    PROMPT  REST OF ROW 1  REST OF ROW 2  …

A rest sees the prompt and itself, and its positions go on from the prompt's, so every token has
the states it would have in a row of its own. The roll-outs of a group share their prompt, which is
often longer than what follows.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch

from envace.chat import TokenRole, TokenStream

MASKED = frozenset({"grouped", "sdpa", "eager"})
"""Attention implementations that take any mask; with others every row stays by itself."""


@dataclass(frozen=True)
class Pack:
    """Some rows in one sequence."""

    ids: list[int]
    """Token ids."""
    positions: list[int]
    """Position of each token in its own row."""
    branches: list[int]
    """0 for tokens of the prompt, k for the rest of the k-th row."""
    prompt: int
    """Tokens of the prompt."""
    moved: dict[int, int]
    """By row, how far its rest has moved to the right."""

    def place(self, row: int, token: int) -> int:
        """Where a row's token is."""
        return token if token < self.prompt else token + self.moved[row]


PADDING = Pack([0, 0], [0, 1], [0, 0], 2, {})
"""A sequence without rows: what a rank runs forward when it is out of rows and others are not."""


def pack(streams: Sequence[TokenStream], implementation: str, budget: int) -> list[Pack]:
    """Put rows with the same prompt together, as long as attention gets no more expensive by it.

    Args:
        streams: Rows.
        implementation: The model's attention.
        budget: Tokens of a pack at most; a longer row stays by itself.
    """
    if implementation not in MASKED:
        return [_pack(streams, [row]) for row in range(len(streams))]
    by_prompt: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, stream in enumerate(streams):
        by_prompt[tuple(stream.ids[: _prompt(stream)])].append(row)
    groups: list[list[int]] = []
    for prompt, rows in by_prompt.items():
        length = cost = 0
        for row in rows:
            own = len(streams[row])
            together = length + own - len(prompt)
            if length and together <= budget and together**2 <= cost + own**2:
                groups[-1].append(row)
                length = together
            else:
                groups.append([row])
                length, cost = own, 0
            cost += own**2
    return [_pack(streams, rows) for rows in groups]


def _pack(streams: Sequence[TokenStream], rows: Sequence[int]) -> Pack:
    prompt = _prompt(streams[rows[0]])
    ids, positions, branches = streams[rows[0]].ids[:prompt], list(range(prompt)), [0] * prompt
    moved = {}
    for branch, row in enumerate(rows, start=1):
        moved[row] = len(ids) - prompt
        ids += streams[row].ids[prompt:]
        positions += range(prompt, len(streams[row]))
        branches += [branch] * (len(streams[row]) - prompt)
    return Pack(ids, positions, branches, prompt, moved)


def _prompt(stream: TokenStream) -> int:
    """Tokens of context in front of the first token that a role wrote."""
    return sum(1 for _ in takewhile(lambda role: role == TokenRole.CONTEXT, stream.roles))


def attention_mask(branches: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to attention scores so that a rest sees the prompt and itself.

    Args:
        branches: [packs, length], padded on the right with -1.
        dtype: Of the result.

    Returns:
        [packs, 1, length, length]: 0 where a token (third dimension) sees another (last), elsewhere
        the lowest number there is.
    """
    length, device = branches.shape[1], branches.device
    causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    seen, by = branches[:, None, :], branches[:, :, None]
    visible = causal & ((seen == 0) | (seen == by))
    nothing = torch.zeros(visible.shape, dtype=dtype, device=device)
    return nothing.masked_fill(~visible, torch.finfo(dtype).min)[:, None]
