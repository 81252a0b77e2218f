"""The sentences follow the numbers, in either direction."""

import copy
from pathlib import Path
from typing import Any

import pytest
import report_run as run

from envace.params import load_params
from envace.report.headline import headline
from envace.report.inputs import read_inputs
from envace.report.summary import summarize

RISE = {"difference": 0.1, "se": 0.02, "ci_low": 0.06, "ci_high": 0.14, "n": 600, "paired": True}
FALL = {"difference": -0.1, "se": 0.02, "ci_low": -0.14, "ci_high": -0.06, "n": 600, "paired": True}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root: Path = run.write_run(tmp_path_factory.mktemp("run"))
    return summarize(read_inputs(root, load_params(root / "params.yaml")))


@pytest.fixture
def found(measured: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(measured)


def plain(found: dict[str, Any]) -> list[str]:
    return [line.replace("\u00a0", " ") for line in headline(found)]


def test_four_sentences_of_the_run_by_hand(found: dict[str, Any]) -> None:
    assert plain(found) == [
        "After training, success on 6 held-out tasks of the chained worlds shows no significant change: from "
        "33.3 % to 66.7 %, by +33.3 points (95 % interval −32.0 to +98.7).",
        "Agreement of rehearsed responses with the gated worlds shows no significant change: from 50.0 % to "
        "75.0 %, by +25.0 points (95 % interval −20.8 to +70.8); the quality gate refuses the trained "
        "policy, and no collusion alarm was raised.",
        "Private rehearsal before the one irreversible call of courier raised the trained policy's success "
        "from 25.0 % to 100.0 %, by +75.0 points (95 % interval +26.0 to +100.0), with 1.00 real calls and "
        "30 rehearsed tokens an episode; before training it brought 0.0 points (95 % interval −80.0 to "
        "+80.0).",
        "Without rehearsal the trained policy scores 87.5 % on bfcl_v4 (6 tasks), above the 50.0 % of doing "
        "nothing; 0.0 % on tau2 (2 tasks), indistinguishable from the 0.0 % of doing nothing.",
    ]


@pytest.mark.parametrize(("change", "verb"), [(RISE, "rose"), (FALL, "fell")])
def test_success_and_agreement_move_either_way(found: dict[str, Any], change: Any, verb: str) -> None:
    found["worlds"]["change"] = found["worlds"]["environment_change"] = change
    success, environment, *_ = plain(found)
    assert f"chained worlds {verb} from" in success
    assert f"gated worlds {verb} from" in environment


@pytest.mark.parametrize(
    ("change", "words"),
    [(FALL, "courier lowered the trained"), ({**RISE, "ci_low": 0.0}, "courier made no significant change")],
)
def test_rehearsal_that_hurts_or_does_nothing_is_said_so(
    found: dict[str, Any], change: Any, words: str
) -> None:
    found["rehearsal"]["trained"]["courier"]["gain"] = change
    assert words in plain(found)[2]


def test_a_raised_alarm_and_two_failed_gates_are_named(found: dict[str, Any]) -> None:
    found["collusion"]["alarms"] = {"courier": "collusion: …"}
    found["gate"]["warmup"]["passed"] = False
    sentence = plain(found)[1]
    assert "refuses the warmed-up policy and the trained policy, and" in sentence
    assert "the collusion alarm was raised in courier" in sentence


def test_a_score_below_doing_nothing_is_called_below(found: dict[str, Any]) -> None:
    found["benchmarks"]["bfcl_v4"]["none"]["groups"]["all"] |= {"ci_high": 0.4, "ci_low": 0.1, "mean": 0.2}
    assert "20.0 % on bfcl_v4 (6 tasks), below the 50.0 %" in plain(found)[3]


def test_what_was_not_measured_is_not_invented(found: dict[str, Any]) -> None:
    found["worlds"]["change"] = found["rehearsal"]["trained"]["courier"]["gain"] = None
    sentences = plain(found)
    assert sentences[0].endswith("was not measured for both policies.")
    assert sentences[2] == "Private rehearsal in courier was not measured."
