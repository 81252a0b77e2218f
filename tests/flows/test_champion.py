"""The champion's weights in the candidate's place, and the candidate back again whatever happened."""

import subprocess
from pathlib import Path

import pytest
from throwaway import dvc

from flows.champion import POLICY, in_place
from flows.commands import git
from flows.registry import Version

GRAPH = """
stages:
  train: {cmd: python train.py, deps: [train.py], outs: [models/trained]}
  measure: {cmd: cp models/trained/weights score, deps: [models/trained], outs: [score]}
"""


@pytest.mark.slow
def test_the_candidate_is_back_also_when_the_champion_cannot_be_measured(project: Path) -> None:
    (project / "dvc.yaml").write_text(GRAPH)
    commits = []
    for who in ("champion", "candidate"):
        (project / "train.py").write_text(
            f"import pathlib\np = pathlib.Path('{POLICY}')\np.mkdir(parents=True)\n"
            f"(p / 'weights').write_text('{who}')\n"
        )
        dvc("repro", cwd=project)
        git("add", "--all", cwd=project)
        git("commit", "--quiet", "--message", who, cwd=project)
        commits.append(git("rev-parse", "HEAD", cwd=project))
    champion = Version(version="v0.0.1", commit=commits[0], message="")
    weights, score = project / POLICY / "weights", project / "score"

    with pytest.raises(RuntimeError), in_place(project, champion, commits[1]):
        assert weights.read_text() == "champion"
        assert "'candidate'" in (project / "train.py").read_text()  # code and data are the candidate's
        dvc("repro", "--single-item", "measure", cwd=project)
        assert score.read_text() == "champion"
        raise RuntimeError
    assert (weights.read_text(), score.read_text()) == ("candidate", "candidate")
    clean = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True)
    assert clean.stdout == ""
