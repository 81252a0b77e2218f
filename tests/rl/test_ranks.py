"""Warm-up and training on two ranks of the CPU: weights and logs are those of one process."""

import os
import pickle
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from experts import with_experts
from two_ranks import on_both, world

from envace.chat import TokenStream, load_template
from envace.engines.export import export_untied
from envace.engines.hf import HFEngine
from envace.models.build import load, save
from envace.params import load_params
from envace.rl import loss
from envace.rl import train as training
from envace.rl.checkpoint import Checkpoint
from envace.rl.distributed import ALONE, Ranks, full_state, shard, together
from envace.rl.experience import Experience, collect, draw_tasks, joined
from envace.rl.settings import UpdateSettings
from envace.rl.warmup import held_out_losses, warm_up
from envace.trajectory import Task
from envace.worlds.tasks import pose

PARAMS = load_params(Path(__file__).parents[2] / "params.yaml")
SEED = 1
pytestmark = pytest.mark.slow

WARMUP = PARAMS.warmup.model_copy(
    update={"steps": 2, "token_budget": 700, "matrix_rate": 0.1, "rest_rate": 0.02, "environment_weight": 0.4}
)
TRAIN = PARAMS.train.model_copy(
    update={
        "steps": 1, "chained_tasks": 3, "committing_tasks": 2, "group": 2, "branches": 2,
        "max_new_tokens": 24, "rate": 1e-3, "observe_steps": 2, "observe_rows": 5, "observe_rate": 0.01,
        "observe_logged": 0.4,
        "update": UpdateSettings(
            environment="both", environment_weight=0.4, entropy=0.01, token_budget=500, minibatches=2,
            bfloat16=False,
        ),
    }
)  # fmt: skip
"""One step with five tasks, an odd number, of two optimizer steps and two observations."""


def found() -> dict[str, Experience]:
    """Roll-outs of the step by task, as the parent process has left them."""
    return pickle.loads(Path("found.pkl").read_bytes())


def streams() -> list[TokenStream]:
    """Demonstrations of unlike length."""
    return pickle.loads(Path("streams.pkl").read_bytes())


@contextmanager
def exact() -> Iterator[None]:
    """Everything in float32, Muon too: in bfloat16 two sums differ visibly by their order alone.

    AdamW gets an epsilon above the rounding of a gradient. It divides by a gradient's own size, so where
    terms cancel (2e-8 was left of 6e-3 in one place) it would step by what the order of the sum left over.
    """
    off = patch.object(loss, "autocast", lambda enabled, device="cpu": torch.autocast(device, enabled=False))
    steady = patch.object(torch.optim, "AdamW", partial(torch.optim.AdamW, eps=1e-6))
    with off, steady, patch.object(torch.Tensor, "bfloat16", torch.Tensor.float):
        yield


@dataclass(frozen=True)
class Run:
    """What a run ends with."""

    log: list[dict[str, float]]
    weights: dict[str, torch.Tensor]


def warmed(ranks: Ranks, budget: int) -> Run:
    """Two steps of warm-up, and the held-out losses behind them."""
    model = load("policy")
    params = WARMUP.model_copy(update={"token_budget": budget})
    curve = warm_up(model, streams(), params, SEED, Checkpoint("warm", ranks.rank), ranks)
    held_out = held_out_losses(model, streams()[:3], 200, ranks)
    return Run([*curve, held_out], full_state(model))


def trained(ranks: Ranks, sharded: bool, asked: list[tuple[list[str], int]]) -> Run:
    """One step of training on the roll-outs that are there; notes the tasks and the seed asked for."""
    by_task = found()

    def collected(_: Any, __: Any, tasks: Sequence[Task], *others: Any) -> Experience:
        asked.append(([task.id for task in tasks], others[3]))
        # In the order in which two ranks hand them in.
        order = [*tasks[::2], *tasks[1::2]] if ranks.count == 1 else tasks
        return joined([by_task[task.id] for task in order])

    model, template = load("policy"), load_template("policy")
    if sharded and ranks.count > 1:
        shard(model)
    engine = HFEngine(model, template.vocabulary)
    with patch.object(training, "collect", collected):
        log = training.train(
            model, engine, template, streams()[:3], TRAIN, SEED, Checkpoint("train", ranks.rank), ranks=ranks
        )
    return Run(log, full_state(model))


def everything(ranks: Ranks) -> dict[str, Any]:
    """All runs by name, in the current folder."""
    asked: list[tuple[list[str], int]] = []
    with exact():
        runs: dict[str, Any] = {
            "warm-up": warmed(ranks, 700),
            "warm-up, one row a batch": warmed(ranks, 1),
            "training": trained(ranks, False, asked),
            "training, sharded": trained(ranks, True, asked),
        }
    return runs | {"asked": asked[0]}


