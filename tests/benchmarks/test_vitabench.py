"""VitaBench from a checkout of the user's (`ENVACE_VITABENCH`), with a scripted user and judge."""

import json
import os
import re
from pathlib import Path

import pytest
from conftest import ready
from rule_backend import RuleBackend
from scripted_server import dead_url, serving

from envace.benchmarks import copies
from envace.benchmarks.vitabench import Vitabench
from envace.errors import EnvaceError
from envace.serve.runner import served
from envace.trajectory.records import Message, ToolCall

SECRETS = {"user": "user-secret", "judge": "judge-secret"}


def test_without_a_checkout_it_says_what_to_give(tmp_path):
    with pytest.raises(EnvaceError, match=r"vitabench is read from your own copy of it .*--from PATH"):
        Vitabench(tmp_path).ids()
    with pytest.raises(EnvaceError, match=r"no checkout of VitaBench, src/vita/run.py is absent"):
        copies.install("vitabench", tmp_path, tmp_path / "harness")
    with pytest.raises(EnvaceError, match="no domain 'bank'"):
        Vitabench(tmp_path, ["bank"])
    with pytest.raises(EnvaceError, match="models as user and judge"):
        next(Vitabench(tmp_path).outcomes({}, "http://127.0.0.1:9/v1", "m", 0))


def small_checkout(folder, tasks):
    """As much of a checkout as holds tasks."""
    (folder / "src" / "vita").mkdir(parents=True)
    (folder / "src" / "vita" / "run.py").write_text("")
    for domain in ("delivery", "instore", "ota", "cross_domain"):
        place = folder / "data" / "vita" / "domains" / domain
        place.mkdir(parents=True)
        for name in ("tasks.json", "tasks_en.json"):
            (place / name).write_text(json.dumps(tasks if domain == "delivery" else []))
    return folder


def test_items_and_the_order_check_need_no_environment(tmp_path):
    order = {
        "order_type": "delivery", "store_id": "S", "status": "processed",
        "products": [{"product_id": "P", "quantity": 1}],
    }  # fmt: skip
    criteria = {"expected_states": [{"required_orders": [order]}]}
    tasks = [
        {
            "id": "1",
            "instructions": "bring soup",
            "environment": {"orders": {}},
            "evaluation_criteria": criteria,
        },
        {"id": "2", "instructions": "say hello", "environment": {"orders": {}}, "evaluation_criteria": {}},
    ]
    copies.install("vitabench", small_checkout(tmp_path / "vitabench", tasks), tmp_path / "harness")
    vita = Vitabench(tmp_path / "harness")
    assert vita.ids() == {"delivery": ["delivery/1", "delivery/2"]}
    assert [(item.id, item.split, item.text) for item in vita.items()] == [
        ("delivery/1", "delivery", "bring soup"),
        ("delivery/2", "delivery", "say hello"),
    ]
    assert vita.check() == {"gold": {"orders": 1.0}, "spoiled": {"orders": 0.0}, "nothing": {"orders": 0.0}}


@pytest.fixture(scope="module")
def vita():
    checkout = os.environ.get("ENVACE_VITABENCH", "")
    if not checkout:
        pytest.skip("set ENVACE_VITABENCH to a checkout of github.com/meituan-longcat/vitabench")
    root = ready("vitabench")
    copies.install("vitabench", Path(checkout), root)
    return Vitabench(root, user="someone", judge="a judge")


def said(text):
    return Message(role="assistant", content=text)


@pytest.fixture
def sides(monkeypatch):
    """Sets the endpoints of the user and the judge."""

    def set_urls(**urls):
        for role, url in urls.items():
            monkeypatch.setenv(f"ENVACE_{role.upper()}_URL", url)
            monkeypatch.setenv(f"ENVACE_{role.upper()}_KEY", SECRETS[role])

    return set_urls


def user(body, number):
    return "###STOP###" if len(body["messages"]) > 3 else "I want that now."


def judge(verdict):
    """Says the same of every rubric it is shown."""

    def script(body, number):
        shown = body["messages"][-1]["content"]
        rubrics = json.loads(shown.partition("<current_rubrics>")[2].partition("</current_rubrics>")[0])
        rows = [r | {"justification": "so", "meetExpectation": verdict} for r in rubrics]
        return json.dumps(rows, ensure_ascii=False)

    return script


