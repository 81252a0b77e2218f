"""Stages in a project folder of their own: what they read, write and refuse; and the graph that DVC runs."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from envace.benchmarks import benchmark
from envace.benchmarks.harness import ROOT_VARIABLE, installed
from envace.leakage import Match
from envace.quality import QualityResult
from envace.quality.check import Agreement, Share
from envace.synthesis.worlds import SHARES, held_out_tasks, synthesize
from envace.trajectory import (
    Lineage,
    Message,
    Quarantined,
    Trajectory,
    iter_records,
    read_trajectories,
    write_records,
)
from envace.worlds.tasks import solve

ROOT = Path(__file__).parents[2]
HARNESSES = Path(os.environ.get(ROOT_VARIABLE, ROOT / ".harness")).absolute()
Values = dict[str, Any]


def project(folder: Path, **sections: Values) -> Path:
    """A project folder that holds nothing but `params.yaml`, with some of its values changed."""
    folder.mkdir(exist_ok=True)
    values = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in sections.items():
        values[section] |= changes
    (folder / "params.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder


def stage(name: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a stage as DVC does."""
    return subprocess.run(
        [sys.executable, "-m", f"stages.{name}"],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), ROOT_VARIABLE: str(HARNESSES)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def error_line(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line that a refusing stage prints."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def metrics(folder: Path, name: str) -> Values:
    return json.loads((folder / "metrics" / f"{name}.json").read_text(encoding="utf-8"))


def said(id_: str, text: str, answer: str = "ok", task: str = "") -> Trajectory:
    turns = (Message(role="user", content=text), Message(role="assistant", content=answer))
    return Trajectory(id=id_, source="test", messages=turns, lineage=Lineage(task_id=task))


def split_of(folder: Path, tasks: Sequence[int]) -> dict[str, bytes]:
    """Run split over three trajectories a task; bytes of its files by name."""
    project(folder, split={"dev_share": 0.3})
    trajectories = [said(f"{n}/{copy}", f"{n} {copy}", task=f"task {n}") for copy in range(3) for n in tasks]
    write_records(folder / "data/clean/trajectories.jsonl", trajectories)
    done = stage("split", folder)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in (folder / "data/split").iterdir()}


def tasks_in(lines: bytes) -> set[str]:
    return {json.loads(line)["lineage"]["task_id"] for line in lines.splitlines()}


def test_split_keeps_every_task_on_one_side_and_stays_put(tmp_path: Path) -> None:
    first = split_of(tmp_path / "first", range(40))
    train, dev = tasks_in(first["train.jsonl"]), tasks_in(first["dev.jsonl"])
    assert not train & dev
    assert len(train | dev) == 40 and 4 <= len(dev) <= 20  # 12 expected, binomial
    rows = {name: len(content.splitlines()) for name, content in first.items()}
    assert rows == {"train.jsonl": 3 * len(train), "dev.jsonl": 3 * len(dev)}
    assert metrics(tmp_path / "first", "split") == {"train": 3 * len(train), "dev": 3 * len(dev)}

    assert split_of(tmp_path / "second", range(40)) == first
    # Other data do not move a task to the other side, or a dev loss would be measured on seen tasks.
    assert tasks_in(split_of(tmp_path / "fewer", range(20))["dev.jsonl"]) == {
        task for task in dev if int(task.split()[1]) < 20
    }


def with_broken_line(folder: Path) -> str:
    """Four synthetic lines: good, broken JSON, empty answer, good; returns the file's name in the project."""
    name = "data/synthetic/trajectories.jsonl"
    good, bad = said("1", "look up"), said("3", "look down", answer="")
    write_records(folder / name, [good, bad, said("4", "look left")])
    first, *others = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / name).write_text("".join([first, "{oops\n", *others]), encoding="utf-8")
    return name


