"""Resume points: everything a run needs to go on as if it had never stopped.

All randomness of a step is derived from (seed, step), so a checkpoint holds no generator
state: weights, optimizer and the number of finished steps are enough.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from envace.files import digest

log = logging.getLogger(__name__)

SCRATCH = Path(".scratch")
"""Ignored by git and DVC: a changed parameter must start afresh, not resume the old run."""


class Stateful(Protocol):
    """An optimizer or learner, as far as checkpoints are concerned."""

    def state_dict(self) -> dict[str, Any]:
        """State to save."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore saved state."""
        ...


class Checkpoint:
    """A resume point keyed by the parameters and inputs of a run."""

    def __init__(self, stage: str, *key: Any) -> None:
        """Name the resume point.

        Args:
            stage: Name of the stage.
            key: Parameters (JSON-serializable) and input files or folders (`Path`): a run
                with another key never resumes this one.
        """
        self.path = SCRATCH / f"{stage}-{digest(*key)}.pt"

    def load(self, model: torch.nn.Module, parts: Mapping[str, Stateful]) -> tuple[int, dict[str, Any]]:
        """Restore the latest state; returns finished steps and the extra values, (0, {}) if none.

        Args:
            model: Gets the saved weights.
            parts: Optimizers and the like by name; each gets its saved state.
        """
        if not self.path.is_file():
            return 0, {}
        state = torch.load(self.path, weights_only=True)
        model.load_state_dict(state["model"])
        for name, part in parts.items():
            part.load_state_dict(state["parts"][name])
        log.info("resuming at step %d from %s", state["step"], self.path)
        return state["step"], state["extra"]

    def save(
        self, model: torch.nn.Module, parts: Mapping[str, Stateful], step: int, extra: dict[str, Any]
    ) -> None:
        """Write the state atomically."""
        self.path.parent.mkdir(exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({"model": model.state_dict(), "parts": states, "step": step, "extra": extra}, temporary)
        temporary.replace(self.path)

    def discard(self) -> None:
        """Remove the resume point once the output is in place."""
        self.path.unlink(missing_ok=True)
