"""Fixtures of the flow tests: a fresh project, one Prefect server."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from throwaway import DVC_YAML, SCORE, dvc

import flows  # noqa: F401 - its defaults must be set before Prefect is imported


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git and DVC project that has never run."""
    root = tmp_path_factory.mktemp("template")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    dvc("init", "--quiet", cwd=root)
    dvc("config", "core.check_update", "false", cwd=root)
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "score.py").write_text(SCORE)
    return root


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the project, as the current folder."""
    root = tmp_path / "project"
    shutil.copytree(template, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Prefect server for all tests here; yields its API address."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())
