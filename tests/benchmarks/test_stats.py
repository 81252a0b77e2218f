"""Means, errors, intervals and samples against values computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.benchmarks import stats
from envace.benchmarks.base import TaskResult, summarize


def test_mean_and_standard_error_by_hand():
    # Deviations of 1,0,0,1 from 0.5 are ±0.5: s² = 4·0.25/3 = 1/3, so se = √(1/3)/2.
    assert stats.mean([1, 0, 0, 1]) == 0.5
    assert stats.standard_error([1, 0, 0, 1]) == pytest.approx(math.sqrt(1 / 3) / 2)
    assert stats.standard_error([1]) is None


def test_macro_weighs_categories_alike():
    # Means 1 and 0.25 average 0.625 although five of six tasks are not in the first category.
    assert stats.macro_mean([[1.0], [1.0, 0.0, 0.0, 0.0]]) == 0.625
    assert stats.macro_standard_error([[1.0], [1.0, 0.0]]) is None
    # Both strata have s² = 1/2, se² = 1/4; √(1/4+1/4)/2.
    assert stats.macro_standard_error([[1.0, 0.0], [1.0, 0.0]]) == pytest.approx(math.sqrt(0.5) / 2)


def test_interval_is_seeded_and_near_the_normal_one():
    values = [1.0] * 60 + [0.0] * 40
    low, high = stats.bootstrap_interval([values], seed=3)
    assert (low, high) == stats.bootstrap_interval([values], seed=3)
    half = 1.96 * math.sqrt(0.6 * 0.4 / 100)
    assert low == pytest.approx(0.6 - half, abs=0.02) and high == pytest.approx(0.6 + half, abs=0.02)


def test_interval_of_equal_values_is_a_point():
    assert stats.bootstrap_interval([[1.0, 1.0], [0.0]], seed=0) == (0.5, 0.5)


IDS = {"a": [f"a{i}" for i in range(20)], "b": [f"b{i}" for i in range(3)]}


@given(st.integers(0, 30), st.integers(0, 5))
def test_sample_sizes_and_order(limit, seed):
    sample = stats.stratified_sample(IDS, limit, seed)
    for category, ids in IDS.items():
        assert len(sample[category]) == (min(limit, len(ids)) if limit else len(ids))
        assert sample[category] == [i for i in ids if i in set(sample[category])]


@given(st.integers(1, 19), st.integers(0, 5))
def test_samples_nest_and_do_not_depend_on_other_categories(limit, seed):
    small, large = (set(stats.stratified_sample(IDS, n, seed)["a"]) for n in (limit, limit + 1))
    assert small < large
    assert small == set(stats.stratified_sample({"a": IDS["a"]}, limit, seed)["a"])


def test_sample_changes_with_the_seed():
    assert stats.stratified_sample(IDS, 5, 1)["a"] != stats.stratified_sample(IDS, 5, 2)["a"]


def test_summary_leaves_errors_out_and_counts_them():
    rows = [("x1", "x", 1), ("x2", "x", 0), ("x3", "x", None), ("y1", "y", 1), ("y2", "y", 1)]
    tasks = [TaskResult(id=i, category=c, success=s) for i, c, s in rows]
    floors = {"x1": 1, "x2": 0, "x3": 0, "y1": 0, "y2": 1}
    groups = summarize(tasks, floors, seed=0)
    assert list(groups) == ["x", "y", "all"]
    assert (groups["x"].mean, groups["x"].n, groups["x"].errors) == (0.5, 2, 1)
    assert groups["x"].floor == pytest.approx(1 / 3) and groups["y"].floor == 0.5
    assert groups["all"].mean == 0.75
    assert groups["all"].floor == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (groups["y"].ci_low, groups["y"].ci_high, groups["y"].se) == (1.0, 1.0, 0.0)
