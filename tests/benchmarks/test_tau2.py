"""τ² through its own environment: gold, silent, wrong and dying models."""

import json

import pytest
from rule_backend import RuleBackend

from envace.benchmarks.tau2 import Tau2
from envace.errors import EnvaceError
from envace.serve.runner import served
from envace.trajectory.records import Message, ToolCall

CLOSING = (
    "The agent acknowledged the previous context. "
    "The agent confirmed the task status was updated successfully"
)


@pytest.fixture(scope="module")
def tau2(tau2_root):
    return Tau2(tau2_root)


@pytest.mark.slow
def test_gold_and_floor(tau2):
    assert tau2.check()["gold"] == {"mock": 1.0, "all": 1.0}
    rows = tau2.replay("nothing", tau2.ids())
    assert [row["id"] for row in rows if row["success"]] == ["create_task_1_nl_eval"]


@pytest.mark.slow
def test_a_perfect_model_behind_the_server_scores_all_and_twice_the_same_bytes(tau2, tmp_path):
    gold = {
        item.text: json.loads(item.gold_calls or "[]") for item in tau2.items() if item.id.startswith("mock")
    }

    def rule(request):
        last = request.messages[-1]
        calls = gold[last.content] if last.role == "user" else []
        if calls:
            return Message(role="assistant", tool_calls=tuple(ToolCall.model_validate(c) for c in calls))
        return Message(role="assistant", content=CLOSING)

    backend = RuleBackend(rule)
    with served(backend) as url:
        result = tau2.run(url, 0, 3, tmp_path / "a")
        tau2.run(url, 0, 3, tmp_path / "b")
    assert [t.id for t in result.tasks if not t.success] == []
    assert result.groups["mock"].floor == pytest.approx(1 / 9)
    assert not result.official and result.user_simulator.startswith("scripted")
    assert sum(t.steps for t in result.tasks) == len(backend.requests) / 2
    assert all(t.rehearsal_tokens == 5 * t.steps for t in result.tasks)
    for name in ("result.json", "answers.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.slow
def test_bad_answers_are_scored_and_never_crash(tau2, tmp_path):
    odd = [
        Message(role="assistant", content="  "),
        Message(role="assistant", tool_calls=(ToolCall(name="create_task", arguments={"_raw": "{broken"}),)),
        Message(role="assistant", tool_calls=(ToolCall(name="__init__", arguments={"db": None}),)),
        Message(
            role="assistant", tool_calls=(ToolCall(name="create_task", arguments={"requestor": "user"}),)
        ),
    ]
    turns = iter(range(10**6))

    def rule(request):
        if request.messages[-1].role == "tool":
            return Message(role="assistant", content="Done.")
        return odd[next(turns) % len(odd)]

    with served(RuleBackend(rule)) as url:
        result = tau2.run(url, 0, 0, tmp_path / "out")
    # One task has no goal in its data: whoever ends the conversation in order passes it.
    assert {t.success for t in result.tasks if t.id != "create_task_1_nl_eval"} == {0}
    assert "empty answer" in {t.error for t in result.tasks}


@pytest.mark.slow
def test_endpoint_failures_fail_the_run(tau2, tmp_path):
    with pytest.raises(EnvaceError, match="no model at"):
        tau2.run("http://127.0.0.1:9/v1", 1, 0, tmp_path / "out")

    def rule(request):
        raise RuntimeError("out of memory")

    with served(RuleBackend(rule)) as url, pytest.raises(EnvaceError, match=r"endpoint failed.*500"):
        tau2.run(url, 1, 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_items_cover_the_base_splits(tau2):
    items = tau2.items()
    counts = {}
    for item in items:
        counts[item.split] = counts.get(item.split, 0) + 1
    assert counts == {
        "mock/base": 9,
        "airline/test": 20,
        "airline/base": 30,
        "retail/test": 40,
        "retail/base": 74,
        "telecom/test": 40,
        "telecom/base": 74,
    }
    tools = {item.id.split("/")[0]: len(item.tools) for item in items}
    assert tools == {"mock": 4, "airline": 14, "retail": 15, "telecom": 43}
    first = next(item for item in items if item.id == "mock/create_task_1")
    assert "'Important Meeting' for user_1" in first.text
    assert json.loads(first.gold_calls)[0]["arguments"] == {"user_id": "user_1", "title": "Important Meeting"}
