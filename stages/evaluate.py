"""evaluate: the trained policy, served on loopback, through an official harness → evaluation/.

Usage: python -m stages.evaluate BENCHMARK STRATEGY
"""

from pathlib import Path
from typing import Any

import envace
from envace.benchmarks import BENCHMARKS, benchmark
from envace.files import digest, write_json
from envace.params import Params
from envace.rehearsal.strategies import STRATEGIES
from stages.base import METRICS, argument, run, use_torch


def served_policy(params: Params) -> str:
    """Digest of all that decides an answer; with it, a killed evaluation goes on where it was."""
    sources = sorted(Path(envace.__file__).parent.rglob("*.py"))
    p = params.evaluate
    return digest(Path("models/trained"), p.branches, p.served_tokens, params.scale.model_dump(), *sources)


def main(params: Params, name: str, strategy: str) -> None:
    """Serve the policy and let the harness ask it."""
    from envace.serve.policy_backend import load_backend
    from envace.serve.runner import served

    use_torch(params)
    p = params.evaluate
    backend = load_backend("models/trained", p.branches, p.served_tokens, strategies=(strategy,))
    limit = {"bfcl_v4": p.bfcl_limit, "tau2": p.tau2_limit}.get(name, 0)
    options: dict[str, dict[str, Any]] = {
        "bfcl_v4": {"categories": p.bfcl_categories},
        "tau2": {"domains": p.tau2_domains, "split": p.tau2_split, "user": p.user},
        "vitabench": {"user": "" if p.user == "scripted" else p.user, "judge": p.judge},
    }
    with served(backend) as base_url:
        result = benchmark(name, **options.get(name, {})).run(
            base_url,
            limit,
            params.seed,
            Path("evaluation") / name / strategy,
            strategy,
            served_policy(params),
            p.trials,
        )
    write_json(
        METRICS / "evaluate" / f"{name}_{strategy}.json",
        {
            group: {"mean": round(value.mean, 6), "floor": round(value.floor, 6), "n": value.n}
            for group, value in result.groups.items()
        }
        | {"measures": {measure: round(value, 6) for measure, value in result.measures.items()}},
    )


if __name__ == "__main__":
    run(lambda params: main(params, argument(1, BENCHMARKS), argument(2, STRATEGIES)))
