"""split: train and dev by task, so that no task is on both sides → data/split."""

from pathlib import Path

from envace.files import atomic_folder, digest, write_json
from envace.params import Params
from envace.trajectory import Trajectory, read_trajectories, write_records
from stages.base import METRICS, run


def main(params: Params) -> None:
    """Split by a hash of the task, which stays put when other data change."""
    trajectories = read_trajectories("data/clean/trajectories.jsonl")
    dev = [t for t in trajectories if _share(t, params.seed) < params.split.dev_share]
    chosen = {t.id for t in dev}
    train = [t for t in trajectories if t.id not in chosen]
    with atomic_folder(Path("data/split")) as folder:
        write_records(folder / "train.jsonl", train)
        write_records(folder / "dev.jsonl", dev)
    write_json(METRICS / "split.json", {"train": len(train), "dev": len(dev)})


def _share(trajectory: Trajectory, seed: int) -> float:
    """A number in [0, 1) that depends on the task alone."""
    return int(digest(seed, trajectory.lineage.task_id or trajectory.id), 16) / 16**16


if __name__ == "__main__":
    run(main)
