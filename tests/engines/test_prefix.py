"""The store of states against a plain list of sequences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envace.engines import prefix
from envace.engines.prefix import PrefixStore

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)
"""Few letters, so that sequences share prefixes and split nodes."""


def states(ids: list[int]) -> torch.Tensor:
    """States whose value at each position names the whole prefix up to it, [2, 1, tokens, 1]."""
    values = [float(int("1" + "".join(map(str, ids[: end + 1])))) for end in range(len(ids))]
    return torch.tensor(values).view(1, 1, -1, 1).expand(2, 1, -1, 1)


def put(store: PrefixStore, ids: list[int]) -> None:
    store.put(ids, lambda start: states(ids)[:, :, start:])


def shared(left: list[int], right: list[int]) -> int:
    return max(k for k in range(len(left) + 1) if left[:k] == right[:k])


@given(SEQUENCES, st.lists(st.integers(0, 2), max_size=10))
def test_finds_the_longest_prefix_and_its_own_states(sequences: list[list[int]], wanted: list[int]) -> None:
    store = PrefixStore(1000)
    for sequence in sequences:
        put(store, sequence)
    found = store.find(wanted, len(wanted))
    longest = max(shared(sequence, wanted) for sequence in sequences)
    assert (found.length, found.known) == (longest, longest)
    if longest:
        assert torch.equal(torch.cat(found.states, 2), states(wanted[:longest]))
    # Shared prefixes are held once.
    assert store.held == len({tuple(s[:k]) for s in sequences for k in range(1, len(s) + 1)})


@given(SEQUENCES, st.integers(0, 12), st.data())
def test_a_small_budget_loses_states_but_never_mixes_them_up(
    sequences: list[list[int]], budget: int, data: st.DataObject
) -> None:
    store = PrefixStore(budget)
    seen: list[list[int]] = []
    for sequence in sequences:
        with_states = data.draw(st.booleans())
        if with_states:
            put(store, sequence)
        else:
            store.put(sequence, None)
        seen.append(sequence)
        assert store.held <= budget
        for wanted in seen:
            found = store.find(wanted, len(wanted))
            assert found.known == len(wanted) >= found.length
            if found.length:
                assert torch.equal(torch.cat(found.states, 2), states(wanted[: found.length]))


def test_the_least_recently_used_leaf_goes_first_from_its_end() -> None:
    store = PrefixStore(6)
    put(store, [0, 1, 1])
    put(store, [0, 2, 2])  # holds 0 · 1 1 · 2 2
    store.find([0, 1, 1], 3)
    put(store, [0, 0, 0])  # one too many
    assert store.find([0, 2, 2], 0).known == 3
    put(store, [1])  # another one
    assert store.held == 6
    assert [store.find([0, letter, letter], 3).length for letter in (0, 1)] == [3, 2]
    assert store.find([0, 2, 2], 3).length == 2


@given(SEQUENCES, st.integers(0, 12), st.data())
def test_what_is_evicted_next_is_found_without_a_search(
    sequences: list[list[int]], budget: int, data: st.DataObject
) -> None:
    store = PrefixStore(budget)
    for sequence in sequences:
        if data.draw(st.booleans()):
            put(store, sequence)
        else:
            store.find(sequence, len(sequence))
        line = list(store._line)
        nodes = list(store._root.children.values())
        for node in nodes:  # grows under way: all nodes
            nodes += node.children.values()
        assert set(line) == {node for node in nodes if node.states is not None}
        # The head has nobody behind it in the tree, nor has anybody once those before have gone.
        places = {node: place for place, node in enumerate(line)}
        assert all(places[n] < places[n.parent] for n in line if n.parent in places)


def test_a_conversation_of_thousands_of_turns_is_no_recursion() -> None:
    store = PrefixStore(3000)
    for length in range(1, 4000):
        store.put([0] * length, lambda start, length=length: torch.zeros(1, 1, length - start, 1))
    assert store.held == 3000
    assert store.find([0] * 4000, 4000).length == 3000


def test_a_limit_cuts_a_run() -> None:
    store = PrefixStore(10)
    put(store, [1, 2, 0, 1])
    found = store.find([1, 2, 0, 1], 3)
    assert (found.length, found.known) == (3, 4)
    assert torch.equal(found.states[0], states([1, 2, 0]))


def test_only_missing_states_are_asked_for() -> None:
    store, asked = PrefixStore(10), []

    def give(start: int) -> torch.Tensor:
        asked.append(start)
        return states([0, 1, 2])[:, :, start:]

    put(store, [0, 1])
    store.put([0, 1, 2], give)
    store.put([0, 1, 2], give)
    assert asked == [2]


def test_tokens_without_states_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "REMEMBERED", 8)
    store = PrefixStore(4)
    put(store, [0, 0, 0])
    store.put([0, 0, 0, 1, 1, 1], None)
    assert store.find([0, 0, 0, 1, 1, 1], 6).known == 6
    store.put([2, 2, 2], None)
    assert store.find([0, 0, 0, 1, 1, 1], 6).known == store.find([0, 0, 0], 3).length == 3
    assert store.remembered == store.held == 3
