"""The leakage check: recall, precision, speed and memory.

    python -m benchmarks.leakage [--data FOLDER] [--sizes 10000,30000,100000] [--part quality|speed|all]

`leakage_recall`: items of every set, in English and Chinese, planted in each of five disguises; the lowest
recall of the first four. `leakage_precision`: planted leaks among 20,000 clean trajectories, true alarms
over alarms. `leakage_seconds_100k`: a file of 100,000 trajectories against all sets, from the first byte to
the last, with the peak memory of the process and the time at each size. `leakage_vs_datasketch`: how many
times faster than a plain pipeline, MinHashLSH of datasketch and n-grams in Python, at equal recall.
"""

import argparse
import contextlib
import json
import multiprocessing
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from benchmarks.leakage_data import DISGUISES, clean, evaluation_sets, planted, real_sentences
from envace.leakage import EvalItem, LeakageFiles, check, check_files
from envace.leakage.text import words
from envace.trajectory import Trajectory, write_records

CLEAN = 20_000
SAMPLE = 3000
"""Trajectories the plain pipeline is timed on; it takes the same for each."""
WORKERS = 2
GOALS = {"leakage_recall": 0.98, "leakage_precision": 0.99, "leakage_seconds_100k": 60.0,
         "leakage_vs_datasketch": 10.0}  # fmt: skip
UNITS = {"leakage_seconds_100k": "s", "leakage_vs_datasketch": "x"}


def main() -> None:
    """Measure, print, and write `benchmarks/leakage.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of published items")
    parser.add_argument("--sizes", default="10000,30000,100000", help="trajectories to time")
    parser.add_argument("--part", choices=("quality", "speed", "all"), default="all")
    arguments = parser.parse_args()
    sets = evaluation_sets(arguments.data)
    print(f"items: {', '.join(f'{name} {len(items)}' for name, items in sets.items())}", flush=True)
    figures: dict[str, float] = {}
    if arguments.part != "speed":
        figures |= quality(sets, real_sentences(arguments.data))
    if arguments.part != "quality":
        figures |= speed(sets, [int(size) for size in arguments.sizes.split(",")])
    file = Path("benchmarks/leakage.json")
    former = json.loads(file.read_text("utf-8")) if file.is_file() else []
    rows = {row["name"]: row for row in former} | {
        name: {"name": name, "value": value, "baseline": GOALS[name], "unit": UNITS.get(name, "share")}
        for name, value in figures.items()
    }
    file.write_text(json.dumps(list(rows.values())) + "\n", encoding="utf-8")
    for name, value in figures.items():
        unit = UNITS.get(name, "share")
        print(f"RESULT name={name} value={value:.4g} unit={unit} baseline={GOALS[name]:g}")


def quality(sets: dict[str, list[EvalItem]], real: Sequence[str]) -> dict[str, float]:
    """Recall of each disguise in each set, and precision among clean trajectories with real sentences."""
    lowest = 1.0
    everything = [item for items in sets.values() for item in items]
    leaks: list[Trajectory] = []
    for disguise in DISGUISES:
        shares = {}
        for name, items in sets.items():
            hidden = planted(items, disguise)
            shares[name] = recall(hidden, items)
            leaks += hidden
        print(f"recall, {disguise}: {', '.join(f'{n} {s:.3f}' for n, s in shares.items())}", flush=True)
        if disguise != "names swapped":
            lowest = min(lowest, *shares.values())
    _, alarms = check([*clean(CLEAN, real=real), *leaks], everything)
    false = sum(alarm is not None for alarm in alarms[:CLEAN])
    true = sum(alarm is not None for alarm in alarms[CLEAN:])
    print(f"{false} false alarms in {CLEAN} clean trajectories, {true} true ones in {len(leaks)} leaks")
    return {"leakage_recall": lowest, "leakage_precision": true / (true + false)}


def recall(hidden: Sequence[Trajectory], items: Sequence[EvalItem]) -> float:
    """Share of planted items found: the trajectory of an item leaks, and the item is among the matches."""
    result, alarms = check(hidden, items)
    found = {match.item_id for match in result.matches if match.kind == "leak"}
    return sum(t.id in found and alarm is not None for t, alarm in zip(hidden, alarms, strict=True)) / len(
        hidden
    )


def speed(sets: dict[str, list[EvalItem]], sizes: Sequence[int]) -> dict[str, float]:
    """Seconds and peak memory at each size, and the plain pipeline on a sample."""
    items = [item for found in sets.values() for item in found]
    hidden = planted(random.Random(0).sample(items, 100), "embedded")
    with tempfile.TemporaryDirectory() as folder:
        seconds = {}
        for size in sizes:
            file = Path(folder, f"{size}.jsonl")
            write_records(file, chain(clean(size - len(hidden), seed=1), hidden))
            seconds[size], memory, _ = apart(check_file, file, items)
            each = 1e6 * seconds[size] / size
            print(
                f"{size} trajectories, {file.stat().st_size / 1e6:.0f} MB: {seconds[size]:.1f} s, "
                f"{each:.0f} µs each, peak memory {memory:.0f} MB",
                flush=True,
            )
        sample = Path(folder, "sample.jsonl")
        write_records(sample, chain(clean(SAMPLE - len(hidden), seed=1), hidden))
        *_, our_leaks = apart(check_file, sample, items)
        theirs, memory, their_leaks = apart(plain_file, sample, items)
        idle, _, _ = apart(plain_file, Path(folder, "none"), items)
    planted_ids = {trajectory.id for trajectory in hidden}
    print(f"plain pipeline: {1e6 * (theirs - idle) / SAMPLE:.0f} µs each, indexing {idle:.1f} s, peak memory "
          f"{memory:.0f} MB; planted leaks found: {len(their_leaks & planted_ids)} and by us "
          f"{len(our_leaks & planted_ids)} of {len(hidden)}")  # fmt: skip
    largest = max(sizes)
    per_line = (theirs - idle) / SAMPLE
    return {
        "leakage_seconds_100k": seconds[largest] * 100_000 / largest,
        "leakage_vs_datasketch": (idle + per_line * largest) / seconds[largest],
    }


def apart(work: Any, *arguments: Any) -> tuple[float, float, set[str]]:
    """Run in a process of its own: seconds, peak memory in MB with its workers, ids of what leaks."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, work, *arguments).result()


