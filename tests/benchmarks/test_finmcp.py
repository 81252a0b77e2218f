"""FinMCP-Bench over a real server on loopback: what is shown, answered and scored."""

import json
import os
from pathlib import Path

import pytest
from fastapi.responses import JSONResponse
from scripted_server import completion, dead_url, serving

from envace.benchmarks import check, copies
from envace.benchmarks.finmcp import MOST_CALLS, UNRECORDED, Finmcp
from envace.errors import EnvaceError
from envace.leakage.sources import read_items


def sample(id, task, *turns):
    """A sample of the published shape; a turn is what the user says, groups of (tool, keyword), an answer."""
    messages = []
    for said, *groups, answer in turns:
        messages.append({"role": "user", "content": said})
        for number, group in enumerate(groups):
            ids = [f"{id}.{len(messages)}.{number}.{place}" for place in range(len(group))]
            functions = [{"name": name, "arguments": json.dumps({"keyword": word})} for name, word in group]
            calls = [
                {"id": i, "type": "function", "function": f} for i, f in zip(ids, functions, strict=True)
            ]
            messages.append({"role": "assistant", "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": i, "content": f"{name} of {word}"}
                for i, (name, word) in zip(ids, group, strict=True)
            ]
        messages.append({"role": "assistant", "content": answer})
    names = [[call["function"]["name"] for call in m["tool_calls"]] for m in messages if m.get("tool_calls")]
    nested = sorted({n for group in names for n in group}) if task == "multi turn" else names
    return {"id": id, "task": task, "scenery": "s", "tool_list": nested, "messages": messages}


SAMPLES = [
    sample(1, "single step", ("news?", [("SearchNews", "market")], "up")),
    sample(2, "multi step", ("both?", [("Fund", "a"), ("Risk", "a")], [("Fund", "b")], "fine")),
    sample(
        3,
        "multi turn",
        ("hello", "which fund?"),
        ("fund a", [("Fund", "a")], [("Fund", "b")], "a it is"),
        ("and its rules", [("Rules", "a")], "none"),
    ),
]
SAMPLES[2]["messages"].append({"role": "user", "content": "###STOP###"})


@pytest.fixture
def finmcp(tmp_path):
    file = tmp_path / "samples.json"
    file.write_text(json.dumps(SAMPLES), encoding="utf-8")
    copies.install("finmcp", file, tmp_path / "harness")
    file.unlink()
    return Finmcp(tmp_path / "harness")


def calls(*made):
    functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in made]
    return JSONResponse(
        completion(
            None,
            tool_calls=[
                {"id": f"own{i}", "type": "function", "function": f} for i, f in enumerate(functions)
            ],
        )
    )


def test_gold_spoiled_and_silent_answers(finmcp) -> None:
    modes = check("finmcp", finmcp.root)["finmcp"]
    assert {mode: set(groups.values()) for mode, groups in modes.items()} == {
        "gold": {1.0}, "spoiled": {0.0}, "nothing": {0.0},
    }  # fmt: skip
    assert {kind: list(ids) for kind, ids in finmcp.ids().items()} == {
        "single_step": ["1"], "multi_step": ["2"], "multi_turn": ["3"],
    }  # fmt: skip


