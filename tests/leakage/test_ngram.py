"""The inverted index finds exactly what a slow comparison of all pairs finds."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.leakage import minhash, ngram
from envace.leakage.material import prepare
from envace.leakage.records import EvalItem
from envace.trajectory import Message, Trajectory


def said(*turns: str) -> Trajectory:
    return Trajectory(
        id="t", source="world", messages=tuple(Message(role="user", content=turn) for turn in turns)
    )


def item(text: str) -> EvalItem:
    return EvalItem(benchmark="b", id=text, text=text)


def slow_coverage(item_tokens: list[str], train_tokens: list[str], n: int) -> float:
    """Mark every token of every n-gram that occurs anywhere in the training text."""
    marked = [False] * len(item_tokens)
    for i in range(len(item_tokens) - n + 1):
        for j in range(len(train_tokens) - n + 1):
            if item_tokens[i : i + n] == train_tokens[j : j + n]:
                marked[i : i + n] = [True] * n
    return sum(marked) / len(marked)


words = st.lists(st.sampled_from("ab"), min_size=1, max_size=14).map(" ".join)


@given(st.lists(words, min_size=1, max_size=5), st.lists(words, min_size=1, max_size=5), st.integers(2, 4))
def test_coverage_equals_the_slow_computation(train, items, n) -> None:
    material = prepare([said(text) for text in train], [item(text) for text in items])
    found = {
        (hit.item, index): hit.score for hit in ngram.find(material, n, threshold=0.5) for index in hit.train
    }
    expected = {}
    for i, text in enumerate(items):
        for j, other in enumerate(train):
            tokens, others = text.split(), other.split()
            score = float(tokens == others) if len(tokens) < n else slow_coverage(tokens, others, n)
            if score > 0.5:
                expected[i, j] = score
    assert found == pytest.approx(expected)


def test_eight_grams_by_hand() -> None:
    numbers = [f"w{i}" for i in range(20)]
    # Training shares tokens 0-8 (two 8-grams) and 12-19 (one): 9 + 8 of 20 tokens.
    train = said(" ".join([*numbers[:9], "x", *numbers[12:]]))
    material = prepare([train], [item(" ".join(numbers))])
    (hit,) = ngram.find(material, n=8, threshold=0.5)
    assert hit.score == 17 / 20
    assert ngram.find(material, n=8, threshold=0.85) == []
    assert ngram.find(material, n=13, threshold=0.0) == []


def test_coverage_comes_from_one_trajectory_never_from_several_together() -> None:
    numbers = [f"w{i}" for i in range(20)]
    halves = [said(" ".join(numbers[:10])), said(" ".join(numbers[10:]))]
    assert ngram.find(prepare(halves, [item(" ".join(numbers))]), n=8, threshold=0.5) == []
    assert len(ngram.find(prepare([said(" ".join(numbers))], [item(" ".join(numbers))]), 8, 0.5)) == 1


def test_an_item_of_several_turns_is_found_across_the_turns_of_one_trajectory() -> None:
    train = said("first we look up the order", "and then please cancel it for me")
    text = "First we look up the order.\nAnd then, please cancel it for me!"
    (hit,) = ngram.find(prepare([train], [item(text)]), n=8, threshold=0.5)
    assert hit.score == 1.0


def test_a_short_item_matches_a_whole_turn_but_not_a_part_of_one() -> None:
    find = partial(ngram.find, n=8, threshold=0.5)
    material = prepare([said("Cancel it!", "thanks"), said("please cancel it")], [item("cancel it")])
    assert [hit.train for hit in find(material)] == [(0,)]


@given(st.lists(words, min_size=1, max_size=5), st.lists(words, min_size=1, max_size=5))
def test_minhash_reports_only_true_neighbors(train, items) -> None:
    material = prepare([said(text) for text in train], [item(text) for text in items])
    found = {(hit.item, index): hit.score for hit in minhash.find(material) for index in hit.train}
    for i, text in enumerate(items):
        for j, other in enumerate(train):
            ours, theirs = minhash.shingles(tuple(text.split())), minhash.shingles(tuple(other.split()))
            jaccard = len(ours & theirs) / len(ours | theirs)
            if (i, j) in found:
                assert found[i, j] == pytest.approx(jaccard)
                assert jaccard >= 0.8
            else:
                assert jaccard < 0.8  # with 32 bands a miss is rarer than one in ten million


def test_minhash_by_hand() -> None:
    numbers = [f"w{i}" for i in range(49)]
    # 45 shingles; the last token changed takes one: 44 common of 46.
    material = prepare([said(" ".join([*numbers[:48], "x"]))], [item(" ".join(numbers))])
    (hit,) = minhash.find(material)
    assert hit.score == 44 / 46
    # A token changed in the middle takes five: 40 common of 50 is exactly the threshold, 39 of 51 below it.
    middle = [*numbers[:20], "x", *numbers[21:]]
    assert [hit.score for hit in minhash.find(prepare([said(" ".join(middle))], material.items))] == [0.8]
    both = [*middle[:48], "y"]
    assert minhash.find(prepare([said(" ".join(both))], material.items)) == []
