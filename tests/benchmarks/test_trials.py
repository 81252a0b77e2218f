"""Several trials of every task: seeds, clustered errors, and pass^k."""

import json

import pytest
from rule_backend import RuleBackend

from envace.benchmarks.adapter import Adapter
from envace.benchmarks.base import ALL, TaskResult, summarize
from envace.benchmarks.stats import pass_hat_k, standard_error
from envace.serve.runner import served
from envace.trajectory.records import Message


def test_pass_hat_k_by_hand():
    made = [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1]]
    assert pass_hat_k(made, 1) == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert pass_hat_k(made, 2) == pytest.approx((1 + 1 / 6 + 0) / 3)  # one of the six pairs of the second
    assert pass_hat_k(made, 4) == pytest.approx(1 / 3)


def test_trials_of_a_task_count_once():
    tasks = [
        TaskResult(id=f"t{number}", category="c", trial=trial, success=success)
        for number, trials in enumerate(([1, 1], [0, 1], [0, 0], [1, None]))
        for trial, success in enumerate(trials)
    ]
    group = summarize(tasks, {f"t{number}": 0 for number in range(4)}, 1)[ALL]
    assert (group.n, group.errors, group.mean) == (4, 1, 0.625)
    assert group.se == standard_error([1, 0.5, 0, 1])


class Counting(Adapter):
    """Two tasks; the first succeeds always, the second with even seeds."""

    name = "counting"
    harness = "bfcl"

    def ids(self):
        return {"c": ["a", "b"]}

    def describe(self, limit):
        return {"protocol": "p", "official": False, "harness": "h", "dataset_sha": "d"}

    def outcomes(self, ids, base_url, model, seed, work=None):
        self.places.append(work.name)
        for id in ids["c"]:
            yield {"id": id, "category": "c", "success": int(id == "a" or seed % 2 == 0), "answer": seed}

    def replay(self, mode, ids, **job):
        return [{"id": id, "category": "c", "success": 0} for id in ids["c"]]


def test_every_trial_has_its_own_seed_and_folder(tmp_path):
    counting = Counting(tmp_path)
    counting.places = []
    with served(RuleBackend(lambda request: Message(role="assistant", content="no"))) as url:
        result = counting.run(url, 0, 5, tmp_path / "out", trials=3)
        once = counting.run(url, 0, 5, tmp_path / "once")
    assert counting.places == ["trial_0", "trial_1", "trial_2", "trial_0"]
    assert [(t.id, t.trial, t.success) for t in result.tasks] == [
        ("a", 0, 1), ("b", 0, 0), ("a", 1, 1), ("b", 1, 1), ("a", 2, 1), ("b", 2, 0),
    ]  # fmt: skip
    assert result.measures == pytest.approx({"pass^1": (1 + 1 / 3) / 2, "pass^2": 0.5, "pass^3": 0.5})
    assert result.groups[ALL].mean == pytest.approx((1 + 1 / 3) / 2) and result.groups[ALL].n == 2
    assert once.measures == {} and once.trials == 1
    lines = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert [(line["trial"], line["answer"]) for line in lines] == [
        (0, 5),
        (0, 5),
        (1, 6),
        (1, 6),
        (2, 7),
        (2, 7),
    ]
