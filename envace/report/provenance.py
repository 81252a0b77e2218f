"""What was run: parameters, code, library versions. No times, hosts or paths: equal runs, equal bytes."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from envace.files import digest
from envace.params import Params

PACKAGES = ("envace", "torch", "transformers", "tokenizers")
"""Packages whose version can change a number."""
CODE = ("envace", "stages", "dvc.yaml", "params.yaml")
"""What must equal the revision for the revision to describe the run."""
REPORT_STAGE = "report"


def provenance(root: Path, params: Params) -> dict[str, Any]:
    """Everything needed to run it again, as JSON values; None for what is not known."""
    return {
        "profile": params.profile,
        "seed": params.seed,
        "threads": params.threads,
        "revision": _revision(root),
        "lock": _lock(root / "dvc.lock"),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "params": params.model_dump(mode="json"),
    }


def _revision(root: Path) -> str | None:
    """Commit of the checkout, marked where the code differs from it; None outside git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit if _git(root, "diff", "--quiet", "HEAD", "--", *CODE) is not None else f"{commit}, changed"


def _git(root: Path, *arguments: str) -> str | None:
    """Output of a git command that locks nothing; None where it fails."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _lock(path: Path) -> str | None:
    """Digest of dvc.lock without this stage, whose own entry appears only after it ran."""
    if not path.is_file():
        return None
    stages = yaml.safe_load(path.read_text(encoding="utf-8")).get("stages", {})
    return digest({name: entry for name, entry in stages.items() if name != REPORT_STAGE})


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
