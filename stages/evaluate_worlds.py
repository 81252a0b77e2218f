"""evaluate_worlds: a policy on the held-out tasks, executed for real → evaluation/worlds.

Usage: python -m stages.evaluate_worlds POLICY STRATEGY
"""

from pathlib import Path

from envace.files import write_json
from envace.params import Params
from envace.rehearsal.strategies import STRATEGIES
from envace.trajectory import Task, iter_records
from stages.base import METRICS, argument, run, use_torch

TASKS = Path("data/synthetic/held_out.jsonl")


def main(params: Params, policy: str, strategy: str) -> None:
    """Evaluate one policy with one rehearsal strategy."""
    from envace.benchmarks.worlds import run_worlds
    from envace.chat import load_template
    from envace.engines.hf import HFEngine
    from envace.models.build import load

    use_torch(params)
    source = Path("models") / policy
    template = load_template(source)
    engine = HFEngine(load(source, params.scale.device, params.scale.dtype), template.vocabulary)
    tasks = list(iter_records(TASKS, Task))
    result = run_worlds(
        engine, template, tasks, strategy, params.evaluate.branches, params.seed, policy, TASKS
    )
    name = f"{policy}_{strategy}"
    write_json(Path("evaluation/worlds") / f"{name}.json", result.model_dump(mode="json"))
    write_json(
        METRICS / "evaluate" / f"worlds_{name}.json",
        {group: round(value.mean, 6) for group, value in result.groups.items()},
    )


if __name__ == "__main__":
    run(lambda params: main(params, argument(1, ("warmup", "trained")), argument(2, STRATEGIES)))
