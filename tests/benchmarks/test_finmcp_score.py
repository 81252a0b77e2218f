"""FinMCP-Bench's scores: a table by hand, multisets, parallel groups, properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.benchmarks.finmcp_score import exact_flat, exact_grouped, flat, measures, overlap

# One call a turn, as in the six published samples: two of one call, two of six, dialogs of seven and three.
GOLD = [
    [["news"]],
    [["funds"]],
    [["view"], ["brief"], ["composition"], ["risk"], ["classes"], ["profit"]],
    [["view"], *[["classes"]] * 5],
    [*[["funds"]] * 6, ["rules"]],
    [["detail"], ["notices"], ["history"]],
]
MADE = [
    [["news"]],
    [["funds"], ["funds"]],
    [["brief"], ["view"], ["composition"], ["risk"], ["classes"], ["profit"]],
    [["view"], *[["classes"]] * 3],
    [["funds"], ["funds", "detail"]],
    [],
]
TABLE = [(1, 0, 0), (1, 1, 0), (6, 0, 0), (4, 0, 2), (2, 1, 5), (0, 0, 3)]
"""Hits, extra, missed by hand: 14 + 2 calls were made, the reference has 14 + 10."""


def test_the_table_by_hand() -> None:
    rows = [overlap(made, gold) for made, gold in zip(MADE, GOLD, strict=True)]
    assert [(row.hits, row.extra, row.missed) for row in rows] == TABLE
    assert measures(list(zip(MADE, GOLD, strict=True))) == pytest.approx(
        {
            "tp": 14 / 16,
            "tr": 14 / 24,
            "tf1": 0.7,
            "emr_flat": 1 / 6,
            "emr_grouped": 1 / 6,
            "macro_tp": (1 + 1 / 2 + 1 + 1 + 2 / 3 + 0) / 6,
            "macro_tr": (1 + 1 + 1 + 2 / 3 + 2 / 7 + 0) / 6,
            "macro_tf1": (1 + 2 / 3 + 1 + 0.8 + 0.4 + 0) / 6,
        }
    )


@pytest.mark.parametrize(
    ("made", "as_list", "as_groups"),
    [
        ([["a", "b"], ["c"]], True, True),
        ([["b", "a"], ["c"]], False, True),
        ([["b"], ["a"], ["c"]], False, True),  # one by one, what the reference calls at once
        ([["a", "b", "c"]], True, True),
        ([["a", "c"], ["b"]], False, False),  # across the groups
        ([["a", "a"], ["c"]], False, False),
        ([["a", "b"]], False, False),
        ([["a", "b"], ["c"], ["c"]], False, False),
    ],
)
def test_the_order_inside_a_parallel_group_is_free_in_one_of_the_two(made, as_list, as_groups) -> None:
    gold = [["a", "b"], ["c"]]
    assert (exact_flat(made, gold), exact_grouped(made, gold)) == (as_list, as_groups)


def test_nothing_to_call_and_nothing_called() -> None:
    assert exact_flat([], []) and exact_grouped([], []) and not exact_grouped([["a"]], [])
    assert measures([([], [])])["tf1"] == 0.0


groups = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=5)


@given(groups, groups)
def test_overlap_is_one_removal_at_a_time(made, gold) -> None:
    left, hits = flat(gold), 0
    for name in flat(made):
        if name in left:
            left.remove(name)
            hits += 1
    counts = overlap(made, gold)
    assert (counts.hits, counts.extra, counts.missed) == (hits, len(flat(made)) - hits, len(left))
    back = overlap(gold, made)
    assert (back.precision, back.recall) == (counts.recall, counts.precision)
    assert (
        min(counts.precision, counts.recall) - 1e-12
        <= counts.f1
        <= max(counts.precision, counts.recall) + 1e-12
    )


@given(groups, groups)
def test_exact_matches_are_ordered_by_strictness(made, gold) -> None:
    if exact_flat(made, gold):
        assert exact_grouped(made, gold)
    if exact_grouped(made, gold):
        assert overlap(made, gold).extra == overlap(made, gold).missed == 0


@given(groups, st.randoms(use_true_random=False))
def test_shuffling_inside_the_groups_keeps_the_grouped_match(gold, random) -> None:
    assert exact_grouped([random.sample(group, len(group)) for group in gold], gold)