RUNS = ("warm-up", "warm-up, one row a batch", "training", "training, sharded")


def one_rank(rank: int, port: int, folder: Path) -> None:
    """What each of two processes does."""
    torch.set_num_threads(1)
    os.chdir(folder)
    os.environ |= world(rank, port)
    with together("cpu") as ranks:
        results = everything(ranks)
        model = shard(load("policy"))
        Path(f"export{rank}").mkdir()
        export_untied(model, f"export{rank}", torch.bfloat16)
        Path(f"{rank}.pkl").write_bytes(pickle.dumps(results))


@pytest.fixture(scope="module")
def folder(tiny: Any, writer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy, demonstrations, and roll-outs of every task of the step."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "policy").mkdir()
    save(tiny.model, tiny.folder, folder / "policy")
    kinds = ("store", "order"), ("courier", "ship")
    tasks = [pose(*kind, seed, "train") for seed in range(5) for kind in kinds]
    rows = [writer.expert(task).stream() for task in tasks]
    (folder / "streams.pkl").write_bytes(pickle.dumps(rows))
    step = draw_tasks(TRAIN.chained_tasks, TRAIN.committing_tasks, random.Random(f"train/{SEED}/0"))
    engine = HFEngine(tiny.fresh(), tiny.vocabulary)
    by_task = {
        task.id: with_experts(collect(engine, writer.template, [task], 2, 2, 24, seed), writer, 2)
        for seed, task in enumerate(step)
    }
    (folder / "found.pkl").write_bytes(pickle.dumps(by_task))
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    """All runs in this process."""
    former = Path.cwd()
    os.chdir(folder)
    try:
        return everything(ALONE)
    finally:
        os.chdir(former)


@pytest.fixture(scope="module")
def both(folder: Path) -> list[dict[str, Any]]:
    """All runs on two ranks, as each of them saw them."""
    on_both(one_rank, folder)
    return [pickle.loads((folder / f"{rank}.pkl").read_bytes()) for rank in range(2)]


@pytest.mark.parametrize("name", RUNS)
def test_two_ranks_end_where_one_process_ends(
    folder: Path, alone: dict[str, Any], both: list[dict[str, Any]], name: str
) -> None:
    expected, before = alone[name].weights, load(folder / "policy").state_dict()
    moved = max(float((expected[key] - before[key]).abs().max()) for key in expected)
    assert moved > 1e-4
    # Of shards, the first rank alone has the whole.
    for results in both[: 1 if "sharded" in name else 2]:
        assert results[name].weights.keys() == expected.keys()
        for key, weight in expected.items():
            torch.testing.assert_close(results[name].weights[key], weight, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", RUNS)
def test_both_ranks_log_what_one_process_logs(
    alone: dict[str, Any], both: list[dict[str, Any]], name: str
) -> None:
    for results in both:
        for mine, theirs in zip(alone[name].log, results[name].log, strict=True):
            assert theirs == pytest.approx(mine, rel=1e-4, abs=1e-6)


def test_the_step_had_something_to_learn_and_to_count(alone: dict[str, Any]) -> None:
    (row,) = alone["training"].log
    assert (row["success"], row["informative"]) == (0.5, 1.0)
    assert row["observe_loss"] > 0 and row["gradient_norm"] > 0 and row["trained_tokens"] > 100


def test_each_rank_rolls_out_its_own_tasks_with_its_own_seed(
    alone: dict[str, Any], both: list[dict[str, Any]]
) -> None:
    tasks, seed = alone["asked"]
    (first, first_seed), (second, second_seed) = (results["asked"] for results in both)
    assert (first, second) == (tasks[::2], tasks[1::2])
    assert seed == SEED * 1_000_000 * training.SEEDS_A_STEP
    assert (first_seed, second_seed) == (2 * seed, 2 * seed + training.SEEDS_A_STEP)


def test_each_rank_exports_the_whole_of_a_sharded_policy(folder: Path, both: list[dict[str, Any]]) -> None:
    expected = load(folder / "policy").state_dict()
    for rank in range(len(both)):
        copy = load(folder / f"export{rank}", dtype="bfloat16")
        assert not copy.config.tie_word_embeddings and copy.config.dtype == torch.bfloat16
        assert copy.config.architectures == ["Qwen3ForCausalLM"]
        for key, weight in copy.state_dict().items():
            assert torch.equal(weight, expected[key].to(torch.bfloat16)), key