def test_filter_sets_a_broken_line_aside_with_its_place_and_counts_it(tmp_path: Path) -> None:
    file = with_broken_line(project(tmp_path, filter={"max_loss": 0.5}))
    done = stage("filter", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [t.id for t in read_trajectories(tmp_path / "data/filtered/trajectories.jsonl")] == ["1", "4"]
    quarantined = list(iter_records(tmp_path / "data/quarantine/filter.jsonl", Quarantined))
    assert [(q.file, q.line, q.rule) for q in quarantined] == [(file, 2, "json"), (file, 3, "empty")]
    assert quarantined[0].record == "{oops"
    assert Trajectory.model_validate_json(quarantined[1].record).id == "3"
    counts = metrics(tmp_path, "filter")
    assert (counts["read"], counts["kept"], counts["quarantined"], counts["loss"]) == (4, 2, 2, 0.5)
    assert sum(rule["refused"] for rule in counts["rules"].values()) == 2
    assert list(counts["rules"].values())[-1]["entered"] == 2


def test_filter_that_loses_too_much_fails_in_one_line_and_shows_what_it_lost(tmp_path: Path) -> None:
    file = with_broken_line(project(tmp_path, filter={"max_loss": 0.49}))
    line = error_line(stage("filter", tmp_path))
    assert f"set aside 2 of 4 trajectories (50.0%, allowed 49.0%), most by json: {file}:2: " in line
    assert not (tmp_path / "data/filtered").exists()
    assert len(list(iter_records(tmp_path / "data/quarantine/filter.jsonl", Quarantined))) == 2


def test_train_stops_at_a_failed_gate_with_the_tool_that_failed(tmp_path: Path) -> None:
    share = Share(share=0.62, n=61)
    failed = QualityResult(
        policy="warmup",
        rows=61,
        passed=False,
        evaluated=3,
        expected=3,
        failures=("agenda.move: agreement 0.62 < 0.80 (n=61)", "agenda: agreement 0.70 < 0.80 (n=200)"),
        agreement=Agreement(overall=share, errors=share, worlds={}, tools={"agenda.move": share}),
        docs="quality/warmup_docs/index.html",
    )
    (project(tmp_path) / "quality").mkdir()
    (tmp_path / "quality/warmup.json").write_text(failed.model_dump_json(), encoding="utf-8")
    # There is no models/warmup here: a stage that went on would complain about that instead.
    assert error_line(stage("train", tmp_path)) == (
        "error: quality gate: the warmup policy fails: agenda.move: agreement 0.62 < 0.80 (n=61), and 1 more "
        "(warm up for longer or lower `gate`; all failures: quality/warmup_docs/index.html)"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["params.yaml", "quality"]


def training_data(folder: Path, planted: Trajectory) -> list[str]:
    """Held-out tasks, and filtered data with `planted` as line 5; returns the ids of the other lines."""
    write_records(folder / "data/synthetic/held_out.jsonl", held_out_tasks(1, 2, 1))
    train = list(synthesize(replace(SHARES, demonstrations=4, drills=4, memories=2, commits=2), 1))
    write_records(folder / "data/filtered/trajectories.jsonl", [*train[:4], planted, *train[4:]])
    return [trajectory.id for trajectory in train]


def leaked(folder: Path, others: Sequence[str]) -> tuple[Quarantined, list[Match], dict[str, Values]]:
    """Run leakage, which must remove line 5 alone; what it removed, its matches that count, its table."""
    done = stage("leakage", folder)
    assert done.returncode == 0, done.stderr
    clean = folder / "data/clean"
    assert [t.id for t in read_trajectories(clean / "trajectories.jsonl")] == list(others)
    (removed,) = iter_records(clean / "quarantine.jsonl", Quarantined)
    assert (removed.file, removed.line) == ("data/filtered/trajectories.jsonl", 5)
    found = metrics(folder, "leakage")
    assert (found["leaking"], found["removed"], found["clean"]) == (1, 1, len(others))
    matches = [match for match in iter_records(clean / "matches.jsonl", Match) if match.kind == "leak"]
    return removed, matches, {row["benchmark"]: row for row in found["table"]}


def test_leakage_finds_a_held_out_task_among_the_training_data(tmp_path: Path) -> None:
    project(tmp_path, leakage={"against": ["worlds"]})
    task = held_out_tasks(1, 2, 1)[0]
    planted = Trajectory(
        id="planted",
        source="world",
        world=task.world,
        tools=task.tools,
        messages=(*task.messages, Message(role="assistant", tool_calls=(solve(task)[0][0].call,))),
    )
    others = training_data(tmp_path, planted)
    removed, matches, table = leaked(tmp_path, others)
    assert removed.reason == f"leaks worlds {task.id}"
    assert {(match.train_id, match.item_id) for match in matches} == {("planted", task.id)}
    assert "exact" in {match.method for match in matches}
    assert table["worlds"]["leaked"] == 1


@pytest.mark.skipif(not installed("bfcl", HARNESSES), reason="run `envace harness install bfcl` first")
def test_leakage_finds_locates_and_removes_a_verbatim_bfcl_question(tmp_path: Path) -> None:
    project(tmp_path, leakage={"against": ["bfcl_v4", "worlds"]})
    item = next(item for item in benchmark("bfcl_v4", HARNESSES).items() if len(item.text.split()) > 30)
    others = training_data(tmp_path, said("planted", f"Good morning! {item.text}"))
    removed, matches, table = leaked(tmp_path, others)
    assert removed.reason == f"leaks bfcl_v4 {item.id}"
    match = next(match for match in matches if match.item_id == item.id and match.method == "ngram8")
    assert (match.train_id, match.score) == ("planted", 1.0)
    assert match.train_span and match.train_span[0] == 2  # behind "good morning"
    assert match.span_text.rstrip(".?!") == item.text.rstrip(".?!")
    assert table["bfcl_v4"]["leaked"] >= 1 and table["worlds"]["leaked"] == 0


@pytest.fixture(scope="module")
def graph() -> list[Any]:
    """All stages of dvc.yaml, matrix items expanded, as DVC reads them."""
    from dvc.repo import Repo

    with Repo(str(ROOT)) as repo:
        return [stage for stage in repo.index.stages if stage.cmd]


def relative(path: str) -> Path:
    return Path(path).relative_to(ROOT.resolve())


def test_every_input_of_a_stage_is_in_git_or_comes_from_a_stage(graph: list[Any]) -> None:
    from dvc.dependency import ParamsDependency

    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    # A folder counts when something in it does; files left by an earlier run are ignored by git and do not.
    known = {Path(line) for line in listed if (ROOT / line).exists()}
    known |= {relative(out.fs_path) for stage in graph for out in stage.outs}
    known |= {parent for path in known for parent in path.parents}
    for stage_ in graph:
        for dep in stage_.deps:
            if not isinstance(dep, ParamsDependency):
                assert relative(dep.fs_path) in known, f"{stage_.addressing} needs {dep}"


def test_what_python_compiles_does_not_make_a_stage_stale() -> None:
    compiled = ["envace/quality/__pycache__/check.cpython-311.pyc", "stages/__pycache__/x.pyc"]
    command = [sys.executable, "-m", "dvc", "check-ignore", *compiled]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.stdout.split() == compiled


def test_every_output_is_ignored_by_git(graph: list[Any]) -> None:
    outs = [relative(out.fs_path).as_posix() for stage in graph for out in stage.outs]
    assert len(outs) == len(set(outs)) > len(graph)
    # Of an output that is not there yet, git cannot know that it will be a folder: ask about what is in it.
    inside = [f"{out}/x" for out in outs]
    command = ["git", "check-ignore", "--no-index", *inside]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.stdout.splitlines() == inside


def test_every_parameter_of_a_stage_exists_under_a_name_that_dvc_keeps(graph: list[Any]) -> None:
    from dvc.dependency import ParamsDependency

    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    used = {
        (stage.addressing, name)
        for stage in graph
        for dep in stage.deps
        if isinstance(dep, ParamsDependency)
        for name in dep.params
    }
    assert {name.split(".")[0] for _, name in used} == set(params)
    for where, name in used:
        value = params
        for key in name.split("."):
            assert key not in ("size", "nfiles"), f"{where}: DVC leaves {name} out of its cache key"
            assert key in value, f"{where}: no parameter {name}"
            value = value[key]
