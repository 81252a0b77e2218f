"""What running the workflow as a Prefect flow costs over `dvc repro`.

    python benchmarks/flow.py [--rounds 3] [--real]

`flow_overhead_cached`: seconds that `python -m flows.replicate` takes longer than `dvc repro` where
nothing is left to do, by turns, in this checkout, which must be up to date. `--real` adds
`flow_overhead_real`: percent that a whole run of the smoke profile takes longer, each in a clone and
a DVC cache of its own, one run of each.
"""

import argparse
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
    parser.add_argument("--real", action="store_true")
    arguments = parser.parse_args()
    seconds(DVC, ROOT)  # whatever is not up to date is made first
    pairs = [(seconds(DVC, ROOT), seconds(FLOW, ROOT)) for _ in range(arguments.rounds)]
    plain, flow = (median(times) for times in zip(*pairs, strict=True))
    report("flow_overhead_cached", flow - plain, "s", 15, dvc=plain, flow=flow)
    if arguments.real:
        times = []
        for command in (DVC, FLOW):
            with tempfile.TemporaryDirectory() as folder:
                clone = Path(folder) / "clone"
                subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
                (clone / ".harness").symlink_to(ROOT / ".harness")
                params = [sys.executable, "-m", "envace.cli", "params", "profile=smoke"]
                subprocess.run(params, cwd=clone, env=ENV, check=True)
                times.append(seconds(command, clone))
        report(
            "flow_overhead_real", 100 * (times[1] / times[0] - 1), "percent", 3, dvc=times[0], flow=times[1]
        )


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
