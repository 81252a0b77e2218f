"""The summary of a run written by hand: every number as computed on paper."""

from pathlib import Path
from typing import Any

import pytest
import report_run as run

from envace.errors import EnvaceError
from envace.files import read_json, write_json
from envace.params import load_params
from envace.report.inputs import read_inputs
from envace.report.summary import summarize


def summary(root: Path) -> dict[str, Any]:
    return summarize(read_inputs(root, load_params(root / "params.yaml")))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return summary(run.write_run(tmp_path_factory.mktemp("run")))


def test_success_leaves_out_held_out_templates_and_commit_once_worlds(found: dict[str, Any]) -> None:
    before, after = found["worlds"]["warmup"], found["worlds"]["trained"]
    assert (before["success"], before["n"]) == (pytest.approx(2 / 6), 6)
    assert (after["success"], after["n"]) == (pytest.approx(4 / 6), 6)
    assert after["se"] == pytest.approx((4 / 6 * 2 / 6 / 6) ** 0.5)
    assert (before["held_out_templates"]["success"], after["held_out_templates"]["success"]) == (0.0, 0.5)
    assert list(after["per_template"]) == list(run.CHAINED["trained"])


def test_every_template_carries_its_split(found: dict[str, Any]) -> None:
    splits = {name: row["split"] for name, row in found["worlds"]["trained"]["per_template"].items()}
    assert splits == {
        "store.price": "demonstrated",
        "stays.cheapest": "demonstrated",
        "store.stock": "practiced",
        "store.order_all_cancel": "held_out",
    }


def test_changes_are_paired_by_task_and_agreement_is_not(found: dict[str, Any]) -> None:
    change = found["worlds"]["change"]
    assert (change["difference"], change["se"]) == pytest.approx((1 / 3, 1 / 3))
    assert (change["n"], change["paired"]) == (6, True)
    environment = found["worlds"]["environment_change"]
    assert environment["difference"] == 0.25
    assert environment["se"] == pytest.approx((0.25 / 8 + 0.1875 / 8) ** 0.5)
    assert environment["paired"] is False
    # store.stock went 1, 0 to 0, 1: no change on average, but not without uncertainty.
    assert found["worlds"]["template_change"]["store.stock"]["difference"] == 0.0
    assert found["worlds"]["template_change"]["store.stock"]["se"] == pytest.approx(1.0)


def test_rehearsal_rows_and_witnesses_are_kept_apart(found: dict[str, Any]) -> None:
    courier = found["rehearsal"]["trained"]["courier"]
    assert {name: row["success"] for name, row in courier["rows"].items()} == {
        "none": 0.25,
        "parallel": 1.0,
        "rule": 0.75,
        "oracle": 1.0,
        "wrong": 0.25,
    }
    assert all(row["n"] == 4 for row in courier["rows"].values())
    # Differences 1, 0, 1, 1: mean 3/4, variance 1/4, standard error 1/4.
    assert (courier["gain"]["difference"], courier["gain"]["se"]) == pytest.approx((0.75, 0.25))
    assert (courier["environment_agreement"], courier["environment_n"]) == (1.0, 4)
    assert found["rehearsal"]["warmup"]["courier"]["gain"]["difference"] == 0.0


def test_costs_count_each_token_where_it_was_spent(found: dict[str, Any]) -> None:
    rows = found["rehearsal"]["trained"]["courier"]["rows"]
    assert {name: row["rehearsal_tokens"] for name, row in rows.items()} == {
        "none": 0.0,
        "parallel": 30.0,
        "rule": 30.0,
        "oracle": 0.0,
        "wrong": 0.0,
    }
    assert rows["parallel"]["real_calls"] == 1.0
    episodes = found["costs"]["episodes"]["worlds, trained, parallel"]
    assert (episodes["n"], episodes["rehearsal_tokens"]) == (12, 30.0)
    assert episodes["real_calls"] == pytest.approx(20 / 12)
    assert found["costs"]["training_real_calls_per_rollout"] == 1.5


def test_chained_worlds_are_compared_too(found: dict[str, Any]) -> None:
    chained = found["chained_rehearsal"]["trained"]
    assert (chained["rows"]["parallel"]["n"], chained["gain"]["difference"]) == (6, 0.0)


def test_gate_alarms_and_benchmarks(found: dict[str, Any]) -> None:
    assert {name: gate["passed"] for name, gate in found["gate"].items()} == {
        "warmup": True,
        "trained": False,
    }
    assert found["collusion"] == {"collusion_alarms": 0, "alarms": {}}
    groups = found["benchmarks"]["bfcl_v4"]["none"]["groups"]
    assert (groups["all"]["mean"], groups["all"]["floor"]) == (0.875, 0.5)
    assert found["benchmarks"]["tau2"]["none"]["groups"]["mock"]["errors"] == 1


def test_tasks_that_broke_the_harness_are_left_out_of_shares_and_pairs(tmp_path: Path) -> None:
    outcomes = {**run.WORLDS, "trained_none": {**run.WORLDS["trained_none"], "store.price": [None, 1]}}
    found = summary(run.write_run(tmp_path, outcomes))
    assert (found["worlds"]["trained"]["n"], found["worlds"]["change"]["n"]) == (5, 5)
    assert found["worlds"]["trained"]["success"] == pytest.approx(3 / 5)
    assert found["worlds"]["change"]["difference"] == pytest.approx((0 + 1 + 0 - 1 + 1) / 5)


def test_policies_that_met_other_tasks_are_not_compared(tmp_path: Path) -> None:
    file = run.write_run(tmp_path) / "evaluation/worlds/trained_none.json"
    write_json(file, read_json(file) | {"dataset_sha": "other"})
    with pytest.raises(
        EnvaceError, match=r"worlds/trained_none\.json: other held-out tasks than warmup_none"
    ):
        summary(tmp_path)


def test_an_unknown_template_is_one_line(tmp_path: Path) -> None:
    outcomes = {name: {**rows, "store.gone": [1]} for name, rows in run.WORLDS.items()}
    with pytest.raises(
        EnvaceError, match=r"world store has no template 'gone' \(run `dvc repro evaluate_worlds`"
    ):
        summary(run.write_run(tmp_path, outcomes))
