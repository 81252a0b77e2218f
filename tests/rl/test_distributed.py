"""Two ranks on the CPU: their gradient is one process's, and a rank that fails takes the other along."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch.distributed.tensor import DTensor
from two_ranks import free_port, world

from envace.chat import TokenStream
from envace.errors import EnvaceError
from envace.models.adapt import prepare
from envace.models.build import load, save
from envace.params import LoraParams, ScaleParams
from envace.rl.checkpoint import Checkpoint
from envace.rl.distributed import Ranks, agree, clip_gradients, full_state, shard, sum_gradients, together
from envace.rl.rows import ACT, ENV, PolicyRow
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.episode import Row

ROOT = Path(__file__).parents[2]
SETTINGS = UpdateSettings(
    environment="both", environment_weight=0.5, entropy=0.01, token_budget=80, bfloat16=False
)
SPLITS = {"3 rows and 1": ([0, 1, 2], [3]), "4 rows and none": ([0, 1, 2, 3], []), "even": ([0, 3], [1, 2])}
LORA = ScaleParams(
    device="cpu",
    dtype="float32",
    gradient_checkpointing=True,
    lora=LoraParams(rank=4, alpha=8, targets=("q_proj", "down_proj")),
    shard=True,
    launch=None,
    engine="vllm",
    engine_options={},
)


def rows() -> list[PolicyRow]:
    """Four rows of unlike length; with a budget of 80 tokens, three forward passes in one process."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for length, advantage in ((20, 1.0), (33, -0.7), (50, 0.4), (61, -1.2)):
        ids = torch.randint(7, 300, (length,), generator=generator).tolist()
        roles = [0] * 8 + [ACT if (place // 6) % 2 else ENV for place in range(length - 8)]
        logprobs = [0.0] * 8 + (-6 + torch.rand(length - 8, generator=generator)).tolist()
        by_role = {ACT: advantage, ENV: advantage / 2}
        made.append(PolicyRow(Row(TokenStream(ids, roles), tuple(logprobs)), by_role))
    return made


def resumed(policy: Path, out: Path, ranks: Ranks) -> tuple[dict[str, Any], dict[str, Any]]:
    """Shards after two steps, with a resume point in between and without."""
    own = [rows()[index] for index in SPLITS["3 rows and 1"][ranks.rank]]
    os.chdir(out)
    states = []
    for interrupted in (True, False):
        model = shard(load(policy))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        checkpoint = Checkpoint("test", [ranks.rank, ranks.count])
        for done in range(2):
            step(model, own, ranks)
            optimizer.step()
            optimizer.zero_grad()
            if interrupted and not done:
                checkpoint.save(model, {"policy": optimizer}, 1, {})
                model = shard(load(policy))
                optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
                assert agree(checkpoint.load(model, {"policy": optimizer})[0], ranks, model.device) == 1
        states.append({name: whole(tensor) for name, tensor in model.state_dict().items()})
    return states[0], states[1]


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def step(model: Any, own: list[PolicyRow], ranks: Ranks) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Log with the gradient's norm, and the whole gradient before it is clipped."""
    log = backward(model, own, SETTINGS, across=ranks.sum)
    sum_gradients(model, ranks)
    gradient = {name: whole(p.grad).clone() for name, p in model.named_parameters() if p.grad is not None}
    return log | {"norm": clip_gradients(model)}, gradient


def one_rank(rank: int, port: int, policy: Path, out: Path) -> None:
    """What each of two processes does: every split with whole weights and with shards; adapters; saving."""
    torch.set_num_threads(1)
    sys.stderr = (out / f"{rank}.err").open("w")
    os.environ |= world(rank, port)
    results: dict[str, Any] = {}
    with together("cpu") as ranks:
        for name, split in SPLITS.items():
            own = [rows()[index] for index in split[ranks.rank]]
            results[f"whole, {name}"] = step(load(policy), own, ranks)
            results[f"sharded, {name}"] = step(shard(load(policy)), own, ranks)
        model = shard(prepare(load(policy), LORA, seed=0))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(2):  # at first the adapters' one half is zero, and with it the other's gradient
            step(model, [rows()[index] for index in SPLITS["3 rows and 1"][ranks.rank]], ranks)
            optimizer.step()
            optimizer.zero_grad()
        state = full_state(model)
        results["names on this rank"] = sorted(state)
        if ranks.first:
            save(model, policy, out / "saved", state)
        results["resumed"], results["uninterrupted"] = resumed(policy, out, ranks)
        results["architecture"] = model.config.architectures
        torch.save(results, out / f"{ranks.rank}.pt")
        ranks.sum(torch.zeros(1))
        if ranks.rank == 1:
            threading.Thread(target=time.sleep, args=(600,)).start()  # an engine's, say
            raise EnvaceError("no more rows", "add rows")
        time.sleep(600)


@pytest.fixture(scope="module")
def policy(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    save(tiny.model, tiny.folder, folder)
    return folder


@dataclass(frozen=True)
class Both:
    """What two ranks left behind."""

    results: list[dict[str, Any]]
    folder: Path
    error: mp.ProcessExitedException
    still_alive: int
    printed: str


@pytest.fixture(scope="module")
def both(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Both ranks work; then rank 1 fails while a thread of it lives on, and rank 0 waits."""
    out = tmp_path_factory.mktemp("ranks")
    context = mp.spawn(one_rank, (free_port(), policy, out), nprocs=2, join=False)
    try:
        with pytest.raises(mp.ProcessExitedException) as error:
            while not context.join(timeout=120):
                pytest.fail("a rank is still waiting")
        still_alive = sum(process.is_alive() for process in context.processes)
    finally:
        for process in context.processes:
            process.kill()
    return Both(
        [torch.load(out / f"{rank}.pt") for rank in range(2)],
        out,
        error.value,
        still_alive,
        (out / "1.err").read_text(),
    )


@pytest.mark.parametrize("weights", ["whole", "sharded"])
@pytest.mark.parametrize("split", SPLITS)
def test_uneven_rows_on_two_ranks_give_the_gradient_of_one_process(
    policy: Path, both: Both, weights: str, split: str
) -> None:
    log, gradient = step(load(policy), rows(), Ranks())
    assert max(float(g.abs().max()) for g in gradient.values()) > 1e-3
    for results in both.results:
        their_log, theirs = results[f"{weights}, {split}"]
        assert theirs.keys() == gradient.keys()
        for name in gradient:
            torch.testing.assert_close(theirs[name], gradient[name], atol=1e-6, rtol=1e-4)
        assert their_log == pytest.approx(log, rel=1e-4)


def test_sharded_adapters_are_saved_merged_and_by_the_first_rank_only(policy: Path, both: Both) -> None:
    first, second = both.results
    assert first["names on this rank"] and second["names on this rank"] == []
    model = prepare(load(policy), LORA, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(2):
        step(model, rows(), Ranks())
        optimizer.step()
        optimizer.zero_grad()
    ids = torch.arange(7, 47)[None]
    with torch.no_grad():
        expected, found, before = (
            m.eval()(input_ids=ids).logits for m in (model, load(both.folder / "saved"), load(policy))
        )
    assert float((expected - before).abs().max()) > 0.05
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)
    assert first["architecture"] == ["Qwen3ForCausalLM"]


def test_a_sharded_run_resumes_to_the_bit_from_a_resume_point_a_rank(both: Both) -> None:
    for results in both.results:
        assert results["resumed"].keys() == results["uninterrupted"].keys()
        for name, tensor in results["uninterrupted"].items():
            assert torch.equal(results["resumed"][name], tensor), name


def test_ranks_that_would_resume_at_different_steps_refuse() -> None:
    class Pair(Ranks):
        def sum(self, tensor: torch.Tensor) -> torch.Tensor:
            return tensor + torch.tensor([0.0, 20.0])  # what the other rank contributes

    assert agree(20, Pair(0, 2), "cpu") == 20
    with pytest.raises(EnvaceError, match=r"\[10.0, 20.0\]"):
        agree(10, Pair(0, 2), "cpu")


def test_shares_are_disjoint_complete_and_even() -> None:
    shares = [Ranks(rank, 3).own(range(11)) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(11))
    assert [len(share) for share in shares] == [4, 4, 3]


def test_blocks_are_neighbors_in_order_and_even() -> None:
    blocks = [Ranks(rank, 3).block(range(11)) for rank in range(3)]
    assert [item for block in blocks for item in block] == list(range(11))
    assert sorted(len(block) for block in blocks) == [3, 4, 4]
    assert [Ranks(rank, 3).block("ab") for rank in range(3)] == [[], ["a"], ["b"]]


def test_alone_nothing_changes_and_errors_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(EnvaceError), together("cpu") as ranks:
        assert ranks == Ranks() and ranks.first
        assert ranks.sum(torch.tensor([2.0])).tolist() == [2.0]
        assert ranks.gather("mine") == ["mine"]
        ranks.wait()
        raise EnvaceError("mine")


def test_a_rank_that_fails_ends_although_its_threads_live_on_and_ends_the_others(both: Both) -> None:
    assert (both.error.error_index, both.error.exit_code) == (1, 1)
    assert both.still_alive == 0
    assert "error: rank 1: no more rows (add rows)\n" in both.printed


@pytest.mark.slow
def test_accelerate_launch_ends_with_its_first_failing_rank(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(
        "import time\n"
        "from envace.rl.distributed import together\n"
        "with together('cpu') as ranks:\n"
        "    assert ranks.rank != 1, 'planted'\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"]
    done = subprocess.run(
        [*command, "--config_file", str(ROOT / "conf/accelerate/gpu_8.yaml"), str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0 and "AssertionError: planted" in done.stderr
