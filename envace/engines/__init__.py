"""Engines: where sampled tokens come from."""

from importlib import import_module
from typing import Any

from envace.engines.base import (
    BatchingEngine,
    Completion,
    Engine,
    Job,
    Listener,
    Sampled,
    Sampling,
    TrainableEngine,
)
from envace.errors import EnvaceError

__all__ = [
    "ENGINES", "BatchingEngine", "Completion", "Engine", "Job", "Listener", "Sampled", "Sampling",
    "TrainableEngine", "engine",
]  # fmt: skip

ENGINES = {
    "hf": "envace.engines.hf:HFEngine",
    "vllm": "envace.engines.vllm:VllmEngine",
}
"""Engines by name, imported on use."""


def engine(name: str, model: Any, vocabulary: int, **options: Any) -> TrainableEngine:
    """The engine of that name over a model.

    Args:
        name: Key of `ENGINES`.
        model: A transformers causal LM.
        vocabulary: Number of real token ids; ids above are never sampled.
        options: Passed to the engine.

    Raises:
        EnvaceError: when there is none, or its library is not installed.
    """
    if name not in ENGINES:
        raise EnvaceError(f"no engine {name!r}", f"choose from {', '.join(ENGINES)}")
    module, _, kind = ENGINES[name].partition(":")
    return getattr(import_module(module), kind)(model, vocabulary, **options)
