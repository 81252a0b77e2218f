"""What the other stages wrote, read and validated.

`metrics/check_*.json` and `metrics/evaluate/*.json` repeat parts of `quality/` and
`evaluation/` for DVC's tables; the whole records are read instead.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envace.benchmarks import BENCHMARKS, ON_REQUEST
from envace.benchmarks.base import BenchmarkResult
from envace.errors import EnvaceError
from envace.files import read_json
from envace.params import Params
from envace.quality import QualityResult
from envace.report.curves import read_curve
from envace.report.provenance import provenance
from envace.trajectory.jsonl import describe

POLICIES = ("warmup", "trained")
STRATEGIES = ("none", "parallel")
METRICS = ("model", "synthesize", "filter", "leakage", "split", "warmup", "train")
CURVES = ("warmup", "train")

Curve = Mapping[str, list[float | None]]
"""Columns by name; None where a step has no value."""
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class Inputs:
    """All a report is made of."""

    metrics: Mapping[str, dict[str, Any]]
    """`metrics/<stage>.json` by stage."""
    curves: Mapping[str, Curve]
    """`plots/<stage>.csv` by stage."""
    quality: Mapping[str, QualityResult]
    """Rehearsed responses against the world, by policy."""
    worlds: Mapping[str, Mapping[str, BenchmarkResult]]
    """Held-out tasks of the worlds, by policy and strategy."""
    benchmarks: Mapping[str, Mapping[str, BenchmarkResult]]
    """Harness results of the trained policy, by benchmark and strategy."""
    provenance: dict[str, Any]
    """What was run."""


def read_inputs(root: Path, params: Params) -> Inputs:
    """Read a finished run.

    Args:
        root: Project folder.
        params: Its parameters.

    Raises:
        EnvaceError: A file is absent or malformed, or two policies met different tasks.
    """
    inputs = Inputs(
        metrics={name: _read(root, f"metrics/{name}.json", name, read_json) for name in METRICS},
        curves={name: _read(root, f"plots/{name}.csv", name, read_curve) for name in CURVES},
        quality={
            policy: _read(root, f"quality/{policy}.json", check, _record(QualityResult))
            for policy, check in zip(POLICIES, ("check", "recheck"), strict=True)
        },
        worlds={
            policy: {
                strategy: _read(
                    root,
                    f"evaluation/worlds/{policy}_{strategy}.json",
                    f"evaluate_worlds@{policy}-{strategy}",
                    _record(BenchmarkResult),
                )
                for strategy in STRATEGIES
            }
            for policy in POLICIES
        },
        benchmarks={
            name: {
                strategy: _read(
                    root,
                    f"evaluation/{name}/{strategy}/result.json",
                    f"evaluate@{name}-{strategy}",
                    _record(BenchmarkResult),
                )
                for strategy in STRATEGIES
            }
            for name in BENCHMARKS
            if name not in ON_REQUEST or (root / "evaluation" / name).is_dir()
        },
        provenance=provenance(root, params),
    )
    _require_same_tasks(inputs)
    return inputs


def _read(root: Path, file: str, stage: str, reader: Callable[[Path], T]) -> T:
    """Read one input; whatever is wrong with it names the file and the stage that writes it."""
    mend = f"run `dvc repro {stage}`"
    if not (root / file).is_file():
        raise EnvaceError(f"{file}: no such file", mend)
    try:
        return reader(root / file)
    except json.JSONDecodeError as error:
        raise EnvaceError(f"{file}:{error.lineno}: {error.msg}", mend) from error
    except (ValidationError, ValueError) as error:
        raise EnvaceError(f"{file}: {describe(error)}", mend) from error


def _record(kind: type[ModelT]) -> Callable[[Path], ModelT]:
    return lambda path: kind.model_validate_json(path.read_bytes())


def _require_same_tasks(inputs: Inputs) -> None:
    """Paired differences need the same tasks on both sides."""
    shas = {
        f"{policy}_{strategy}": result.dataset_sha
        for policy, results in inputs.worlds.items()
        for strategy, result in results.items()
    }
    first, *others = shas
    for name in others:
        if shas[name] != shas[first]:
            raise EnvaceError(
                f"evaluation/worlds/{name}.json: other held-out tasks than {first}.json",
                "run `dvc repro evaluate_worlds`",
            )