def test_each_user_turn_sees_the_recording_and_tools_answer_from_it(finmcp, tmp_path) -> None:
    def script(body, number):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return "done"
        return {
            "news?": calls(("SearchNews", {"keyword": "other words"})),
            "both?": calls(
                ("Risk", {"keyword": "a"}), ("Fund", {"keyword": "b"}), ("Fund", {"keyword": "b"})
            ),
            "hello": "no idea",
            "fund a": calls(("Fund", {"keyword": "a"}), ("Rules", {"keyword": "a"})),
            "and its rules": calls(("Rules", {"keyword": "a"})),
        }[last["content"]]

    with serving(script) as seen:
        result = finmcp.run(seen.url, 0, 5, tmp_path / "out")
    # Five user turns: one is answered at once, four call first and answer then.
    assert len(seen.bodies) == 9 == sum(task.steps for task in result.tasks)
    asked = {body["messages"][-1]["content"]: body for body in seen.bodies}
    assert [m["content"] for m in asked["fund a"]["messages"]] == ["hello", "which fund?", "fund a"]
    assert [m["content"] or "" for m in asked["and its rules"]["messages"]][-4:] == [
        "", "Fund of b", "a it is", "and its rules",
    ]  # fmt: skip
    assert {tuple(t["function"]["name"] for t in body["tools"]) for body in seen.bodies} == {
        ("Fund", "Risk", "Rules", "SearchNews")
    }
    said = [
        [m["content"] for m in body["messages"] if m.get("tool_call_id", "").startswith("own")]
        for body in seen.bodies
    ]
    assert [responses for responses in said if responses] == [
        ["SearchNews of market"],  # the same tool, other arguments
        ["Risk of a", "Fund of b", "Fund of a"],  # exact first, then what is left
        ["Fund of a", UNRECORDED],  # Rules belongs to the next turn
        ["Rules of a"],
    ]
    scores = {task.id: (task.success, task.scores["emr_grouped"], task.error) for task in result.tasks}
    assert scores == {
        "1": (1, 1.0, ""),
        "2": (0, 1.0, "another order"),
        "3": (0, 0.0, "1 calls too many, 1 missed"),
    }
    assert result.measures == pytest.approx(
        {
            "tp": 6 / 7, "tr": 6 / 7, "tf1": 6 / 7, "emr_flat": 1 / 3, "emr_grouped": 2 / 3,
            "macro_tp": 8 / 9, "macro_tr": 8 / 9, "macro_tf1": 8 / 9,
        }
    )  # fmt: skip
    assert not result.official and "teacher-forced replay" in result.protocol
    assert {body["seed"] for body in seen.bodies} == {5}
    lines = (tmp_path / "out" / "answers.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {"id": "2", "trial": 0, "answer": [["Risk", "Fund", "Fund"]]}


def test_a_model_that_never_stops_calling_is_stopped(finmcp, tmp_path) -> None:
    with serving(lambda body, number: calls(*[("Fund", {})] * (MOST_CALLS // 2))) as seen:
        result = finmcp.run(seen.url, 0, 0, tmp_path / "out")
    assert len(seen.bodies) == 5 * 2
    assert {task.success for task in result.tasks} == {0}


def test_a_context_too_long_is_the_models_failure_and_anything_else_the_runs(finmcp, tmp_path) -> None:
    def refuse(code):
        error = {"error": {"message": "no", "code": code}}
        return lambda body, number: JSONResponse(error, status_code=400)

    with serving(refuse("context_length_exceeded")) as seen:
        result = finmcp.run(seen.url, 0, 0, tmp_path / "out")
    assert {(task.success, task.error) for task in result.tasks} == {(0, "context_length_exceeded")}
    with serving(refuse("other")) as seen, pytest.raises(EnvaceError, match="the endpoint failed"):
        finmcp.run(seen.url, 0, 0, tmp_path / "second")
    with pytest.raises(EnvaceError, match="no model at"):
        finmcp.run(dead_url(), 0, 0, tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "no samples"),
        (json.dumps([SAMPLES[0], SAMPLES[0]]), "id 1 is there twice"),
        (json.dumps([SAMPLES[0] | {"task": None}]), "task: absent"),
        (json.dumps([SAMPLES[0] | {"messages": []}]), "messages: absent or empty"),
    ],
)
def test_another_file_is_refused_and_the_former_copy_stays(finmcp, tmp_path, content, said) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(EnvaceError, match=said):
        copies.install("finmcp", tmp_path / "bad.json", finmcp.root)
    assert len(finmcp.samples()) == 3


def test_without_a_copy_it_says_what_to_give(tmp_path) -> None:
    with pytest.raises(EnvaceError, match="envace harness install finmcp --from PATH"):
        Finmcp(tmp_path).items()


def test_the_six_published_samples(tmp_path) -> None:
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared"))
    file = shared / "data" / "finmcp_demo_infer.json"
    if not file.is_file():
        pytest.skip(f"data/{file.name} is absent")
    copies.install("finmcp", file, tmp_path)
    finmcp = Finmcp(tmp_path)
    assert {kind: len(ids) for kind, ids in finmcp.ids().items()} == {
        "single_step": 2, "multi_step": 2, "multi_turn": 2,
    }  # fmt: skip
    rows = finmcp.replay("gold", finmcp.ids())
    assert [sum(map(len, row["answer"])) for row in rows] == [1, 1, 6, 6, 7, 3]
    by_id = {row["id"]: row["answer"] for row in rows}
    made = by_id | {
        "2": by_id["2"] * 2,
        "201": [by_id["201"][1], by_id["201"][0], *by_id["201"][2:]],
        "202": by_id["202"][:4],
        "602": [["SearchFunds"], ["SearchFunds", "BatchGetFundsDetail"]],
        "603": [],
    }
    found = finmcp.measures([{"id": i, "answer": answer} for i, answer in made.items()])
    assert [round(found[name], 4) for name in ("tp", "tr", "tf1", "emr_flat")] == [0.875, 0.5833, 0.7, 0.1667]
    assert [round(found[f"macro_{name}"], 4) for name in ("tp", "tr", "tf1")] == [0.6944, 0.6587, 0.6444]
    published = list(read_items(f"finmcp={file}"))
    same = ("id", "text", "tools", "gold_calls")
    assert [[getattr(i, f) for f in same] for i in finmcp.items()] == [
        [getattr(i, f) for f in same] for i in published
    ]
