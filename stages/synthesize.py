"""synthesize: trajectories from the executable worlds, and held-out tasks → data/synthetic."""

from collections import Counter
from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.params import Params
from envace.synthesis.worlds import Mixture, held_out_tasks, synthesize
from envace.trajectory import write_records
from stages.base import METRICS, run


def main(params: Params) -> None:
    """Write trajectories and evaluation tasks."""
    p = params.synthesize
    mixture = Mixture(
        p.demonstrations, p.drills, p.memories, p.commits, p.wrong_call_rate, p.noted_rate, p.format_only
    )
    trajectories = list(synthesize(mixture, params.seed))
    tasks = held_out_tasks(p.held_out_per_template, p.held_out_commits, params.seed)
    with atomic_folder(Path("data/synthetic")) as folder:
        write_records(folder / "trajectories.jsonl", trajectories)
        write_records(folder / "held_out.jsonl", tasks)
    kinds = Counter(f"{t.world}_{t.source}" for t in trajectories)
    write_json(
        METRICS / "synthesize.json",
        {
            "trajectories": len(trajectories),
            "held_out_tasks": len(tasks),
            "kinds": dict(sorted(kinds.items())),
        },
    )


if __name__ == "__main__":
    run(main)
