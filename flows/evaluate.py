"""`python -m flows.evaluate ADDRESS`: measure a served endpoint; an event and a word when it got worse."""

import re
import sys
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.states import Completed, Failed

from envace.benchmarks import BENCHMARKS, benchmark
from envace.benchmarks.base import ALL
from envace.errors import EnvaceError
from flows.artifacts import publish_table
from flows.notify import notify
from flows.regression import compared, keep_good, last_good
from flows.terminal import run

OUT = Path("served")
"""Results by endpoint and benchmark; git and DVC ignore it."""
EVENT = "envace.regression"
"""Event for automations to act on."""


@task(cache_policy=NO_CACHE, persist_result=False)
def measure(name: str, address: str, limit: int, seed: int, confidence: float) -> dict[str, Any]:
    """Run one benchmark, compare it with the last good result, and keep it as that unless it is worse.

    Returns:
        A row for the table.
    """
    folder = OUT / re.sub(r"\W+", "_", address) / name
    now = benchmark(name).run(address, limit, seed, folder / "last")
    change = compared(last_good(folder), now, confidence)
    if not change.regressed:
        keep_good(folder, now)
    return {
        "benchmark": name,
        "model": now.model,
        "success": now.groups[ALL].mean,
        "errors": now.groups[ALL].errors,
        **change.model_dump(),
        "regressed": change.regressed,
    }


@flow(name="evaluate")
def evaluate(
    address: str,
    benchmarks: list[str] | None = None,
    limit: int = 10,
    seed: int = 1,
    confidence: float = 0.95,
) -> State:
    """Measure the endpoint at `address`.

    Args:
        address: OpenAI-compatible, ending in `/v1`; its key is in `ENVACE_API_KEY`.
        benchmarks: Names in `envace.benchmarks`; all when None.
        limit: Tasks a category; 0 for all.
        seed: Of the sample and every request.
        confidence: Of the interval whose upper end is below 0 where a benchmark got worse.

    Returns:
        Completed, as `Regressed` when a benchmark got worse; Failed when one cannot be run.
    """
    rows = []
    for name in benchmarks or BENCHMARKS:
        run_name = measure.with_options(name=name, task_run_name=name)
        try:
            rows.append(run_name(name, address.rstrip("/"), limit, seed, confidence))
        except EnvaceError as error:
            return Failed(message=f"{name}: {error}")
    publish_table("served", rows, f"Benchmarks of {address}")
    worse = [row for row in rows if row["regressed"]]
    for row in worse:
        emit_event(
            EVENT,
            resource={"prefect.resource.id": f"envace.endpoint.{address}", "prefect.resource.name": address},
            payload=row,
        )
    if worse:
        names = ", ".join(f"{row['benchmark']} {row['change']:+.1%}" for row in worse)
        notify(f"{address} got worse: {names}", worse, get_run_logger())
    said = ", ".join(f"{row['benchmark']} {row['success']:.1%} ({row['change']:+.1%})" for row in rows)
    return Completed(name="Regressed" if worse else "Completed", message=said)


if __name__ == "__main__":
    sys.exit(run(evaluate, address=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/v1"))
