"""The inverted index finds exactly what a slow comparison of all pairs finds."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leakage_samples import hits, item, said

from envace.leakage.minhash import MinHash
from envace.leakage.ngram import Ngrams

eight = partial(hits, Ngrams, n=8, threshold=0.5)


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
    found = {
        (hit.item, index): hit.score
        for hit in hits(
            Ngrams, [said(text) for text in train], [item(text) for text in items], n=n, threshold=0.5
        )
        for index in hit.train
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
    train = [said(" ".join([*numbers[:9], "x", *numbers[12:]]))]
    items = [item(" ".join(numbers))]
    (hit,) = eight(train, items)
    assert hit.score == 17 / 20
    assert hits(Ngrams, train, items, n=8, threshold=0.85) == []
    assert hits(Ngrams, train, items, n=13, threshold=0.0) == []


def test_coverage_comes_from_one_trajectory_never_from_several_together() -> None:
    numbers = [f"w{i}" for i in range(20)]
    halves = [said(" ".join(numbers[:10])), said(" ".join(numbers[10:]))]
    assert eight(halves, [item(" ".join(numbers))]) == []
    assert len(eight([said(" ".join(numbers))], [item(" ".join(numbers))])) == 1


def test_no_n_gram_reaches_from_one_text_into_the_next() -> None:
    numbers = [f"w{i}" for i in range(8)]
    items = [item(" ".join(numbers))]
    assert eight([said(" ".join(numbers[:4])), said(" ".join(numbers[4:]))], items) == []
    assert eight([said(" ".join(numbers))], [item(" ".join(numbers[:4])), item(" ".join(numbers[4:]))]) == []


def test_an_item_of_several_turns_is_found_across_the_turns_of_one_trajectory() -> None:
    train = said("first we look up the order", "and then please cancel it for me")
    text = "First we look up the order.\nAnd then, please cancel it for me!"
    (hit,) = eight([train], [item(text)])
    assert hit.score == 1.0


@pytest.mark.parametrize(
    ("text", "training", "found"),
    [
        ("who won the world series", "Tell me please who won the world series back then", True),
        ("who won the world cup", "tell me who won the world series", False),
        ("order me pizza", "Hello. Order me pizza! Thanks", True),
        ("order me pizza", "I said:\norder me pizza", True),
        ("order me pizza", "can you order me pizza again", False),
        ("order me pizza", "Order me pizza again.", False),
        ("order me pizza", "Re-order me pizza.", False),
        ("今天的天气", "你好，今天的天气？谢谢", True),
        ("今天的天气", "我想知道今天的天气好不好", False),
        ("查询今天北京的空气质量情况", "我想查询今天北京的空气质量情况好吗", True),
        ("help", "help", True),
        ("help", "Help! I lost my card", False),
        ("a b", "either a/b or c", False),
        ("a b", "A; B?", True),
    ],
)
def test_a_short_item_counts_where_it_cannot_be_a_part_of_any_sentence(text, training, found) -> None:
    assert bool(eight([said(training)], [item(text)])) is found


@given(st.lists(words, min_size=1, max_size=5), st.lists(words, min_size=1, max_size=5))
def test_minhash_reports_all_neighbors_and_no_others(train, items) -> None:
    def shingles(text: str) -> set[tuple[str, ...]]:
        tokens = text.split()
        return {tuple(tokens[start : start + 5]) for start in range(len(tokens) - 4)}

    found = {
        (hit.item, index): hit.score
        for hit in hits(MinHash, [said(text) for text in train], [item(text) for text in items])
        for index in hit.train
    }
    expected = {}
    for i, text in enumerate(items):
        for j, other in enumerate(train):
            ours, theirs = shingles(text), shingles(other)
            jaccard = len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0
            if jaccard >= 0.8:
                expected[i, j] = jaccard  # with 32 bands a miss is rarer than one in ten million
    assert found == pytest.approx(expected)


def test_minhash_by_hand() -> None:
    numbers = [f"w{i}" for i in range(49)]
    items = [item(" ".join(numbers))]
    # 45 shingles; the last token changed takes one: 44 common of 46.
    (hit,) = hits(MinHash, [said(" ".join([*numbers[:48], "x"]))], items)
    assert hit.score == 44 / 46
    # A token changed in the middle takes five: 40 common of 50 is exactly the threshold, 39 of 51 below it.
    middle = [*numbers[:20], "x", *numbers[21:]]
    assert [hit.score for hit in hits(MinHash, [said(" ".join(middle))], items)] == [0.8]
    assert hits(MinHash, [said(" ".join([*middle[:48], "y"]))], items) == []
