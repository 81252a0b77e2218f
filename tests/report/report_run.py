"""A finished run in miniature, written by hand: what the other stages leave behind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from envace.benchmarks.base import BenchmarkResult, TaskResult, summarize
from envace.files import write_json
from envace.quality.check import Agreement, QualityResult, Share
from envace.report.curves import write_curve

PARAMS = (Path(__file__).parents[2] / "params.yaml").read_text(encoding="utf-8")
"""Read once: all runs of a test session have the same parameters."""

Outcomes = Mapping[str, Sequence[int | None]]
"""Success by category."""

CHAINED = {
    "warmup": {
        "store.price": [0, 1],
        "stays.cheapest": [0, 0],
        "store.stock": [1, 0],
        "store.order_all_cancel": [0, 0],
    },
    "trained": {
        "store.price": [1, 1],
        "stays.cheapest": [1, 0],
        "store.stock": [0, 1],
        "store.order_all_cancel": [1, 0],
    },
}
COURIER = {
    "warmup_none": {"courier.ship": [0, 0, 1, 0]},
    "warmup_parallel": {
        "courier.ship": [0, 1, 0, 0],
        "courier.ship/rule": [0, 1, 0, 0],
        "courier.ship/oracle": [1, 1, 1, 0],
        "courier.ship/wrong": [0, 0, 0, 1],
    },
    "trained_none": {"courier.ship": [0, 1, 0, 0]},
    "trained_parallel": {
        "courier.ship": [1, 1, 1, 1],
        "courier.ship/rule": [1, 1, 1, 0],
        "courier.ship/oracle": [1, 1, 1, 1],
        "courier.ship/wrong": [0, 0, 1, 0],
    },
}
WORLDS = {
    f"{policy}_{strategy}": {**CHAINED[policy], **COURIER[f"{policy}_{strategy}"]}
    for policy in ("warmup", "trained")
    for strategy in ("none", "parallel")
}
METRICS = {
    "model": {"parameters": 853376, "vocabulary": 484, "copy": 0.94},
    "synthesize": {
        "trajectories": 100,
        "held_out_tasks": 12,
        "kinds": {"store_drill": 60, "courier_commit": 40},
    },
    "filter": {
        "read": 100,
        "kept": 98,
        "quarantined": 2,
        "loss": 0.02,
        "rules": {
            "roles": {"entered": 100, "refused": 0, "examples": []},
            "length": {
                "entered": 100,
                "refused": 2,
                "examples": [{"where": "data/a.jsonl:7", "reason": "41 messages, limit 40"}],
            },
        },
    },
    "leakage": {
        "clean": 95,
        "removed": 3,
        "leaking": 3,
        "table": [
            {
                "benchmark": "bfcl_v4",
                "items": 200,
                "matched": {"exact": 0, "schema": 9},
                "leaked": 5,
                "contaminated": True,
            }
        ],
        "notes": ["not checked: paraphrases and translations"],
    },
    "split": {"train": 90, "dev": 5},
    "warmup": {"dev": {"act_loss": 0.05, "environment_loss": 0.2}, "steps": 2},
    "train": {
        "steps": 3,
        "success_first": 0.25,
        "success_last": 0.5,
        "agreement_first": 0.5,
        "agreement_last": 0.75,
        "rule_success_first": 0.25,
        "rule_success_last": 0.75,
        "real_calls_per_rollout": 1.5,
        "informative": 0.5,
        "collusion_alarms": 0,
        "alarms": {},
    },
}
WARMUP = [{"step": s, "act_loss": 2.0 / s, "environment_loss": 3.0 / s} for s in (1.0, 2.0)]
TRAIN = [
    {"step": s, "success": s / 4, "agreement": 0.5, "rule_success": 0.25}
    | {"success_store": 0.5, "agreement_store": 0.5, "success_courier": s / 4, "agreement_courier": s / 4}
    for s in (1.0, 2.0, 3.0)
]


def tasks(outcomes: Outcomes, tokens: int = 0) -> list[TaskResult]:
    """One result an outcome; ids as the worlds give them, with the witness behind the task."""
    rows = []
    for category, values in outcomes.items():
        name, _, witness = category.partition("/")
        for index, success in enumerate(values):
            rows.append(
                TaskResult(
                    id=f"{name}/{index}" + (f"/{witness}" if witness else ""),
                    category=category,
                    success=success,
                    act_tokens=10 + index,
                    rehearsal_tokens=0 if witness else tokens * (1 + index % 2),
                    steps=1 + (name != "courier.ship"),
                )
            )
    return rows


def result(rows: Sequence[TaskResult], floors: Mapping[str, int] | None = None, **changes: object) -> dict:
    """A benchmark's result as its stage writes it."""
    values = {
        "benchmark": "worlds",
        "model": "trained",
        "strategy": "none",
        "protocol": "Held-out names.",
        "official": False,
        "harness": "envace.worlds",
        "dataset_sha": "0123",
        "seed": 1,
        "groups": summarize(rows, floors or {row.id: 0 for row in rows}, 1),
        "tasks": tuple(rows),
    }
    return BenchmarkResult.model_validate(values | changes).model_dump(mode="json")


def quality(policy: str, share: float, courier: float) -> dict:
    """A quality check; its one failure is the trained policy's."""
    return QualityResult(
        policy=policy,
        rows=20,
        passed=policy == "warmup",
        evaluated=30,
        expected=30,
        failures=() if policy == "warmup" else ("store.order: agreement 0.40, required 0.60",),
        agreement=Agreement(
            overall=Share(share=share, n=8),
            errors=Share(share=None, n=0),
            worlds={"store": Share(share=share, n=8), "courier": Share(share=courier, n=4)},
            tools={"store.order": Share(share=share, n=8)},
        ),
        first_calls={"courier": Share(share=0.75, n=4)},
        docs=f"quality/{policy}_docs/index.html",
    ).model_dump(mode="json")


def write_run(root: Path, worlds: Mapping[str, Outcomes] = WORLDS) -> Path:
    """Write the whole run; returns its folder."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(PARAMS, encoding="utf-8")
    for name, value in METRICS.items():
        write_json(root / f"metrics/{name}.json", value)
    write_curve(root / "plots/warmup.csv", WARMUP)
    write_curve(root / "plots/train.csv", TRAIN)
    write_json(root / "quality/warmup.json", quality("warmup", 0.5, 0.25))
    write_json(root / "quality/trained.json", quality("trained", 0.75, 1.0))
    for name, outcomes in worlds.items():
        rows = tasks(outcomes, tokens=20 if name.endswith("parallel") else 0)
        write_json(root / f"evaluation/worlds/{name}.json", result(rows))
    for strategy in ("none", "parallel"):
        rows = tasks({"simple_python": [1, 0, 1, 1], "irrelevance": [1, 1]})
        floors = {row.id: int(row.category == "irrelevance") for row in rows}
        bfcl = result(
            rows, floors, benchmark="bfcl_v4", strategy=strategy, protocol="BFCL v4, a sample of 4."
        )
        write_json(root / f"evaluation/bfcl_v4/{strategy}/result.json", bfcl)
        mock = result(tasks({"mock": [0, 0, None]}), benchmark="tau2", strategy=strategy, protocol="τ² mock.")
        write_json(root / f"evaluation/tau2/{strategy}/result.json", mock)
    return root
