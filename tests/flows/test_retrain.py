"""Retraining over a real DVC project: promoted, archived, refused, and what a human sees of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from small_trainer import BENCHMARKS, LEAK, drop, make
from throwaway import latest

from envace.errors import EnvaceError
from flows.worktree import alone, prepared


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, as the current folder."""
    root = make(tmp_path / "trainer")
    monkeypatch.chdir(root)
    return root


def test_the_worktree_is_the_last_commit_and_leaves_the_human_alone(trainer: Path) -> None:
    (trainer / "train.py").write_text("# half an edit")
    with alone(trainer) as home:
        tree = prepared(trainer, home)
        assert "gibberish" in (tree / "train.py").read_text()
        cache = (tree / ".dvc/config.local").read_text()
        assert str(trainer / ".dvc/cache") in cache
        # What a former run changed or left is gone; what git ignores, as outputs, stays.
        (tree / "train.py").write_text("x")
        (tree / "stray.txt").write_text("x")
        (tree / "models").mkdir()
        (tree / "models/resume").write_text("x")
        (Path(git(tree, "rev-parse", "--absolute-git-dir")) / "index.lock").touch()
        assert prepared(trainer, home) == tree
        assert "gibberish" in (tree / "train.py").read_text()
        assert not (tree / "stray.txt").exists() and (tree / "models/resume").exists()
    assert (trainer / "train.py").read_text() == "# half an edit"
    assert git(trainer, "status", "--short") == "M train.py"


def test_a_second_retraining_is_refused_and_a_dead_one_holds_nothing(trainer: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from flows.worktree import alone\n"
        "with alone(Path()): print('held', flush=True); time.sleep(60)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout and owner.stdout.readline() == "held\n"
        with pytest.raises(EnvaceError, match="another flow works there"), alone(trainer):
            pass
        owner.kill()
        owner.wait()
        with alone(trainer):
            pass


@pytest.mark.slow
def test_candidates_are_promoted_archived_and_refused(trainer: Path, server: str) -> None:
    from flows.registry import champion, champions, versions
    from flows.retrain import retrain
    from flows.rollback import rollback

    def run(start: Literal["base", "champion"] = "base") -> tuple[str, str]:
        state = retrain(benchmarks=BENCHMARKS, start=start, return_state=True)
        return state.name, state.message

    def moved(folder: str) -> set[str]:
        return {path.name for path in (trainer / "inbox" / folder).glob("*")}

    assert run() == ("NothingNew", "nothing new and usable in the inbox")

    drop(trainer, "first.jsonl", "lesson", 10)
    (trainer / "train.py").write_text("# half an edit")
    assert run() == ("Promoted", "v0.0.1: the first champion")
    assert moved("used") == {"first.jsonl"}

    drop(trainer, "better.jsonl", "lesson", 40)
    name, message = run()
    assert name == "Promoted" and message.startswith("v0.0.2: gain +20.0%")
    [decision] = json.loads(str(latest("decision")))
    assert (decision["candidate"], decision["champion"], decision["tasks"]) == ("v0.0.2", "v0.0.1", 200)
    assert decision["change of evaluate"] == 0.2
    assert git(trainer, "show", "policy@v0.0.2:params.yaml").count("accepted/") == 2

    drop(trainer, "worse.jsonl", "nonsense", 30)
    name, message = run()
    assert name == "Archived" and message.startswith("v0.0.3: no gain: -15.0%")
    stages = [row["stage"] for row in json.loads(str(latest("stages")))]
    assert set(stages) == {"model", "synthesize", "leakage", "train", "evaluate"}

    drop(trainer, "gibberish.jsonl", "lesson gibberish", 20)
    assert run() == ("Archived", "v0.0.4: quality gate: parses 0.1")

    drop(trainer, "leak.jsonl", LEAK, 2)
    assert run()[0] == "NothingNew"
    assert moved("refused") == {"leak.jsonl", "leak.jsonl.reason.txt", "leak.jsonl.rows.jsonl"}
    assert "match a benchmark" in (trainer / "inbox/refused/leak.jsonl.reason.txt").read_text()
    [row] = json.loads(str(latest("inbox")))
    assert (row["file"], row["rows"]) == ("leak.jsonl", 0)

    drop(trainer, "held.jsonl", "held-out", 2)
    name, message = run()
    assert name == "Refused" and "1 held-out part is left" in message
    assert "held.jsonl" in moved("refused")

    # A file the champion was trained on is nothing new.
    (trainer / "inbox/used/better.jsonl").rename(trainer / "inbox/again.jsonl")
    assert run()[0] == "NothingNew"

    assert moved("used") >= {"first.jsonl", "worse.jsonl", "gibberish.jsonl", "again.jsonl"}
    assert champions(trainer) == ["v0.0.1", "v0.0.2"]
    assert list(versions(trainer)) == ["v0.0.1", "v0.0.2", "v0.0.3", "v0.0.4"]
    assert rollback(trainer) == ("v0.0.2", "v0.0.1")
    held = champion(trainer)
    assert held and held.version == "v0.0.1"
    assert git(trainer, "status", "--short") == "M train.py"
    assert (trainer / "train.py").read_text() == "# half an edit"

    # The version before is what the next candidate is measured against, with its corpus alone.
    drop(trainer, "next.jsonl", "lesson next", 15)
    name, message = run()
    assert name == "Promoted" and message.startswith("v0.0.5: gain +7.5%")

    # From the champion's weights (25), not from nothing: the corpus of 35 rows adds to them.
    drop(trainer, "more.jsonl", "lesson more", 10)
    name, message = run(start="champion")
    assert name == "Promoted" and message.startswith("v0.0.6: gain +17.5%")
    assert "policy@v0.0.5" in git(trainer, "show", "policy@v0.0.6:params.yaml")
