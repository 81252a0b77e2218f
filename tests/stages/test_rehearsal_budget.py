"""The sweep over rehearsal budgets as a command, in a project folder of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_stages import ROOT, error_line, project, stage

from envace.benchmarks.base import TaskResult
from envace.benchmarks.budget import cell_of
from envace.files import write_json
from envace.trajectory import write_records
from envace.worlds.tasks import pose
from stages.rehearsal_budget import first_of_each

ONE = TaskResult(id="a", category="a", success=1)


def test_an_unknown_world_is_a_one_line_error(tmp_path: Path) -> None:
    project(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "stages.rehearsal_budget", "moon"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert error_line(done).startswith("error: no world 'moon' (one of store, ")


def test_the_first_tasks_of_every_template() -> None:
    one = pose("store", "price", 0, "held_out")
    names = ("price", "order", "price", "stock", "price")
    tasks = [one.model_copy(update={"id": str(i), "template": name}) for i, name in enumerate(names)]
    assert list(first_of_each(tasks, 2)) == tasks[:4]
    assert list(first_of_each(tasks, 9)) == tasks


@pytest.mark.slow
def test_a_policy_is_swept_once_and_drawn_beside_the_other(tiny: Any, tmp_path: Path) -> None:
    from envace.models.build import save

    params = project(tmp_path) / "params.yaml"
    values = yaml.safe_load(params.read_text(encoding="utf-8")) | {"threads": 1}
    params.write_text(yaml.safe_dump(values), encoding="utf-8")
    tasks = [pose(world, name, 0, "held_out") for world, name in (("courier", "ship"), ("store", "price"))]
    write_records(tmp_path / "data/synthetic/held_out.jsonl", tasks)
    save(tiny.model, tiny.folder, tmp_path / "models/trained")
    out = tmp_path / "evaluation/rehearsal_budget/courier"  # only that world commits once
    known = cell_of("none", 0, [ONE], [ONE], 0).model_dump(mode="json")
    write_json(out / "warmup.json", [known])  # measured before, so that no model of it is needed
    first = stage("rehearsal_budget", tmp_path)
    assert first.returncode == 0, first.stderr
    cells = json.loads((out / "trained.json").read_text(encoding="utf-8"))
    assert [cell["success"]["n"] for cell in cells] == [1] * (1 + 6 * 4)
    assert (out / "success.svg").read_text(encoding="utf-8").startswith("<svg")
    again = stage("rehearsal_budget", tmp_path)
    assert (again.stdout, again.stderr) == (first.stdout, "")
