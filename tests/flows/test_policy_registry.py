"""Registered policies in a real git repository: one champion, its line, and the way back."""

import subprocess
import sys
from pathlib import Path

import pytest
from throwaway import ROOT

from envace.errors import EnvaceError
from flows.registry import champion, champions, promote, register, succession, versions
from flows.rollback import rollback


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository without an identity of its own, as on a machine that only runs flows."""
    git(tmp_path, "init", "--quiet")
    return tmp_path


def candidate(root: Path, message: str) -> str:
    """A registered commit that no branch holds, as a retraining leaves it."""
    git(root, "commit", "--quiet", "--allow-empty", "-m", message)
    return register(root, git(root, "rev-parse", "HEAD"), message).version


def test_a_candidate_is_registered_and_only_a_promoted_one_is_champion(repository: Path) -> None:
    assert champion(repository) is None
    first = candidate(repository, "the first")
    assert champion(repository) is None
    promote(repository, first, "first champion")
    second = candidate(repository, "no significant gain: +0.0%")
    held = champion(repository)
    assert held and (held.version, held.tag, held.message) == (first, f"policy@{first}", "the first")
    assert held.commit == git(repository, "rev-list", "-n", "1", held.tag)
    assert list(versions(repository)) == [first, second] == ["v0.0.1", "v0.0.2"]
    assert versions(repository)[second].message == "no significant gain: +0.0%"
    with pytest.raises(EnvaceError, match="not registered"):
        register(repository, held.commit, "again")


def test_a_rollback_goes_back_one_champion_at_a_time(repository: Path) -> None:
    made = [candidate(repository, str(i)) for i in range(4)]
    for version in (made[0], made[1], made[3]):  # the third was archived
        promote(repository, version, "better")
    assert champions(repository) == ["v0.0.1", "v0.0.2", "v0.0.4"]
    assert rollback(repository) == ("v0.0.4", "v0.0.2")
    assert rollback(repository) == ("v0.0.2", "v0.0.1")
    with pytest.raises(EnvaceError, match=r"v0\.0\.1 is the first champion"):
        rollback(repository)
    assert rollback(repository, "v0.0.3") == ("v0.0.1", "v0.0.3")
    with pytest.raises(EnvaceError, match=r"no version v9"):
        rollback(repository, "v9")
    assert champions(repository) == ["v0.0.1", "v0.0.3"]


def test_more_than_nine_assignments_keep_their_order(repository: Path) -> None:
    made = [candidate(repository, str(i)) for i in range(11)]
    for version in made:
        promote(repository, version, "better")
    assert champions(repository) == made


def test_the_command_says_what_is_in_service(repository: Path) -> None:
    command = [sys.executable, "-m", "flows.rollback"]

    def run() -> "subprocess.CompletedProcess[str]":
        env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True)

    nothing = run()
    assert (nothing.returncode, len(nothing.stderr.splitlines())) == (1, 1)
    assert "no champion yet" in nothing.stderr
    for _ in range(2):
        promote(repository, candidate(repository, "x"), "better")
    assert run().stdout == "champion: v0.0.1 (before: v0.0.2)\n"


@pytest.mark.parametrize(
    ("assigned", "line"),
    [("", ""), ("a", "a"), ("abc", "abc"), ("abcb", "ab"), ("abcbd", "abd"), ("abcba", "a"), ("aa", "a")],
)
def test_the_line_of_champions(assigned: str, line: str) -> None:
    assert succession(assigned) == list(line)
