"""Key-value states of sequences already computed, found again by their tokens.

A radix tree: sequences share the nodes of their common prefix, so the samples of one prompt hold
its states once. Over the budget, the least recently used leaves lose states from their end; their
tokens stay a while, so that computing them again can be told from computing them first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

REMEMBERED = 1_000_000
"""Tokens in the tree beyond which those without states are forgotten."""


@dataclass(eq=False)
class _Node:
    """A run of tokens behind its parent's."""

    tokens: list[int]
    """The run; only the root's is empty."""
    states: torch.Tensor | None
    """[states, heads, tokens, dimension], None once evicted; no child of a node without has any."""
    parent: "_Node | None" = None
    """The node in front."""
    children: dict[int, "_Node"] = field(default_factory=dict)
    """Continuations by their first token."""
    used: int = 0
    """When it was last found or put."""


@dataclass(frozen=True)
class Found:
    """What is known of a prompt."""

    states: list[torch.Tensor]
    """States of its first tokens, in runs along the third dimension."""
    length: int
    """Tokens that these states cover."""
    known: int
    """Tokens computed at some time, evicted ones included; at least `length`."""


class PrefixStore:
    """States by token sequence, within a budget of tokens."""

    def __init__(self, budget: int) -> None:
        """Hold the states of at most `budget` tokens."""
        self.budget = budget
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._root = _Node([], None)
        self._clock = 0
        self.held = 0
        """Tokens with states."""
        self.remembered = 0
        """Tokens with or without."""

    def find(self, ids: Sequence[int], limit: int) -> Found:
        """States of the longest known prefix of `ids`, of at most `limit` tokens."""
        runs: list[torch.Tensor] = []
        length = known = 0
        for node, shared in self._path(ids):
            known += shared
            room = min(shared, limit - length)
            if node.states is not None and room > 0:
                runs.append(node.states[:, :, :room])
                length += room
        return Found(runs, length, known)

    def put(self, ids: Sequence[int], states: Callable[[int], torch.Tensor] | None) -> None:
        """Add a sequence.

        Args:
            ids: Its tokens.
            states: Gives the states of `ids[start:]`, [states, heads, tokens, dimension], asked at
                most once for the part that is not held; None only remembers the tokens.
        """
        parent, start, lacking = self._root, 0, []
        for node, shared in self._path(ids):
            if shared < len(node.tokens):
                self._split(node, shared)
            if node.states is None and states is not None:
                lacking.append((node, start))
            parent, start = node, start + shared
        if start < len(ids):
            leaf = _Node(list(ids[start:]), None, parent, used=self._clock)
            parent.children[ids[start]] = leaf
            self.remembered += len(leaf.tokens)
            if states is not None:
                lacking.append((leaf, start))
        if states is not None and lacking:
            first = lacking[0][1]
            computed = states(first)
            for node, start in lacking:
                stop = start + len(node.tokens)
                node.states = computed[:, :, start - first : stop - first].contiguous()
                self.held += len(node.tokens)
        self._trim()

    def _path(self, ids: Sequence[int]) -> Iterator[tuple[_Node, int]]:
        """Nodes along `ids` with the number of tokens shared with each; marks them as used."""
        self._clock += 1
        node, start = self._root, 0
        while start < len(ids) and ids[start] in node.children:
            node = node.children[ids[start]]
            node.used = self._clock
            shared = _shared(node.tokens, ids[start : start + len(node.tokens)])
            start += shared
            yield node, shared
            if shared < len(node.tokens):
                return

    def _split(self, node: _Node, at: int) -> None:
        """Cut a node in two; the object keeps the front, so a walk may go on from it."""
        rear = _Node(node.tokens[at:], None, node, node.children, node.used)
        for child in rear.children.values():
            child.parent = rear
        if node.states is not None:
            # Copies, so that evicting the rear frees its memory.
            rear.states = node.states[:, :, at:].clone()
            node.states = node.states[:, :, :at].clone()
        node.tokens = node.tokens[:at]
        node.children = {rear.tokens[0]: rear}

    def _trim(self) -> None:
        while self.held > self.budget:
            leaf = min(self._leaves(self._root), key=lambda node: node.used)
            keep = max(0, len(leaf.tokens) - (self.held - self.budget))
            if keep:
                self._split(leaf, keep)
                (leaf,) = leaf.children.values()
            self.held -= len(leaf.tokens)
            leaf.states = None
        if self.remembered > max(self.budget, REMEMBERED):
            self._prune(self._root)
            self.remembered = self.held

    def _leaves(self, node: _Node) -> Iterator[_Node]:
        """Nodes with states none of whose children has any."""
        held = [child for child in node.children.values() if child.states is not None]
        for child in held:
            yield from self._leaves(child)
        if node.states is not None and not held:
            yield node

    def _prune(self, node: _Node) -> None:
        node.children = {first: child for first, child in node.children.items() if child.states is not None}
        for child in node.children.values():
            self._prune(child)


def _shared(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix."""
    if left == right:
        return len(left)
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
