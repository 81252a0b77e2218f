"""The gate's look at the act role: what is called first where one call decides."""

from pathlib import Path
from typing import Any

import pytest
from outputs import rows

from envace.errors import EnvaceError
from envace.quality import FirstCall, Thresholds, check, first_call, gate
from envace.rollout.first_call import first_calls
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose, rebuild

TASKS = [pose("courier", "ship", seed, "held_out") for seed in range(4)]
THRESHOLDS = Thresholds(worlds=("agenda",), tools={"agenda": ("move",)})


def offered(task: Any) -> ToolCall:
    """A commit that names an offer by its own record."""
    tool = next(tool for tool in task.tools if tool.irreversible)
    return ToolCall(name=tool.name, arguments=rebuild(task)[0].commit_arguments()[0])


def mixed_up(task: Any) -> ToolCall:
    """One that gives the letter of an offer with the record of another."""
    tool = next(tool for tool in task.tools if tool.irreversible)
    first, second = rebuild(task)[0].commit_arguments()[:2]
    return ToolCall(name=tool.name, arguments=second | {"offer": first["offer"]})


def called(accepted: int, refused: int, world: str = "courier") -> list[FirstCall]:
    one = first_call("warmup", TASKS[0], offered(TASKS[0]), '{"total":7}').model_copy(update={"world": world})
    return [one] * accepted + [one.model_copy(update={"accepted": False})] * refused


def test_first_calls_are_executed_each_in_its_own_world(template: Any, scripted: Any) -> None:
    turns = [
        [*template.encode(offered(TASKS[0]).text()), template.call_end],
        [*template.encode(mixed_up(TASKS[1]).text()), template.call_end],
        [*template.encode("done"), *template.end_ids],
        [*template.encode(offered(TASKS[3]).text()), template.call_end],
    ]
    prompts = [template.render(task.messages, task.tools).ids for task in TASKS]
    engine = scripted(lambda prompt, sample: turns[prompts.index(prompt)])
    steps = first_calls(engine, template, TASKS)
    judged = [
        first_call("warmup", task, step.call, step.response) if step else first_call("warmup", task, None)
        for task, step in zip(TASKS, steps, strict=True)
    ]
    assert [item.accepted for item in judged] == [True, False, False, True]
    assert judged[1].response == '{"error":"offer"}'
    assert (judged[2].call, judged[2].response) == ("", "")
    assert len(engine.samplings) == 1  # nobody acts again


@pytest.mark.parametrize(("accepted", "passes"), [(5, True), (4, False)])
def test_a_policy_whose_calls_are_refused_does_not_pass(tmp_path: Path, accepted: int, passes: bool) -> None:
    found = called(accepted, 10 - accepted)
    result = check(rows("agenda", "move", 10, 0), THRESHOLDS, tmp_path / "docs", first_calls=found)
    assert (result.passed, result.evaluated) == (passes, result.expected)
    share = result.first_calls["courier"]
    assert (share.share, share.n) == (accepted / 10, 10)
    if not passes:
        with pytest.raises(EnvaceError, match=r"courier: first calls accepted 0\.40 < 0\.50 \(n=10\)"):
            gate(result)


def test_each_world_is_judged_by_itself_and_nothing_else_changes(tmp_path: Path) -> None:
    found = [*called(9, 1), *called(1, 9, world="ferry")]
    result = check(rows("agenda", "move", 10, 0), THRESHOLDS, tmp_path / "docs", first_calls=found)
    assert result.failures == ("ferry: first calls accepted 0.10 < 0.50 (n=10)",)
    without = check(rows("agenda", "move", 10, 0), THRESHOLDS, tmp_path / "other")
    assert without.expected == result.expected - 2
    assert (without.agreement, without.measures, without.rows) == (
        result.agreement,
        result.measures,
        result.rows,
    )


def test_first_calls_of_another_policy_are_refused(tmp_path: Path) -> None:
    others = [item.model_copy(update={"policy": "trained"}) for item in called(1, 0)]
    with pytest.raises(EnvaceError, match="trained and warmup"):
        check(rows("agenda", "move", 1, 0), THRESHOLDS, tmp_path / "docs", first_calls=others)
