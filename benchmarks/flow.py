"""What running the workflow as a Prefect flow costs over `dvc repro`.

    python benchmarks/flow.py [--rounds 3] [--real PAIRS] [--params profile=smoke]

`flow_overhead_cached`: seconds that `python -m flows.replicate` takes longer than `dvc repro` where
nothing is left to do, by turns, in this checkout, which is first brought up to date. `--real` adds
`flow_overhead_real`: percent that a whole run takes longer, each in a clone and a DVC cache of its
own, by turns; both must write the same `dvc.lock`. Prefect's database is there already, as every flow but
the first finds it. The default profile takes a quarter of an hour a run.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from envace.files import write_json

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
    parser.add_argument("--params", nargs="*", default=[], help="what a real run changes of params.yaml")
    arguments = parser.parse_args()
    seconds(DVC, ROOT)  # whatever is not up to date is made first
    pairs = [(seconds(DVC, ROOT), seconds(FLOW, ROOT)) for _ in range(arguments.rounds)]
    plain, flow = (median(times) for times in zip(*pairs, strict=True))
    report("flow_overhead_cached", flow - plain, "s", 15, dvc=plain, flow=flow)
    times: dict[str, list[float]] = {"dvc": [], "flow": []}
    locks = set()
    for pair in range(arguments.real):
        # What warms up or slows down the machine over time meets both alike.
        for name in ("dvc", "flow") if pair % 2 == 0 else ("flow", "dvc"):
            took, lock = whole_run(DVC if name == "dvc" else FLOW, arguments.params)
            times[name].append(took)
            locks.add(lock)
            print(f"{name}: {took:.1f} s, dvc.lock {hashlib.md5(lock).hexdigest()[:8]}", flush=True)
    if arguments.real:
        if len(locks) > 1:
            sys.exit("not measured: the runs wrote different dvc.lock files")
        plain, flow = sum(times["dvc"]), sum(times["flow"])
        report("flow_overhead_real", 100 * (flow / plain - 1), "percent", 3, dvc=plain, flow=flow)


def whole_run(command: list[str], changes: list[str]) -> tuple[float, bytes]:
    """Run the chain from nothing in a clone.

    Returns:
        How long it took, and the lock that it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        (clone / ".harness").symlink_to(ROOT / ".harness")
        if changes:
            params = [sys.executable, "-m", "envace.cli", "params", *changes]
            subprocess.run(params, cwd=clone, env=ENV, check=True)
        home = {"PREFECT_HOME": str(clone / ".prefect")}
        upgrade = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
        subprocess.run(upgrade, cwd=clone, env=ENV | home, check=True, capture_output=True)
        return seconds(command, clone), (clone / "dvc.lock").read_bytes()


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
