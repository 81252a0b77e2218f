"""Benchmarks in their own environments, unmodified, against an OpenAI-compatible server."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from envace.errors import EnvaceError

if TYPE_CHECKING:
    from envace.benchmarks.base import Benchmark

BENCHMARKS = {
    "bfcl_v4": "envace.benchmarks.bfcl:Bfcl",
    "tau2": "envace.benchmarks.tau2:Tau2",
}
"""Adapters by name, imported on use."""


def benchmark(name: str, root: Path | None = None) -> "Benchmark":
    """The benchmark of that name; `root` is the folder of all harnesses.

    Raises:
        EnvaceError: when there is none.
    """
    if name not in BENCHMARKS:
        raise EnvaceError(f"no benchmark {name!r}", f"choose from {', '.join(BENCHMARKS)}")
    module, _, adapter = BENCHMARKS[name].partition(":")
    return getattr(import_module(module), adapter)(root)


def check(harness: str, root: Path | None = None) -> dict[str, dict[str, float]]:
    """Scores of the gold answers of every benchmark in a harness, by benchmark and group; all must be 1."""
    adapters = [benchmark(name, root) for name in BENCHMARKS]
    return {adapter.name: adapter.check() for adapter in adapters if adapter.harness == harness}
