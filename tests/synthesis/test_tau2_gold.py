"""Reference calls of τ²'s training tasks: as written here, and as executed in its own environment."""

import os
from pathlib import Path
from typing import Any

import pytest

from envace.benchmarks import harness
from envace.benchmarks.base import BenchmarkItem
from envace.benchmarks.tau2 import Tau2
from envace.errors import EnvaceError
from envace.files import digest, read_json
from envace.filters import filter_files, make_rules
from envace.leakage.sources import read_items
from envace.synthesis.sources import write_source
from envace.synthesis.tau2 import Tau2Gold, gold_trajectory
from envace.trajectory import Quarantined, Trajectory, read_trajectories, write_records
from envace.trajectory.records import weights_sum_to_one

ROOT = Path(os.environ.get(harness.ROOT_VARIABLE) or Path(__file__).parents[2] / ".harness")
FUNCTION = {
    "name": "get_order",
    "description": "An order.",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
}


ANSWER: list[dict[str, Any]] = [
    {"role": "user", "content": "You wonder where order #W1 is."},
    {"role": "assistant", "content": "", "calls": [{"name": "get_order", "arguments": {"id": "#W1"}}]},
    {"role": "tool", "content": '{"status": "sent"}'},
    {"role": "assistant", "content": "Goodbye.\nsent"},
    {"role": "user", "content": "###STOP###"},
]


def row(**changes: Any) -> dict[str, Any]:
    return {"id": "7", "success": 1, "error": "", "answer": ANSWER, "communicate": ["sent"]} | changes


def test_an_outcome_becomes_a_trajectory_with_both_roles() -> None:
    made = gold_trajectory("retail", row(), "Be kind.", [FUNCTION])
    assert isinstance(made, Trajectory)
    assert [m.role for m in made.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [m.author for m in made.messages] == [None, None, "recorded", "world", "recorded"]
    assert [m.content for m in made.messages if not m.tool_calls] == [
        "Be kind.", "You wonder where order #W1 is.", '{"status": "sent"}', "sent",
    ]  # fmt: skip
    assert made.messages[3].tool_call_id == made.calls()[0].id == "c0"
    assert [(item.kind, item.weight, item.pass_condition) for item in made.checklist] == [
        ("call", 0.5, '{"name":"get_order","arguments":{"id":"#W1"}}'), ("answer", 0.5, "sent"),
    ]  # fmt: skip
    assert (made.id, made.lineage.template, made.tools[0].name) == ("tau2/retail/7", "retail", "get_order")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"success": 0, "error": "not solved"}, "the reference calls do not score: not solved"),
        ({"success": None, "error": "KeyError", "answer": []}, "the reference calls do not score: KeyError"),
        ({"answer": [ANSWER[0], *ANSWER[-2:]]}, "no reference calls"),
        ({"answer": [ANSWER[0], {"role": "user", "content": "", "calls": []}, *ANSWER[1:]]}, "the user acts"),
    ],
)
def test_what_cannot_be_learned_from_is_set_aside(changes: dict[str, Any], reason: str) -> None:
    made = gold_trajectory("retail", row(**changes), "", [FUNCTION])
    assert isinstance(made, Quarantined) and made.reason.startswith(reason)


def test_an_absent_harness_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvaceError, match="envace harness install tau2"):
        list(Tau2Gold(root=tmp_path).generate(1, 0, tmp_path / "x"))


@pytest.fixture(scope="module")
def installed() -> Path:
    if not harness.installed("tau2", ROOT):
        pytest.skip("the tau2 harness is not installed: run `envace harness install tau2`")
    return ROOT


@pytest.mark.slow
def test_training_tasks_alone_are_executed_and_twice_the_same_bytes(installed: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        share = write_source("tau2", {"root": installed}, 6, 1, tmp_path / f"{name}.jsonl")
        assert share.trajectories + len(share.quarantined) == 6
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    made = read_trajectories(tmp_path / "a.jsonl")
    assert len(made) >= 4
    training = {
        (domain, id) for domain in ("airline", "retail") for id in Tau2Gold(root=installed)._ids(domain)
    }
    for trajectory in made:
        _, domain, id = trajectory.id.split("/")
        assert (domain, id) in training
        assert trajectory.reward == {"success": 1.0} and weights_sum_to_one(trajectory.checklist)
        assert all(m.content for m in trajectory.messages if m.role == "tool")
    result = filter_files([tmp_path / "a.jsonl"], tmp_path / "f.jsonl", tmp_path / "q.jsonl", make_rules())
    assert result.quarantined == 0


@pytest.mark.slow
def test_a_test_task_is_refused_inside_the_harness(installed: Path) -> None:
    test = read_json(Tau2(installed).data("retail") / "split_tasks.json")["test"][0]
    with pytest.raises(EnvaceError, match=f"retail/{test} is a test task"):
        harness.run_inside("tau2", "tau2_gold.py", {"ids": {"retail": [test]}}, Tau2.env, installed)


def test_leakage_may_be_held_against_the_test_split_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(harness.ROOT_VARIABLE, str(tmp_path))
    key = digest(harness.requirements("tau2"), *sorted((harness.HERE / "inside").glob("*.py")))
    splits = ("mock/base", "retail/base", "retail/test", "airline/test")
    rows = [BenchmarkItem(benchmark="tau2", id=split, split=split, text="t") for split in splits]
    write_records(tmp_path / "tau2" / f"items.{key}.jsonl", rows)
    assert [item.id for item in read_items("tau2")] == list(splits)
    assert [item.id for item in read_items("tau2:test")] == ["retail/test", "airline/test"]
    assert [item.id for item in read_items("tau2:retail/base")] == ["retail/base"]
    with pytest.raises(EnvaceError, match="tau2 has no items of split nope"):
        list(read_items("tau2:nope"))
