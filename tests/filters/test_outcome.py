"""Rules on what a trajectory reached: reward, reference calls, pass rate."""

import pytest
from filter_samples import exchange, run

from envace.errors import EnvaceError
from envace.filters import filter_files, make_rules
from envace.filters.success import agreement, success
from envace.leakage import EvalItem, canonical_calls
from envace.trajectory import Lineage, Quarantined, ToolCall, Trajectory, iter_records, write_records


def attempt(task: str, reward: float | None, id_: str = "t", **arguments) -> Trajectory:
    rewards = {} if reward is None else {"success": reward}
    return exchange((arguments, "{}"), id=id_, reward=rewards, lineage=Lineage(task_id=task))


def test_a_reward_decides_where_there_is_one() -> None:
    assert success()(attempt("a", 1.0)) is None
    assert success()(attempt("a", 0.0)) == "success 0, least 1"
    assert success(at_least=0.4)(attempt("a", 0.5)) is None
    assert success(part="judge")(attempt("a", 1.0)) == "no reward judge"


def test_agreement_by_hand() -> None:
    a, b = ToolCall(name="f", arguments={"x": 1, "y": 2}), ToolCall(name="g")
    assert agreement([a, b], [b, ToolCall(name="f", arguments={"y": 2, "x": 1})]) == 1.0
    assert agreement([a, a, b], [a, b]) == 2 / 3
    assert agreement([a], [a, b, b, b]) == 1 / 4
    assert agreement([], [a]) == 0.0
    assert agreement([], []) == 1.0


def test_reference_calls_decide_where_there_is_no_reward(tmp_path) -> None:
    file = tmp_path / "references.jsonl"
    gold = canonical_calls([ToolCall(name="look", arguments={"at": "sky"})])
    write_records(file, [EvalItem(benchmark="own", id="a", text="", gold_calls=gold)])
    rule = success(reference=str(file))
    assert rule(attempt("a", None, at="sky")) is None
    assert rule(attempt("a", None, at="sea")) == "0% of the calls agree with the reference, least 100%"
    assert rule(attempt("b", None, at="sky")) == "no reward success, and no reference for b"
    assert rule(attempt("a", 0.0, at="sky")) == "success 0, least 1"
    write_records(file, [EvalItem(benchmark="own", id="a", text="", gold_calls="look(sky)")])
    with pytest.raises(EnvaceError, match="gold_calls of a are no JSON list"):
        success(reference=str(file))


RATES = {"always": [1, 1, 1], "never": [0, 0], "seldom": [0, 0, 0, 1], "once": [1]}


def test_tasks_without_a_gradient_are_refused_whatever_the_order(tmp_path) -> None:
    attempts = [
        attempt(task, r, f"{task}{n}") for task, rewards in RATES.items() for n, r in enumerate(rewards)
    ]
    attempts.append(attempt("never", None, "unscored"))
    source, out, bad = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
    write_records(source, attempts)
    result = filter_files([source], out, bad, make_rules({"difficulty": None}))
    assert {t.lineage.task_id for t in iter_records(out, Trajectory)} == {"seldom", "once"}
    assert result.quarantined == 6
    reasons = {record.reason for record in iter_records(bad, Quarantined)}
    assert reasons == {
        "task always has a pass rate of 1 in 3 attempts, allowed 0.01 to 0.99",
        "task never has a pass rate of 0 in 2 attempts, allowed 0.01 to 0.99",
    }
    harder = make_rules({"difficulty": {"at_least": 0.0, "at_most": 0.2}})
    filter_files([source], out, bad, harder)
    assert {t.lineage.task_id for t in iter_records(out, Trajectory)} == {"never", "once"}


def test_without_a_survey_nothing_is_known() -> None:
    kept, _, _ = run([attempt("a", 0.0), attempt("a", 0.0)], make_rules({"difficulty": None}))
    assert len(kept) == 2
