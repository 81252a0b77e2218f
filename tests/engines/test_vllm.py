"""vLLM against the in-process engine: same tokens, same log-probabilities, no stale weights."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inside_vllm import FORBIDDEN, GREEDY, PROMPTS

from envace.benchmarks.harness import ROOT_VARIABLE
from envace.engines.hf import HFEngine
from envace.models.build import save

REPOSITORY = Path(__file__).parents[2]
PYTHON = Path(os.environ.get(ROOT_VARIABLE) or REPOSITORY / ".harness") / "vllm" / "venv" / "bin" / "python"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def said(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `inside_vllm.py` found out about the tiny policy."""
    if not PYTHON.is_file():
        pytest.skip("no environment for vLLM: run scripts/vllm_env.sh")
    folder = tmp_path_factory.mktemp("vllm")
    save(tiny.model, tiny.folder, folder)
    outcome = folder / "outcome.json"
    done = subprocess.run(
        [PYTHON, Path(__file__).with_name("inside_vllm.py"), folder, str(tiny.vocabulary), outcome],
        capture_output=True, text=True, timeout=600, cwd=folder,
        env=os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(outcome.read_text())
    return result


def test_greedy_tokens_are_those_of_the_in_process_engine(said: dict[str, Any], tiny: Any) -> None:
    here = HFEngine(tiny.model, tiny.vocabulary).generate(PROMPTS, GREEDY)
    assert said["greedy"] == [group[0].ids for group in here]  # across versions of transformers
    assert said["greedy_equal"] and said["greedy_gap"] < 1e-4
    assert said["first_gap"] < 1e-4


def test_logprobs_are_of_the_distribution_sampled_from(said: dict[str, Any]) -> None:
    assert said["shaped_gap"] < 1e-4 and said["long_gap"] < 1e-4
    assert said["ignored_gap"] > 0.1  # a trainer that ignores temperature and top-p would be off by this


def test_stop_ids_end_and_forbidden_or_padded_ids_never_come(said: dict[str, Any], tiny: Any) -> None:
    assert said["stop_is_last"] and any(said["stops"]) and not all(said["stops"])
    assert not FORBIDDEN & set(said["drawn"]) and max(said["drawn"]) < tiny.vocabulary
    assert len(said["drawn"]) > 200  # at that temperature nearly everything allowed comes up
    assert said["counted"]


def test_a_seed_means_the_same_tokens(said: dict[str, Any]) -> None:
    assert said["seed_repeats"] and said["seeds_differ"] and said["samples_differ"]


def test_a_batch_of_jobs_gives_each_what_it_gets_alone_and_tells_every_token(said: dict[str, Any]) -> None:
    assert said["company"] and said["heard"]
    assert said["cut"] == [[4, False]] * len(PROMPTS)  # they hear of the fourth token and no more


def test_a_sync_takes_over_new_weights(said: dict[str, Any]) -> None:
    assert said["synced_equal"] and said["synced"] != said["greedy"]
    assert said["synced_gap"] < 1e-4


@pytest.mark.parametrize("fault", ["never_reloaded", "cache_kept", "tied_export"])
def test_stale_weights_are_caught(said: dict[str, Any], fault: str) -> None:
    assert "weights are stale" in said["stale"][fault]
