"""What running the workflow as a Prefect flow costs over `dvc repro`.

    python -m benchmarks.flow [--rounds 3] [--real PAIRS] [--standing] [--params profile=smoke]

`flow_overhead_cached`: seconds that `python -m flows.replicate` takes longer than `dvc repro` where
nothing is left to do, by turns, in this checkout, which is first brought up to date. `--real` adds
`flow_overhead_real`: percent that a whole run takes longer, each in a clone and a DVC cache of its
own. The two runs of a pair take turns of some seconds (`benchmarks.slices`) and must write the same
`dvc.lock`. The flow starts and stops a server of its own, whose database is there already, as every flow
but the first finds it; with `--standing` (`flow_overhead_real_standing`) it reports to the server of
`make ui`, which is there with its worker while either runs. A pair of the default profile takes half an
hour at least.
"""

import argparse
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from benchmarks.slices import Run, by_turns
from envace.files import write_json
from flows.address import HOST, api

ROOT = Path(__file__).resolve().parents[1]
DVC = [sys.executable, "-m", "dvc", "repro"]
FLOW = [sys.executable, "-m", "flows.replicate"]
ENV = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": ".",
}


def main() -> None:
    """Measure, print a RESULT line each, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--real", type=int, default=0, metavar="PAIRS")
    parser.add_argument("--standing", action="store_true", help="beside the services of make ui")
    parser.add_argument("--params", nargs="*", default=[], help="what a real run changes of params.yaml")
    arguments = parser.parse_args()
    if arguments.rounds:
        seconds(DVC, ROOT)  # whatever is not up to date is made first
        pairs = [(seconds(DVC, ROOT), seconds(FLOW, ROOT)) for _ in range(arguments.rounds)]
        plain, flow = (median(times) for times in zip(*pairs, strict=True))
        report("flow_overhead_cached", flow - plain, "s", 15, dvc=plain, flow=flow)
    if arguments.real:
        pairs = [
            real_pair(arguments.params, arguments.standing, swapped=bool(pair % 2))
            for pair in range(arguments.real)
        ]
        plain, flow = (sum(times) for times in zip(*pairs, strict=True))
        name = "flow_overhead_real_standing" if arguments.standing else "flow_overhead_real"
        report(name, 100 * (flow / plain - 1), "percent", 3, dvc=plain, flow=flow)


def real_pair(changes: list[str], standing: bool, swapped: bool) -> tuple[float, float]:
    """Run the chain from nothing, by DVC and as a flow, each in a clone.

    Args:
        changes: Of params.yaml.
        standing: Beside a server that is there for both.
        swapped: The flow takes the first turn.

    Returns:
        Seconds by DVC and as a flow.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, flow = (prepared(Path(folder, name), changes) for name in ("dvc", "flow"))
        with services(flow) if standing else nullcontext({}) as address:
            runs = [Run(DVC, plain, ENV), Run(FLOW, flow, ENV | home(flow) | address)]
            by_turns(runs[::-1] if swapped else runs)
        for run in runs:
            if run.process and run.process.returncode:
                sys.exit(f"not measured: {' '.join(run.command)} failed: {run.said().strip()[-500:]}")
        locks = [hashlib.md5((clone / "dvc.lock").read_bytes()).hexdigest() for clone in (plain, flow)]
        told = [f"{run.seconds:.1f} s, dvc.lock {lock[:8]}" for run, lock in zip(runs, locks, strict=True)]
        print(f"dvc: {told[0]}\nflow: {told[1]}", flush=True)
        if locks[0] != locks[1]:
            sys.exit("not measured: the runs wrote different dvc.lock files")
        return runs[0].seconds, runs[1].seconds


def prepared(clone: Path, changes: list[str]) -> Path:
    """A clone that has never run."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    (clone / ".harness").symlink_to(ROOT / ".harness")
    if changes:
        params = [sys.executable, "-m", "envace.cli", "params", *changes]
        subprocess.run(params, cwd=clone, env=ENV, check=True)
    upgrade = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
    subprocess.run(upgrade, cwd=clone, env=ENV | home(clone), check=True, capture_output=True)
    return clone


@contextmanager
def services(clone: Path) -> Iterator[dict[str, str]]:
    """What `make ui` starts, in a clone; yields what tells a flow of it."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    command, env = [sys.executable, "-m", "flows.up", str(port)], ENV | home(clone)
    subprocess.run(command, cwd=clone, env=env, check=True, stdout=subprocess.DEVNULL)
    try:
        yield {"PREFECT_API_URL": api(port)}
    finally:
        subprocess.run([sys.executable, "-m", "flows.down"], cwd=clone, env=env, check=True)


def home(clone: Path) -> dict[str, str]:
    """Where Prefect keeps its database for a clone."""
    return {"PREFECT_HOME": str(clone / ".prefect")}


def seconds(command: list[str], folder: Path) -> float:
    """How long a command takes that must go well."""
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=ENV, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"not measured: {' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return time.perf_counter() - begun


def report(name: str, value: float, unit: str, baseline: float, **figures: float) -> None:
    """Print and keep one result."""
    told = " ".join(f"{key}_seconds={number:.4g}" for key, number in figures.items())
    print(f"RESULT name={name} value={value:.3g} unit={unit} baseline={baseline} {told}", flush=True)
    kept = {"name": name, "value": value, "unit": unit, "baseline": baseline} | figures
    write_json(Path(__file__).parent / f"{name}.json", kept)


if __name__ == "__main__":
    main()
