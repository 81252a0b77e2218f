"""BFCL's group scores by hand, and categories by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.benchmarks.bfcl import CATEGORIES, categories_of
from envace.benchmarks.bfcl_score import MEMORY, OFFLINE, PARTS, WEB_SEARCH, measures
from envace.errors import EnvaceError

EVERY = (*OFFLINE, *WEB_SEARCH, "memory_vector")


def test_groups_by_hand() -> None:
    scores = dict.fromkeys(EVERY, 0.0)
    scores |= {
        "simple_python": 0.9,
        "simple_java": 0.6,
        "simple_javascript": 0.3,
        "multiple": 0.8,
        "parallel": 0.4,
    }
    scores |= {"live_simple": 1.0, "live_parallel": 0.5, "irrelevance": 0.5, "live_irrelevance": 0.7}
    scores |= {"multi_turn_base": 0.4, "web_search_base": 0.2, "memory_kv": 0.3}
    found = measures(scores)
    assert found == pytest.approx(
        {
            "non_live": (0.6 + 0.8 + 0.4 + 0) / 4,
            "live": (258 + 8) / (258 + 1053 + 16 + 24),
            "irrelevance_both": 0.6,
            "multi_turn": 0.1,
            "agentic": (0.1 + 0.1) / 2,
            "overall": 0.1 * 0.45 + 0.1 * 266 / 1351 + 0.1 * 0.6 + 0.3 * 0.1 + 0.4 * 0.1,
        }
    )


@pytest.mark.parametrize(
    ("missing", "ceiling"),
    [
        (WEB_SEARCH, 0.8),
        (("memory_vector",), 1 - 0.2 / 3),
        ((*WEB_SEARCH, "memory_vector"), 0.8 - 0.2 / 3),
        ((*WEB_SEARCH, *MEMORY), 0.6),
    ],
)
def test_what_is_missing_lowers_the_ceiling_and_the_overall_is_marked(missing, ceiling) -> None:
    found = measures({category: 0.5 for category in EVERY if category not in missing})
    assert "overall" not in found and "agentic" not in found
    assert found["overall_ceiling"] == pytest.approx(ceiling)
    assert found["overall_partial"] == pytest.approx(ceiling / 2)


def test_the_default_categories_complete_no_group() -> None:
    assert set(measures(dict.fromkeys(CATEGORIES, 1.0))) == {"overall_partial", "overall_ceiling"}


@given(st.dictionaries(st.sampled_from(EVERY), st.floats(0, 1)))
def test_partial_scores_stay_below_their_ceiling(scores) -> None:
    found = measures(scores)
    assert ("overall" in found) == (set(scores) >= {part for parts in PARTS.values() for part in parts})
    if "overall" not in found:
        assert found["overall_partial"] <= found["overall_ceiling"] + 1e-12
        assert found["overall_ceiling"] < 1


def test_names_of_categories_and_sets() -> None:
    assert categories_of(["default"]) == CATEGORIES
    assert (
        categories_of(["multiple", "default"])[0] == "multiple"
        and len(categories_of(["multiple", "default"])) == 4
    )
    assert categories_of(["agentic"]) == ("memory_kv", "memory_rec_sum")
    assert len(categories_of(["offline"])) == 19
    with pytest.raises(EnvaceError, match="no offline category 'web_search_base'"):
        categories_of(["web_search_base"])
