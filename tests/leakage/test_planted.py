"""Leaks of every benchmark in five disguises and two languages are found among clean trajectories."""

import os
import random
from pathlib import Path

import pytest
from leakage_samples import item

from benchmarks.leakage import recall
from benchmarks.leakage_data import (
    DISGUISES,
    clean,
    evaluation_sets,
    language,
    planted,
    real_sentences,
    swapped,
)
from envace.benchmarks import harness
from envace.leakage import EvalItem, check

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("ENVACE_SHARED", ROOT / "../shared")) / "data"
FOUND = [name for name in DISGUISES if name != "names swapped"]


@pytest.fixture(scope="module")
def sets() -> dict[str, list[EvalItem]]:
    root = Path(os.environ.get(harness.ROOT_VARIABLE, ROOT / ".harness"))
    absent = [name for name in ("bfcl", "tau2") if not harness.installed(name, root)]
    absent += [name for name in ("vitabench", "finmcp_demo_infer.json") if not (DATA / name).exists()]
    if absent:
        pytest.skip(f"absent: {', '.join(absent)}")
    os.environ[harness.ROOT_VARIABLE] = str(root)
    return evaluation_sets(DATA)


def test_every_set_is_there_in_both_languages(sets) -> None:
    names = ("bfcl_v4", "tau2", "vitabench", "finmcp")
    assert {f"{name}/zh" for name in names} <= set(sets)
    assert {f"{name}/en" for name in names[:3]} <= set(sets)
    for name, items in sets.items():
        assert {language(item.text) for item in items} == {name[-2:]}


@pytest.mark.parametrize("disguise", FOUND)
def test_a_sample_of_planted_leaks_is_found(sets, disguise) -> None:
    for name, items in sets.items():
        some = random.Random(0).sample(items, min(40, len(items)))
        assert recall(planted(some, disguise), some) >= 0.95, name


def test_clean_trajectories_raise_no_alarm(sets) -> None:
    everything = [item for items in sets.values() for item in items]
    _, alarms = check(list(clean(1000, real=real_sentences(DATA))), everything)
    assert sum(alarm is not None for alarm in alarms) <= 5


@pytest.mark.slow
def test_all_planted_leaks_among_twenty_thousand_clean_trajectories(sets) -> None:
    from benchmarks.leakage import GOALS, quality

    for name, value in quality(sets, real_sentences(DATA)).items():
        assert value >= GOALS[name], name


def test_swapped_names_are_another_text_of_the_same_words() -> None:
    text = swapped("please ask Marcus to send 40 lamps to the shop", random.Random(1))
    assert text.startswith("please ask ") and "Marcus" not in text and "40 lamps" not in text
    long = item(
        "please ask Marcus to send the lamps that were ordered last week to the shop by noon on Friday"
    )
    (hidden,) = planted([long], "names swapped")
    assert check([hidden], [long])[0].matches[0].method == "ngram8"
