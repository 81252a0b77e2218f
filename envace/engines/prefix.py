"""Key-value states of sequences already computed, found again by their tokens.

A radix tree: sequences share the nodes of their common prefix, so the samples of one prompt hold
its states once. Over the budget, the least recently used leaves lose states from their end; their
tokens stay a while, so that computing them again can be told from computing them first.

Nodes with states stand in one line by last use, each behind its children, because a walk marks the
nodes it met from the last to the first. So the head of the line is always a leaf, and evicting
one takes no search.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
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
        self._line: OrderedDict[_Node, None] = OrderedDict()
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
        met: list[_Node] = []
        for node, shared in self._path(ids):
            if shared < len(node.tokens):
                node = self._split(node, shared)
            if node.states is None and states is not None:
                lacking.append((node, start))
            met.append(node)
            parent, start = node, start + shared
        if start < len(ids):
            leaf = _Node(list(ids[start:]), None, parent)
            parent.children[ids[start]] = leaf
            self.remembered += len(leaf.tokens)
            met.append(leaf)
            if states is not None:
                lacking.append((leaf, start))
        if states is not None and lacking:
            first = lacking[0][1]
            computed = states(first)
            for node, start in lacking:
                stop = start + len(node.tokens)
                node.states = computed[:, :, start - first : stop - first].contiguous()
                self.held += len(node.tokens)
        self._mark(met)
        self._trim()

    def _path(self, ids: Sequence[int]) -> list[tuple[_Node, int]]:
        """Nodes along `ids` with the number of tokens shared with each; marks them as used."""
        path: list[tuple[_Node, int]] = []
        node, start = self._root, 0
        while start < len(ids) and ids[start] in node.children:
            node = node.children[ids[start]]
            shared = _shared(node.tokens, ids[start : start + len(node.tokens)])
            path.append((node, shared))
            start += shared
            if shared < len(node.tokens):
                break
        self._mark([node for node, _ in path])
        return path

    def _mark(self, path: Sequence[_Node]) -> None:
        """Send the nodes of a path to the end of the line, parents behind their children."""
        for node in reversed(path):
            if node.states is not None:
                self._line[node] = None
                self._line.move_to_end(node)

    def _split(self, node: _Node, at: int) -> _Node:
        """Put a new node with the first tokens in front of a node, which keeps the others.

        Returns:
            The new one, not yet in the line.
        """
        assert node.parent is not None
        front = _Node(node.tokens[:at], None, node.parent, {node.tokens[at]: node})
        node.parent.children[node.tokens[0]] = front
        node.parent, node.tokens = front, node.tokens[at:]
        if node.states is not None:
            # Copies, so that evicting the rear frees its memory.
            front.states = node.states[:, :, :at].clone()
            node.states = node.states[:, :, at:].clone()
        return front

    def _trim(self) -> None:
        while self.held > self.budget:
            leaf = next(iter(self._line))
            keep = max(0, len(leaf.tokens) - (self.held - self.budget))
            if keep:
                front = self._split(leaf, keep)
                self._line[front] = None
                self._line.move_to_end(front, last=False)
            del self._line[leaf]
            self.held -= len(leaf.tokens)
            leaf.states = None
        if self.remembered > max(self.budget, REMEMBERED):
            self._prune()
            self.remembered = self.held

    def _prune(self) -> None:
        """Forget tokens without states."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            held = {first: child for first, child in node.children.items() if child.states is not None}
            node.children = held
            nodes += node.children.values()


def _shared(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix."""
    if left == right:
        return len(left)
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
