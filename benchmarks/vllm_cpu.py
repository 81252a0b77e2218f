"""What benchmarks beside vLLM share: its environment, its settings on a CPU, a small real model."""

import os
from pathlib import Path

import yaml

from envace.benchmarks.harness import default_root
from envace.errors import EnvaceError
from envace.files import atomic_folder
from envace.models.wheel import wheel
from envace.params import WheelModel

POLICY = Path("conf/model/smollm2_135m.yaml")
FOLDER = Path(".scratch/smollm2_135m")


def python() -> Path:
    """The interpreter of the environment that has vLLM.

    Raises:
        EnvaceError: There is none.
    """
    found = default_root() / "vllm" / "venv" / "bin" / "python"
    if not found.is_file():
        raise EnvaceError("no environment for vLLM", "run scripts/vllm_env.sh")
    return found.absolute()


def smollm2() -> Path:
    """The folder of SmolLM2-135M, unpacked from its wheel at the first call."""
    if not FOLDER.is_dir():
        with atomic_folder(FOLDER) as fresh:
            wheel(WheelModel(**yaml.safe_load(POLICY.read_text())), 0, fresh)
    return FOLDER.absolute()


def settings() -> dict[str, str]:
    """Environment variables for vLLM on the cores that this process may use."""
    # Left alone, vLLM binds one thread a physical core, and others in the same process get no more.
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return {
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": cores,
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
