"""Group scores of BFCL v4 as its leaderboard weighs them: pure functions on category scores.

Source: `eval_checker/eval_runner_helper.py` of `bfcl_eval` 2026.3.23. A category that was not measured counts
as 0 there, so that an overall over some of them is partial and has a ceiling below 1.
"""

from collections.abc import Mapping

from envace.benchmarks.stats import mean

SIMPLE = ("simple_python", "simple_java", "simple_javascript")
NON_LIVE = (*SIMPLE, "multiple", "parallel", "parallel_multiple")
LIVE = {"live_simple": 258, "live_multiple": 1053, "live_parallel": 16, "live_parallel_multiple": 24}
"""Categories of the live group and their entries, which are their weights."""
IRRELEVANCE = ("irrelevance", "live_irrelevance")
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
MEMORY = ("memory_kv", "memory_vector", "memory_rec_sum")
WEB_SEARCH = ("web_search_base", "web_search_no_snippet")

PARTS = {
    "non_live": NON_LIVE,
    "live": tuple(LIVE),
    "irrelevance_both": IRRELEVANCE,
    "multi_turn": MULTI_TURN,
    "agentic": (*WEB_SEARCH, *MEMORY),
}
"""Categories that make up each group."""

WEIGHTS = {"non_live": 0.1, "live": 0.1, "irrelevance_both": 0.1, "multi_turn": 0.3, "agentic": 0.4}
"""Share of each group in the overall."""

OFFLINE = (*NON_LIVE, *LIVE, *IRRELEVANCE, "live_relevance", *MULTI_TURN, "memory_kv", "memory_rec_sum")
"""Categories that need no network and no model but the one under test; `live_relevance` is in no group."""


def groups(scores: Mapping[str, float]) -> dict[str, float]:
    """The five groups; a missing category counts as 0."""

    def average(categories: tuple[str, ...]) -> float:
        return mean([scores.get(category, 0.0) for category in categories])

    simple = average(SIMPLE)
    weighted = sum(weight * scores.get(category, 0.0) for category, weight in LIVE.items())
    return {
        "non_live": mean([simple, *(scores.get(category, 0.0) for category in NON_LIVE[len(SIMPLE) :])]),
        "live": weighted / sum(LIVE.values()),
        "irrelevance_both": average(IRRELEVANCE),
        "multi_turn": average(MULTI_TURN),
        "agentic": mean([average(WEB_SEARCH), average(MEMORY)]),
    }


def overall(scores: Mapping[str, float]) -> float:
    """The weighted sum of the groups; a missing category counts as 0."""
    return sum(WEIGHTS[name] * score for name, score in groups(scores).items())


def measures(scores: Mapping[str, float]) -> dict[str, float]:
    """What may be said of the categories measured.

    Args:
        scores: Score of each category measured.

    Returns:
        Every group all of whose categories are there. `overall` when all groups are; otherwise
        `overall_partial`, and `overall_ceiling`, what a perfect model would reach on the same categories.
    """
    found = groups(scores)
    complete = {name: found[name] for name, parts in PARTS.items() if all(part in scores for part in parts)}
    if len(complete) == len(PARTS):
        return complete | {"overall": overall(scores)}
    ceiling = overall(dict.fromkeys(scores, 1.0))
    return complete | {"overall_partial": overall(scores), "overall_ceiling": ceiling}
