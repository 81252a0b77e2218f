"""The evaluate flow: a real benchmark against a served model that gets worse, and the event it raises."""

import os
from pathlib import Path

import pytest
from scripted_server import serving
from throwaway import ROOT

from envace.benchmarks.base import BenchmarkResult, TaskResult, summarize
from envace.trajectory.records import Message, ToolCall
from flows.address import wait_until
from flows.notify import VARIABLE
from flows.regression import Change, compared


def result(successes: int, of: int = 40, **changed: object) -> BenchmarkResult:
    """A result with that many successes, on the first tasks."""
    tasks = [TaskResult(id=f"t{i}", category="c", success=int(i < successes)) for i in range(of)]
    facts = {
        "benchmark": "b", "model": "m", "strategy": "direct", "protocol": "p", "official": False,
        "harness": "h 1", "dataset_sha": "d", "seed": 1, "tasks": tuple(tasks),
        "groups": summarize(tasks, {task.id: 0 for task in tasks}, 1),
    }  # fmt: skip
    return BenchmarkResult.model_validate(facts | changed)


def test_a_certain_fall_is_a_regression_and_chance_is_none() -> None:
    fall = compared(result(40), result(0), 0.95)
    assert fall == Change(tasks=40, change=-1.0, low=-1.0, high=-1.0) and fall.regressed
    assert not compared(result(20), result(19), 0.95).regressed
    assert compared(result(20), result(10), 0.95).regressed
    assert not compared(result(10), result(20), 0.95).regressed
    assert not compared(result(20), result(20), 0.95).regressed


@pytest.mark.parametrize("other", [{"dataset_sha": "e"}, {"seed": 2}, {"harness": "h 2"}])
def test_what_was_measured_otherwise_is_not_compared(other: dict[str, object]) -> None:
    assert compared(result(40, **other), result(0), 0.95) == Change(tasks=0)
    assert compared(None, result(0), 0.95) == Change(tasks=0)
    assert not Change(tasks=0).regressed


def test_tasks_of_one_result_alone_do_not_count() -> None:
    failed = result(0).model_copy(
        update={"tasks": (*result(0, 10).tasks, TaskResult(id="t11", category="c", success=None))}
    )
    assert compared(result(40), failed, 0.95).tasks == 10


@pytest.mark.slow
def test_a_served_model_that_got_worse_raises_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    from envace.benchmarks import harness
    from envace.serve import ChatReply, ChatRequest
    from envace.serve.runner import served
    from flows.evaluate import EVENT, evaluate

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(harness.ROOT_VARIABLE, os.environ.get(harness.ROOT_VARIABLE) or str(ROOT / ".harness"))
    if not harness.installed("bfcl"):
        pytest.skip("the harness of BFCL is not installed")

    class Model:
        """Says nothing, which is right where no tool helps; once worse, it calls whatever it is offered."""

        worse = False

        def models(self) -> list[str]:
            return ["model/1"]

        def reply(self, request: ChatRequest) -> ChatReply:
            turn = Message(role="assistant", content="I cannot help.")
            if self.worse and request.tools:
                turn = Message(role="assistant", tool_calls=(ToolCall(name=request.tools[0].name),))
            return ChatReply(
                messages=(turn,), finish_reasons=("tool_calls" if turn.tool_calls else "stop",),
                prompt_tokens=1, completion_tokens=1, rehearsal_tokens=0,
            )  # fmt: skip

    model = Model()
    with serving(lambda *_: "ok") as hook, served(model) as address:
        monkeypatch.setenv(VARIABLE, f"{hook.url}/chat/completions")
        for name, message in (
            ("Completed", "bfcl_v4 25.0% (+0.0%)"),
            ("Completed", "bfcl_v4 25.0% (+0.0%)"),
        ):
            state = evaluate(address, ["bfcl_v4"], limit=6, return_state=True)
            assert (state.name, state.message) == (name, message)
        assert events(EVENT) == [] and hook.bodies == []
        model.worse = True
        for _ in range(2):  # The last good result stays the one to compare with.
            state = evaluate(address, ["bfcl_v4"], limit=6, return_state=True)
            assert (state.name, state.message) == ("Regressed", "bfcl_v4 0.0% (-25.0%)")
        assert wait_until(lambda: len(events(EVENT)) == 2, 20)
        assert events(EVENT)[0]["payload"]["change"] == -0.25
        assert [body["text"] for body in hook.bodies] == [f"{address} got worse: bfcl_v4 -25.0%"] * 2
    state = evaluate(address, ["bfcl_v4"], limit=6, return_state=True)
    assert state.is_failed() and state.message.startswith("bfcl_v4: ")


def events(name: str) -> list[dict]:
    """Events of that name which the server has."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        asked = client.request("POST", "/events/filter", json={"filter": {"event": {"name": [name]}}})
    return asked.json()["events"]
