"""Shared by the benchmark tests: installed harnesses."""

import os
from pathlib import Path

import pytest

from envace.benchmarks import harness
from envace.errors import EnvaceError

ROOT = Path(os.environ.get(harness.ROOT_VARIABLE) or Path(__file__).parents[2] / ".harness")


def ready(name: str) -> Path:
    try:
        harness.install(name, ROOT)
    except EnvaceError as error:
        pytest.skip(f"harness {name} cannot be installed here: {error.message}")
    return ROOT


@pytest.fixture(scope="session")
def bfcl_root() -> Path:
    return ready("bfcl")


@pytest.fixture(scope="session")
def tau2_root() -> Path:
    return ready("tau2")
