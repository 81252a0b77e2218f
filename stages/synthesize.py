"""synthesize: trajectories of the worlds and other sources, held-out tasks, dev tasks → data/synthetic."""

from collections import Counter
from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.params import Params
from envace.synthesis.sources import Share, mixed_in
from envace.synthesis.worlds import Mixture, held_out_tasks, synthesize
from envace.trajectory import write_records
from stages.base import METRICS, run

DEV = 4000
"""Seeds of the dev tasks, on which recipes are chosen, are this far from those of the report's tasks."""

SCRATCH = Path(".scratch/synthesize")
"""Answers that were paid for: a killed stage goes on from them."""


def main(params: Params) -> None:
    """Write trajectories and evaluation tasks."""
    p = params.synthesize
    mixture = Mixture(
        demonstrations=p.demonstrations,
        glimpses=p.glimpses,
        drills=p.drills,
        memories=p.memories,
        commits=p.commits,
        wrong_call_rate=p.wrong_call_rate,
        broken_rate=p.broken_rate,
        noted_rate=p.noted_rate,
        format_only=p.format_only,
        worlds=params.worlds,
    )
    shares: dict[str, Share] = {}
    trajectories = list(synthesize(mixture, params.seed))
    trajectories += mixed_in(p.sources, len(trajectories), params.seed, SCRATCH, shares)
    counts = p.held_out_per_template, p.held_out_commits
    evaluated = (*params.worlds, *p.held_out_worlds)
    tasks, dev = (held_out_tasks(*counts, seed, evaluated) for seed in (params.seed, params.seed + DEV))
    with atomic_folder(Path("data/synthetic")) as folder:
        write_records(folder / "trajectories.jsonl", trajectories)
        write_records(folder / "held_out.jsonl", tasks)
        write_records(folder / "dev_tasks.jsonl", dev)
        for name, share in shares.items():
            write_records(folder / f"quarantine_{name}.jsonl", share.quarantined)
    kinds = Counter(f"{t.world}_{t.source}" for t in trajectories)
    metrics = {
        "trajectories": len(trajectories),
        "held_out_tasks": len(tasks),
        "dev_tasks": len(dev),
        "kinds": dict(sorted(kinds.items())),
    }
    sources = {name: share.metrics() for name, share in shares.items()}
    write_json(METRICS / "synthesize.json", metrics | ({"sources": sources} if sources else {}))


if __name__ == "__main__":
    run(main)
