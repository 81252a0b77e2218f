"""A killed run resumes as if it had never stopped, and never resumes another run."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from experts import with_experts

from envace.chat import TokenStream
from envace.engines.hf import HFEngine
from envace.params import load_params
from envace.rl import train as training
from envace.rl.checkpoint import Checkpoint
from envace.rl.experience import Experience, collect
from envace.rl.optimizer import MuonAdamW
from envace.rl.warmup import warm_up
from envace.worlds.tasks import pose

PARAMS = load_params(Path(__file__).parents[2] / "params.yaml")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Resume points live under the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".scratch"


class Killed(BaseException):
    """The planted interruption."""


def kill_after(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Stop the process's run right behind the resume point of `step`."""
    save = Checkpoint.save

    def save_and_die(self: Checkpoint, model: Any, optimizer: Any, done: int, extra: Any) -> None:
        save(self, model, optimizer, done, extra)
        if done == step:
            raise Killed

    monkeypatch.setattr(Checkpoint, "save", save_and_die)


def same(left: Any, right: Any) -> bool:
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def streams(writer: Any, count: int) -> list[TokenStream]:
    return [writer.expert(pose("store", "order", seed, "train")).stream() for seed in range(count)]


def test_warm_up_resumes_to_the_same_bits(tiny: Any, writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    params = PARAMS.warmup.model_copy(update={"steps": 6, "token_budget": 300, "checkpoint_every": 3})
    data = streams(writer, 9)
    straight = tiny.fresh()
    curve = warm_up(straight, data, params, 1, Checkpoint("straight", 1))
    assert not same(straight, tiny.model) and [point["step"] for point in curve] == [6]

    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, 3)
        warm_up(tiny.fresh(), data, params, 1, Checkpoint("killed", 1))
    resumed = tiny.fresh()
    assert warm_up(resumed, data, params, 1, Checkpoint("killed", 1)) == curve
    assert same(resumed, straight)
    # A finished run repeats nothing.
    again = tiny.fresh()
    assert warm_up(again, data, params, 1, Checkpoint("killed", 1)) == curve
    assert same(again, straight)


class CopyEngine(HFEngine):
    """Samples from a copy of the policy, as it was when it was made or last synced."""

    def __init__(self, model: Any, vocabulary: int) -> None:
        super().__init__(copy.deepcopy(model), vocabulary)

    def sync(self, model: Any) -> float:
        self.model.load_state_dict(model.state_dict())
        return 0.0


def test_training_resumes_to_the_same_bits(tiny: Any, writer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failure mode 11: a resumed run skips or repeats prompts."""
    drawn: list[list[str]] = []
    params = PARAMS.train.model_copy(
        update={
            "steps": 4, "chained_tasks": 2, "committing_tasks": 1, "group": 2, "branches": 2,
            "max_new_tokens": 24, "observe_steps": 2, "observe_rows": 4, "checkpoint_every": 2,
            "update": dataclasses.replace(PARAMS.train.update, environment="both"),
        }
    )  # fmt: skip

    def collect_with_experts(*args: Any, **kwargs: Any) -> Experience:
        drawn.append([task.id for task in args[2]])
        return with_experts(collect(*args, **kwargs), writer, params.group)

    monkeypatch.setattr(training, "collect", collect_with_experts)
    logged = streams(writer, 3)

    def run(model: Any, checkpoint: Checkpoint, kind: type[HFEngine] = HFEngine) -> list[dict[str, float]]:
        engine = kind(model, tiny.vocabulary)
        return training.train(model, engine, writer.template, logged, params, 1, checkpoint)

    straight = tiny.fresh()
    log = run(straight, Checkpoint("straight", 1))
    assert not same(straight, tiny.model)
    assert [row["step"] for row in log] == [1, 2, 3, 4]
    assert all(row["success"] == 0.5 and row["informative"] == 1.0 for row in log)
    assert all(row["observe_loss"] > 0 and row["gradient_norm"] > 0 for row in log)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, 2)
        run(tiny.fresh(), Checkpoint("killed", 1))
    resumed = tiny.fresh()
    assert run(resumed, Checkpoint("killed", 1)) == log
    assert same(resumed, straight)
    assert drawn[4:] == drawn[:4], "two steps, the kill, and the other two"

    # A sampler with weights of its own is synced in every step, the first one behind a resume point too.
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_after(patch, 2)
        run(tiny.fresh(), Checkpoint("copied", 1), CopyEngine)
    assert run(tiny.fresh(), Checkpoint("copied", 1), CopyEngine) == log


def test_another_key_never_resumes(tiny: Any, tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text("one")
    model = tiny.fresh()
    optimizer = MuonAdamW(model, 0.02, 0.004)
    Checkpoint("warmup", {"rate": 1}, data).save(model, {"optimizer": optimizer}, 7, {"curve": []})
    assert Checkpoint("warmup", {"rate": 1}, data).load(model, {"optimizer": optimizer}) == (7, {"curve": []})
    assert Checkpoint("warmup", {"rate": 2}, data).load(model, {"optimizer": optimizer}) == (0, {})
    assert Checkpoint("train", {"rate": 1}, data).load(model, {"optimizer": optimizer}) == (0, {})
    data.write_text("two")
    assert Checkpoint("warmup", {"rate": 1}, data).load(model, {"optimizer": optimizer}) == (0, {})


def test_a_torn_write_leaves_the_last_resume_point(
    tiny: Any, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.fresh()
    optimizer, point = MuonAdamW(model, 0.02, 0.004), Checkpoint("warmup", 1)
    point.save(model, {"optimizer": optimizer}, 1, {})
    good = point.path.read_bytes()

    def torn(state: Any, path: Path) -> None:
        Path(path).write_bytes(good[:1000])
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(torch, "save", torn)
        point.save(model, {"optimizer": optimizer}, 2, {})
    assert point.load(model, {"optimizer": optimizer}) == (1, {})
    point.save(model, {"optimizer": optimizer}, 3, {})  # the torn file is no obstacle
    assert point.load(model, {"optimizer": optimizer})[0] == 3
    point.discard()
    assert point.load(model, {"optimizer": optimizer}) == (0, {})
    assert not list(scratch.iterdir())