def ordering(vita, unpaid):
    """Places the first reference order of the task at hand, and pays for it unless told not to."""
    tasks = list(vita.tasks("delivery").values())

    def rule(request):
        last = request.messages[-1]
        if last.role == "user":
            return Message(role="assistant", tool_calls=(place,))
        if "Order(" in last.content and not unpaid:
            id = re.findall(r"order_id\W+(\w+)", last.content)[0]
            return Message(
                role="assistant",
                tool_calls=(ToolCall(name="pay_delivery_order", arguments={"order_id": id}),),
            )
        return said("<think>private</think>It is on its way.")

    wanted = tasks[0]["evaluation_criteria"]["expected_states"][0]["required_orders"][0]
    place = ToolCall(
        name="create_delivery_order",
        arguments={
            "user_id": wanted["user_id"],
            "store_id": wanted["store_id"],
            "product_ids": [p["product_id"] for p in wanted["products"]],
            "product_cnts": [p["quantity"] for p in wanted["products"]],
            "address": wanted["location"]["address"],
            "dispatch_time": "2025-06-21 11:30:00",
            "attributes": [""],
            "note": "",
        },
    )
    return rule


def first(vita):
    return {"delivery": [next(iter(vita.tasks("delivery")))]}


@pytest.mark.slow
@pytest.mark.parametrize("unpaid", [False, True])
def test_delivery_end_to_end_and_what_an_agreeable_judge_overlooks(vita, sides, unpaid):
    backend = RuleBackend(ordering(vita, unpaid))
    with serving(user) as users, serving(judge(True)) as judges, served(backend) as url:
        sides(user=users.url, judge=judges.url)
        (row,) = vita.outcomes(first(vita), url, "rule_model/1", 4)
    assert (row["success"], row["error"], row["scores"]["rubrics"]) == (1, "", 1.0), row
    assert row["scores"]["orders"] == (0.0 if unpaid else 1.0)
    assert row["steps"] == len(backend.requests) and row["rehearsal_tokens"] == 5 * row["steps"]
    assert {request.seed for request in backend.requests} == {4}
    for seen, role, name in ((users, "user", "someone"), (judges, "judge", "a judge")):
        assert set(seen.keys) == {f"Bearer {SECRETS[role]}"} and {b["model"] for b in seen.bodies} == {name}
        everything = json.dumps(seen.bodies)
        assert not any(word in everything for word in (*SECRETS.values(), "Bearer", "headers", "base_url"))
        assert set().union(*seen.bodies) <= {"model", "messages", "temperature", "stream"}
    assert "private" not in json.dumps(users.bodies)


@pytest.mark.slow
def test_a_run_writes_a_result_and_a_strict_judge_fails_it(vita, sides, tmp_path):
    with (
        serving(user) as users,
        serving(judge(False)) as judges,
        served(RuleBackend(lambda _: said("No."))) as url,
    ):
        sides(user=users.url, judge=judges.url)
        result = vita.run(url, 2, 1, tmp_path / "out")
    assert [(t.success, t.error) for t in result.tasks] == [(0, "rubrics not met")] * 2
    assert (result.judge, result.user_simulator, result.official) == ("a judge", "someone", False)
    assert result.measures["rubrics"] == 0.0
    assert not any(secret in (tmp_path / "out" / "result.json").read_text() for secret in SECRETS.values())


@pytest.mark.slow
def test_a_judge_without_a_verdict_gives_no_score(vita, sides):
    with (
        serving(user) as users,
        serving(lambda body, number: "I would rather not.") as judges,
        served(RuleBackend(lambda _: said("No."))) as url,
    ):
        sides(user=users.url, judge=judges.url)
        (row,) = vita.outcomes(first(vita), url, "rule_model/1", 4)
    assert (row["success"], row["error"]) == (None, "the judge gave no verdict")
    assert len(judges.bodies) == 4


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["user", "judge"])
def test_a_dead_side_fails_the_run(vita, sides, dead):
    with (
        serving(user) as users,
        serving(judge(True)) as judges,
        served(RuleBackend(lambda _: said("No."))) as url,
    ):
        sides(**{"user": users.url, "judge": judges.url} | {dead: dead_url()})
        with pytest.raises(EnvaceError, match=f"the endpoint failed: the {dead}'s"):
            list(vita.outcomes(first(vita), url, "rule_model/1", 4))


@pytest.mark.slow
def test_calls_nobody_can_read_are_the_models_failure(vita, sides):
    broken = Message(role="assistant", tool_calls=(ToolCall(name="pay", arguments={"_raw": "{broken"}),))
    with serving(user) as users, serving(judge(True)) as judges, served(RuleBackend(lambda _: broken)) as url:
        sides(user=users.url, judge=judges.url)
        (row,) = vita.outcomes(first(vita), url, "rule_model/1", 4)
    assert (row["success"], row["error"]) == (0, "arguments are no JSON object")
