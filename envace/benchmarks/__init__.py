"""Benchmarks in their own environments, unmodified, against an OpenAI-compatible server."""

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.errors import EnvaceError
from envace.options import with_options

if TYPE_CHECKING:
    from envace.benchmarks.base import Benchmark

BENCHMARKS = {
    "bfcl_v4": "envace.benchmarks.bfcl:Bfcl",
    "tau2": "envace.benchmarks.tau2:Tau2",
    "finmcp": "envace.benchmarks.finmcp:Finmcp",
    "vitabench": "envace.benchmarks.vitabench:Vitabench",
}
"""Adapters by name, imported on use."""

ON_REQUEST = ("finmcp", "vitabench")
"""Benchmarks that need a copy or a judge of the user's: the default run leaves them out."""


def benchmark(name: str, root: Path | None = None, **options: Any) -> "Benchmark":
    """The benchmark of that name.

    Args:
        name: Name in `BENCHMARKS`.
        root: Folder of all harnesses; None for the default.
        options: What of it is measured; see the adapter.

    Raises:
        EnvaceError: There is none, or it has no such option.
    """
    if name not in BENCHMARKS:
        raise EnvaceError(f"no benchmark {name!r}", f"choose from {', '.join(BENCHMARKS)}")
    module, _, adapter = BENCHMARKS[name].partition(":")
    return with_options(name, partial(getattr(import_module(module), adapter), root), options)


def check(harness: str, root: Path | None = None) -> dict[str, dict[str, dict[str, float]]]:
    """`Benchmark.check` of every benchmark in a harness, by its name."""
    adapters = [benchmark(name, root) for name in BENCHMARKS]
    return {adapter.name: adapter.check() for adapter in adapters if adapter.harness == harness}