def _measured(work: Any, file: Path, items: Sequence[EvalItem]) -> tuple[float, float, set[str]]:
    peaks: dict[int, int] = {}
    begun, over = time.perf_counter(), threading.Event()
    watch = threading.Thread(target=_watch, args=(peaks, over))
    watch.start()
    leaking = work(file, items)
    seconds = time.perf_counter() - begun
    over.set()
    watch.join()
    return seconds, sum(peaks.values()) / 1024, leaking


def _watch(peaks: dict[int, int], over: threading.Event) -> None:
    """Note the peak memory in KiB of this process and of its workers, by process id, until it is over."""
    this, last = psutil.Process(), False
    while not last:
        last = over.wait(0.1)
        for process in (this, *this.children(recursive=True)):
            # `ru_maxrss` would start from the memory of the process that started this one.
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{process.pid}/status").read_text("utf-8").splitlines()
                peak = next(line for line in lines if line.startswith("VmHWM:"))
                peaks[process.pid] = int(peak.split()[1])


def check_file(file: Path, items: Sequence[EvalItem]) -> set[str]:
    """The check as the command line runs it."""
    out = file.with_name(f"{file.stem}_out")
    file.touch()
    names = ("clean.jsonl", "quarantine.jsonl", "matches.jsonl", "metrics.json")
    files = LeakageFiles(*(out / name for name in names))
    check_files(file, items, files, "remove", workers=WORKERS)
    lines = files.quarantine.read_text("utf-8").splitlines()
    return {json.loads(json.loads(line)["record"])["id"] for line in lines}


def plain_file(file: Path, items: Sequence[EvalItem]) -> set[str]:
    """What a script would do: datasketch as its documentation shows, and dictionaries of n-grams.

    It does the 8-gram rule, the 13-gram report and near duplicates; no calls, no schemas, no matches.
    """
    from datasketch import MinHash, MinHashLSH

    def sketch(tokens: Sequence[str]) -> tuple[Any, set[str]]:
        shingles = {" ".join(tokens[at : at + 5]) for at in range(max(1, len(tokens) - 4))}
        minhash = MinHash(num_perm=128)
        for shingle in shingles:
            minhash.update(shingle.encode())
        return minhash, shingles

    file.touch()
    texts = [words(item.text) for item in items]
    lsh, sets = MinHashLSH(threshold=0.8, num_perm=128), []
    grams: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    longer: set[tuple[str, ...]] = set()
    hints = 0
    for number, tokens in enumerate(texts):
        minhash, shingles = sketch(tokens)
        lsh.insert(number, minhash)
        sets.append(shingles)
        for at in range(len(tokens) - 7):
            grams[tuple(tokens[at : at + 8])].append((number, at))
        longer.update(tuple(tokens[at : at + 13]) for at in range(len(tokens) - 12))
    whole = {" ".join(tokens) for tokens in texts if len(tokens) < 8}
    leaking = set()
    for line in file.open(encoding="utf-8"):
        record = json.loads(line)
        turns = [message["content"] for message in record["messages"] if message["role"] == "user"]
        tokens = words("\n".join(turns))
        minhash, shingles = sketch(tokens)
        near = any(len(sets[n] & shingles) / len(sets[n] | shingles) >= 0.8 for n in lsh.query(minhash))
        if near or " ".join(tokens) in whole or _covered(tokens, grams, texts):
            leaking.add(record["id"])
        hints += any(tuple(tokens[at : at + 13]) in longer for at in range(len(tokens) - 12))
    return leaking


def _covered(tokens: Sequence[str], grams: Any, texts: Sequence[Sequence[str]]) -> bool:
    marked: dict[int, Counter[int]] = defaultdict(Counter)
    for at in range(len(tokens) - 7):
        places: Iterable[tuple[int, int]] = grams.get(tuple(tokens[at : at + 8]), ())
        for number, start in places:
            marked[number].update(range(start, start + 8))
    return any(len(found) > 0.5 * len(texts[number]) for number, found in marked.items())


if __name__ == "__main__":
    main()
