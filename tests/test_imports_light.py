"""What a command line's --help pays for: packages that must not import heavy libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = [
    "envace", "envace.trajectory", "envace.params", "envace.compose", "envace.worlds", "envace.worlds.tasks",
    "envace.chat", "envace.engines", "envace.synthesis.worlds", "envace.rehearsal.strategies",
    "envace.quality", "envace.benchmarks", "envace.leakage", "envace.filters", "envace.imports",
    "envace.rewards", "envace.guard.config", "envace.guard.backend",
]  # fmt: skip
HEAVY = {
    "torch", "transformers", "tokenizers", "prefect", "great_expectations", "pandas", "dvc", "fastapi",
    "hydra", "matplotlib", "datasets", "accelerate", "mcp",
}  # fmt: skip


def loaded(code: str) -> set[str]:
    """Top-level modules present after running `code` in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_all_together_are_light() -> None:
    assert not loaded("\n".join(f"import {name}" for name in PACKAGES)) & HEAVY


@pytest.mark.parametrize("name", ["envace.worlds.tasks", "envace.benchmarks", "envace.rollout.answered"])
def test_no_import_depends_on_another_coming_first(name: str) -> None:
    assert not loaded(f"import {name}") & HEAVY  # an import cycle would fail here
