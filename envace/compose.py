"""Compose `params.yaml` from the Hydra groups in `conf/`."""

from collections.abc import Sequence
from pathlib import Path

from envace.errors import EnvaceError
from envace.files import atomic_text
from envace.params import load_params


def compose(overrides: Sequence[str] = (), folder: Path | str = "conf") -> str:
    """The composed parameters as YAML.

    Args:
        overrides: Hydra overrides, e.g. `profile=smoke` or `train.rate=5e-4`.
        folder: Folder of the groups.

    Raises:
        EnvaceError: A group, option or key does not exist.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not Path(folder).is_dir():
        raise EnvaceError(f"{folder}: no such folder", "run in the project folder")
    try:
        with hydra.initialize_config_dir(str(Path(folder).resolve()), version_base="1.3"):
            return OmegaConf.to_yaml(hydra.compose("config", overrides=list(overrides)), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise EnvaceError(str(error).splitlines()[0], "see the groups in conf/") from error


def write_params(overrides: Sequence[str], path: Path | str = "params.yaml") -> None:
    """Compose and write `params.yaml`; an invalid composition leaves the old file in place."""
    text = compose(overrides)
    candidate = Path(path).with_suffix(".candidate.yaml")
    with atomic_text(candidate) as handle:
        handle.write("# Composed from conf/ by `envace params`; change it there.\n" + text)
    try:
        load_params(candidate)
        candidate.replace(path)
    finally:
        candidate.unlink(missing_ok=True)
