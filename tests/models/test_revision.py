"""What an earlier commit trained, out of DVC's cache."""

import subprocess
import sys
from pathlib import Path

import pytest

from envace.errors import EnvaceError
from envace.models.revision import fetch


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, as the current folder: nothing trained, `v1` trained, then trained anew."""
    monkeypatch.chdir(tmp_path)
    run("git", "init", "--quiet")
    run(sys.executable, "-m", "dvc", "init", "--quiet")
    commit = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "x")
    run(*commit, "--allow-empty")
    run("git", "tag", "v0")
    for tag in ("v1", "v2"):
        Path("models/trained").mkdir(parents=True, exist_ok=True)
        Path("models/trained/weights").write_text(tag)
        run(sys.executable, "-m", "dvc", "add", "--quiet", "models/trained")
        run("git", "add", "-A")
        run(*commit)
        run("git", "tag", tag)
    return tmp_path


def test_the_weights_of_a_tag_beside_those_of_today(
    history: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out")
    fetch("v1", out)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("weights", "v1")]
    assert Path("models/trained/weights").read_text() == "v2"


@pytest.mark.parametrize("tag", ["v0", "v7"])
def test_nothing_to_be_had_is_one_line(history: Path, tag: str) -> None:
    with pytest.raises(EnvaceError, match=rf"{tag}: no models/trained to be had: .") as error:
        fetch(tag, history / "out")
    assert "\n" not in str(error.value)


def test_weights_that_left_the_cache_are_one_line(history: Path) -> None:
    for path in (history / ".dvc/cache/files").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(EnvaceError, match=r"v1: no models/trained to be had: .") as error:
        fetch("v1", history / "out")
    assert "\n" not in str(error.value)
