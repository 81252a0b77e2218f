"""τ² through its own environment: gold, silent, wrong and dying models."""

import json
from collections import Counter

import pytest
from rule_backend import RuleBackend
from scripted_server import dead_url, serving

from envace.benchmarks.tau2 import DOMAINS, Tau2
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
def test_gold_and_floor_of_two_domains_and_gold_of_a_part_of_the_others(tau2):
    # All 287 tasks take minutes: `envace harness check tau2` plays them.
    everything = Tau2(tau2.root, DOMAINS)
    ids = {name: own[:12] if name in ("retail", "telecom") else own for name, own in everything.ids().items()}
    right = {
        mode: Counter(row["category"] for row in everything.replay(mode, ids) if row["success"])
        for mode in everything.modes
    }
    assert right["gold"] == {"mock": 9, "airline": 50, "retail": 12, "telecom": 12}
    assert (right["nothing"]["mock"], right["nothing"]["airline"]) == (1, 19)
    rows = tau2.replay("nothing", tau2.ids())
    assert [row["id"] for row in rows if row["success"]] == ["mock/create_task_1_nl_eval"]


@pytest.mark.slow
def test_splits_and_what_is_none(tau2):
    sizes = {"train": (30, 74, 74), "test": (20, 40, 40), "base": (50, 114, 114)}
    ids = {split: Tau2(tau2.root, DOMAINS[1:], split).ids() for split in sizes}
    assert {split: tuple(map(len, found.values())) for split, found in ids.items()} == sizes
    for domain in DOMAINS[1:]:
        assert not set(ids["train"][domain]) & set(ids["test"][domain])
        assert set(ids["train"][domain]) | set(ids["test"][domain]) == set(ids["base"][domain])
    with pytest.raises(EnvaceError, match="mock has no split 'train'"):
        Tau2(tau2.root, ["mock"], "train").ids()


def test_unknown_domains_and_a_user_without_an_endpoint_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(EnvaceError, match="no domain 'bank'"):
        Tau2(tmp_path, ["bank"])
    monkeypatch.delenv("ENVACE_USER_URL", raising=False)
    with pytest.raises(EnvaceError, match="export ENVACE_USER_URL="):
        next(Tau2(tmp_path, user="gpt-4.1").outcomes({}, "http://127.0.0.1:9/v1", "m", 0))


def test_macro_and_micro_means_by_hand(tmp_path):
    outcomes = [("airline", 1), ("airline", 0), ("retail", 1), ("retail", 1), ("retail", 1), ("retail", None)]
    rows = [{"id": str(i), "category": d, "success": s} for i, (d, s) in enumerate(outcomes)]
    assert Tau2(tmp_path).measures(rows) == {"macro": 0.75, "micro": 0.8}
    assert Tau2(tmp_path).measures(rows[-1:]) == {}


def gold_rule(tau2, domain):
    """A model that makes the reference calls, then says whatever it has to say; knows a task by its words."""
    gold = {i.text: json.loads(i.gold_calls or "[]") for i in tau2.items() if i.id.startswith(f"{domain}/")}

    def rule(request):
        last = request.messages[-1]
        calls = next((gold[text] for text in gold if text in last.content), []) if last.role == "user" else []
        if calls:
            return Message(role="assistant", tool_calls=tuple(ToolCall.model_validate(c) for c in calls))
        return Message(role="assistant", content="<think>They will not see it.</think>" + CLOSING)

    return rule


@pytest.mark.slow
def test_a_model_plays_the_user_and_its_key_stays_in_the_header(tau2, tmp_path, monkeypatch):
    def user(body, number):
        told = body["messages"][0]["content"].partition("<scenario>")[2]
        words = told.partition("Instructions:")[2] or told
        return "###STOP###" if len(body["messages"]) > 2 else words

    monkeypatch.setenv("ENVACE_USER_KEY", "user-secret")
    with serving(user) as seen, served(RuleBackend(gold_rule(tau2, "mock"))) as url:
        monkeypatch.setenv("ENVACE_USER_URL", seen.url)
        result = Tau2(tau2.root, user="someone").run(url, 0, 1, tmp_path / "out")
    assert result.user_simulator == "someone" and "someone as user" in result.protocol
    assert len(seen.bodies) >= len(result.tasks)
    assert set(seen.keys) == {"Bearer user-secret"}
    assert {body["model"] for body in seen.bodies} == {"someone"}
    assert "user-secret" not in json.dumps(seen.bodies)
    assert "They will not see it" not in json.dumps(seen.bodies)
    assert "user-secret" not in "".join(f.read_text() for f in (tmp_path / "out").iterdir())


@pytest.mark.slow
def test_a_dead_user_fails_the_run(tau2, tmp_path, monkeypatch):
    monkeypatch.setenv("ENVACE_USER_URL", dead_url())
    fails = pytest.raises(EnvaceError, match="the endpoint failed: the user's")
    with served(RuleBackend(gold_rule(tau2, "mock"))) as url, fails:
        Tau2(tau2.root, user="someone").run(url, 1, 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_perfect_model_in_retail(tau2, tmp_path):
    # The first tasks of the seeded sample ask for nothing to be said.
    retail = Tau2(tau2.root, ["mock", "retail"], "base")
    rules = [gold_rule(tau2, "mock"), gold_rule(tau2, "retail")]

    def rule(request):
        return rules["retail" in request.messages[0].content](request)

    with served(RuleBackend(rule)) as url:
        result = retail.run(url, 3, 1, tmp_path / "out")
    assert {t.id.partition("/")[0] for t in result.tasks} == {"mock", "retail"}
    assert result.groups["mock"].mean == 1.0 and result.groups["retail"].mean > result.groups["retail"].floor
    assert result.measures["macro"] == result.groups["all"].mean


@pytest.mark.slow
def test_a_perfect_model_behind_the_server_scores_all_and_twice_the_same_bytes(tau2, tmp_path):
    backend = RuleBackend(gold_rule(tau2, "mock"))
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
    assert {t.success for t in result.tasks if t.id != "mock/create_task_1_nl_eval"} == {0}
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
