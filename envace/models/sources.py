"""Where the base policy comes from: one function a source, chosen by `model.source`."""

from pathlib import Path
from typing import Any, Protocol

from envace.models.build import scratch
from envace.models.hub import hub
from envace.models.revision import revision
from envace.models.wheel import wheel


class Source(Protocol):
    """Writes a base policy."""

    def __call__(self, params: Any, seed: int, folder: Path) -> dict[str, Any]:
        """Write a complete model folder: weights, configuration, tokenizer.

        Args:
            params: The source's own section of the parameters.
            seed: Seed of whatever is random.
            folder: An empty folder.

        Returns:
            What is worth knowing of the model: the number of its parameters, of its token ids.
        """
        ...


SOURCES: dict[str, Source] = {"scratch": scratch, "wheel": wheel, "hub": hub, "revision": revision}
"""A new source is one line here and one section in `envace.params`."""
