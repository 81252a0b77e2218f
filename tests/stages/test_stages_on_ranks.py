"""Warm-up and training that start themselves again on two ranks: one set of outputs, written once."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_stages import ROOT, metrics, project, stage

from envace.models.build import load, save
from envace.quality import QualityResult
from envace.quality.check import Agreement, Share
from envace.synthesis.worlds import SHARES, synthesize
from envace.trajectory import write_records

STEPS = 2
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tiny: Any, tmp_path: Path) -> Path:
    """A project as `split` and a hopeless `check` leave it, to be run on two processes of the CPU."""
    project(
        tmp_path,
        scale={"launch": "two.yaml"},
        warmup={"steps": 40, "token_budget": 1500, "checkpoint_every": 20},
        gate={"enforced": False},
        train={"steps": STEPS, "chained_tasks": 4, "committing_tasks": 3, "group": 2, "branches": 2,
               "observe_steps": 1, "observe_rows": 8, "checkpoint_every": 1},
    )  # fmt: skip
    change(tmp_path, "threads", 1)
    launch = yaml.safe_load((ROOT / "conf/accelerate/gpu_8.yaml").read_text(encoding="utf-8"))
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(launch | {"num_processes": 2}), encoding="utf-8")
    (tmp_path / "models/base").mkdir(parents=True)
    save(tiny.model, tiny.folder, tmp_path / "models/base")
    trajectories = list(
        synthesize(replace(SHARES, demonstrations=300, drills=300, memories=50, commits=50), 1)
    )
    write_records(tmp_path / "data/split/train.jsonl", trajectories[10:])
    write_records(tmp_path / "data/split/dev.jsonl", trajectories[:10])
    nothing = Share(share=0.0, n=1)
    quality = QualityResult(
        policy="warmup", rows=1, passed=False, evaluated=1, expected=1, failures=("hopeless",),
        agreement=Agreement(overall=nothing, errors=nothing, worlds={}, tools={}), docs="",
    )  # fmt: skip
    (tmp_path / "quality").mkdir()
    (tmp_path / "quality/warmup.json").write_text(quality.model_dump_json(), encoding="utf-8")
    return tmp_path


def change(folder: Path, name: str, value: Any) -> None:
    """Set a parameter, or some of a section."""
    values = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    values[name] = values[name] | value if isinstance(value, dict) else value
    (folder / "params.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def run(name: str, folder: Path) -> str:
    """What a stage that succeeds says."""
    done = stage(name, folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list((folder / ".scratch").glob("*.pt")), "resume points of a finished run"
    return done.stderr


def test_one_set_of_outputs_is_written_by_one_rank(folder: Path) -> None:
    assert run("warmup", folder).count("warm-up: 40/40") == 1
    first, last = list(csv.DictReader((folder / "plots/warmup.csv").open()))
    assert last["step"] == "40" and float(last["act_loss"]) < float(first["act_loss"])
    assert metrics(folder, "warmup")["dev"]["act_loss"] < 6  # 6.2 is chance

    assert run("train", folder).count(f"training: {STEPS}/{STEPS}") == 1
    rows = list(csv.DictReader((folder / "plots/train.csv").open()))
    assert [row["step"] for row in rows] == ["1", "2"]
    (live,) = (folder / "plots/train").rglob("success.tsv")
    assert len(live.read_text(encoding="utf-8").splitlines()) == 1 + STEPS
    assert metrics(folder, "train")["steps"] == STEPS
    names = "base", "warmup", "trained"
    base, warm, trained = (load(folder / "models" / name).state_dict() for name in names)
    key = "model.layers.0.mlp.up_proj.weight"
    assert not base[key].equal(warm[key]) and not warm[key].equal(trained[key])


def test_a_sharded_warm_up_saves_the_whole_policy(folder: Path) -> None:
    change(folder, "scale", {"shard": True, "engine": "vllm"})
    change(folder, "warmup", {"steps": 4})
    run("warmup", folder)
    base, warm = (load(folder / "models" / name).state_dict() for name in ("base", "warmup"))
    assert base.keys() == warm.keys()
    assert all(base[key].shape == warm[key].shape and warm[key].isfinite().all() for key in base)
    assert sum(not base[key].equal(warm[key]) for key in base) > len(base) / 2
