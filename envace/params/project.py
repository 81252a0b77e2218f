"""Parameters of the workflow: `params.yaml`, validated, one model a section.

`params.yaml` is composed from the Hydra groups in `conf/`; stages read it, never `conf/`.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from envace.errors import EnvaceError
from envace.params.data import ChatParams, FilterParams, LeakageParams, SplitParams, SynthesizeParams
from envace.params.learning import EvaluateParams, GateParams, TrainParams, WarmupParams
from envace.params.model import ModelParams, ScaleParams
from envace.params.section import Section
from envace.trajectory.jsonl import describe

FORBIDDEN = ("size", "nfiles")
"""DVC leaves parameters of these names out of the run-cache key (iterative/dvc#10296): a
changed value would silently check out the old output."""


class Params(Section):
    """All of `params.yaml`."""

    profile: str
    """Name of the profile it was composed from."""
    seed: int = Field(ge=0)
    """Seed of everything."""
    worlds: tuple[str, ...] = Field(min_length=1)
    """Executable worlds of synthesis, training and evaluation, see `envace.worlds.WORLDS`."""
    threads: int = Field(ge=1)
    """Torch threads; part of the result, because summation order is."""
    model: ModelParams
    scale: ScaleParams
    chat: ChatParams
    synthesize: SynthesizeParams
    filter: FilterParams
    leakage: LeakageParams
    split: SplitParams
    warmup: WarmupParams
    gate: GateParams
    train: TrainParams
    evaluate: EvaluateParams


def forbidden_names(value: Any, path: str = "") -> list[str]:
    """Dotted paths of parameters whose name DVC mishandles, at any depth."""
    if isinstance(value, list):
        return [p for i, item in enumerate(value) for p in forbidden_names(item, f"{path}[{i}]")]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        found += [where] if key in FORBIDDEN else []
        found += forbidden_names(item, where)
    return found


def load_params(path: Path | str = "params.yaml") -> Params:
    """Read and validate `params.yaml`.

    Raises:
        EnvaceError: The file is absent or invalid, or names a parameter that DVC mishandles.
    """
    path = Path(path)
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "run in the project folder")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise EnvaceError(
            f"{path}: not readable as YAML: {reason}", "mend it, or run `envace params`"
        ) from error
    found = forbidden_names(values)
    if found:
        raise EnvaceError(
            f"{path}: parameter {found[0]!r} has a name that DVC leaves out of its cache key", "rename it"
        )
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        # Pydantic puts the chosen source into the path, where the file has no such level.
        where = re.sub(r"^model\.(scratch|wheel|hub|revision)\.", "model.", describe(error))
        raise EnvaceError(f"{path}: {where}", "see envace/params/ for every parameter") from error
