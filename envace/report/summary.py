"""The numbers of the report as one JSON object: pure functions of what the stages wrote."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from envace.benchmarks.base import BenchmarkResult, TaskResult
from envace.errors import EnvaceError
from envace.quality import QualityResult
from envace.report.compare import Proportion, average, paired, proportion, unpaired
from envace.report.inputs import POLICIES, STRATEGIES, Inputs
from envace.worlds import WORLDS, world

MAIN_SPLITS = ("demonstrated", "practiced")
"""Templates behind the headline's success; held-out templates are reported apart."""
WITNESSES = ("rule", "oracle", "wrong")
"""Rows of a commit-once world that say where its score comes from."""

NOTHING = {"success": None, "se": None, "n": 0, "ci_low": None, "ci_high": None}
"""A share without tasks."""


def summarize(inputs: Inputs) -> dict[str, Any]:
    """Everything the report says in numbers; shares in [0, 1], None where nothing was measured."""
    return {
        "worlds": _worlds(inputs),
        "rehearsal": {policy: _committing(inputs, policy) for policy in POLICIES},
        "chained_rehearsal": {policy: _chained_rehearsal(inputs, policy) for policy in POLICIES},
        "gate": {
            policy: {
                "passed": result.passed,
                "evaluated": result.evaluated,
                "expected": result.expected,
                "rows": result.rows,
                "failures": list(result.failures),
                "docs": result.docs,
                "agreement": _plain(result.agreement),
                "first_calls": {world: _plain(share) for world, share in result.first_calls.items()},
            }
            for policy, result in inputs.quality.items()
        },
        "collusion": {name: inputs.metrics["train"][name] for name in ("collusion_alarms", "alarms")},
        "model": inputs.metrics["model"],
        "warmup": inputs.metrics["warmup"],
        "training": {
            key: value
            for key, value in inputs.metrics["train"].items()
            if key not in ("collusion_alarms", "alarms")
        },
        "data": {name: inputs.metrics[name] for name in ("synthesize", "split")},
        "funnel": inputs.metrics["filter"],
        "leakage": inputs.metrics["leakage"],
        "benchmarks": {
            name: {strategy: _benchmark(result) for strategy, result in results.items()}
            for name, results in inputs.benchmarks.items()
        },
        "costs": _costs(inputs),
        "provenance": inputs.provenance,
    }


def _worlds(inputs: Inputs) -> dict[str, Any]:
    """Before and after training, acting without rehearsal."""
    rows = {policy: _plain_rows(inputs.worlds[policy]["none"]) for policy in POLICIES}
    before, after = (rows[policy] for policy in POLICIES)
    accuracy = [_accuracy(inputs.quality[policy]) for policy in POLICIES]
    main = [_of_splits(rows[policy], *MAIN_SPLITS) for policy in POLICIES]
    return {
        **{policy: _policy(rows[policy], inputs.quality[policy]) for policy in POLICIES},
        "change": _change(*main),
        "environment_change": _plain(unpaired(*accuracy)),
        "held_out_change": _change(_of_splits(before, "held_out"), _of_splits(after, "held_out")),
        "template_change": {
            category: _change(_of_category(before, category), _of_category(after, category))
            for category in _categories(before)
        },
    }


def _policy(rows: Sequence[TaskResult], quality: QualityResult) -> dict[str, Any]:
    overall = quality.agreement.overall
    return {
        **_share(_of_splits(rows, *MAIN_SPLITS)),
        "environment_accuracy": overall.share,
        "environment_n": overall.n,
        "per_template": {
            category: _share(_of_category(rows, category)) | {"split": _split(category)}
            for category in _categories(rows)
        },
        "held_out_templates": _share(_of_splits(rows, "held_out")),
    }


def _committing(inputs: Inputs, policy: str) -> dict[str, Any]:
    """Rows of every commit-once world: the strategies and the witnesses."""
    found = {}
    for name in WORLDS:
        rehearsed = inputs.worlds[policy]["parallel"].tasks
        if not WORLDS[name].commit_once or not _of_world(rehearsed, name, ""):
            continue
        rows = {s: _of_world(inputs.worlds[policy][s].tasks, name, "") for s in STRATEGIES}
        witnesses = {label: _of_world(rehearsed, name, label) for label in WITNESSES}
        table = {label: _row(tasks) for label, tasks in (rows | witnesses).items()}
        # The rule reads the very memory that the parallel row rehearsed, at the same price.
        table["rule"]["rehearsal_tokens"] = table["parallel"]["rehearsal_tokens"]
        agreement = inputs.quality[policy].agreement.worlds.get(name)
        found[name] = {
            "rows": table,
            "gain": _change(rows["none"], rows["parallel"]),
            "environment_agreement": agreement.share if agreement else None,
            "environment_n": agreement.n if agreement else 0,
        }
    return found


def _chained_rehearsal(inputs: Inputs, policy: str) -> dict[str, Any]:
    rows = {s: _of_splits(_plain_rows(inputs.worlds[policy][s]), *MAIN_SPLITS) for s in STRATEGIES}
    return {
        "rows": {strategy: _row(tasks) for strategy, tasks in rows.items()},
        "gain": _change(rows["none"], rows["parallel"]),
    }


def _benchmark(result: BenchmarkResult) -> dict[str, Any]:
    described = ("official", "protocol", "harness", "user_simulator", "judge", "seed")
    groups = {name: _plain(group) for name, group in result.groups.items()}
    return {name: getattr(result, name) for name in described} | {"groups": groups}


def _costs(inputs: Inputs) -> dict[str, Any]:
    """Mean tokens by purpose and real calls, an episode."""
    rows = {
        f"worlds, {policy}, {strategy}": _plain_rows(result)
        for policy, results in inputs.worlds.items()
        for strategy, result in results.items()
    } | {
        f"{name}, trained, {strategy}": result.tasks
        for name, results in inputs.benchmarks.items()
        for strategy, result in results.items()
    }
    return {
        "episodes": {name: _spent(tasks) | {"n": len(tasks)} for name, tasks in rows.items()},
        "training_real_calls_per_rollout": inputs.metrics["train"]["real_calls_per_rollout"],
    }


def _row(tasks: Sequence[TaskResult]) -> dict[str, Any]:
    return _share(tasks) | _spent(tasks)


def _spent(tasks: Sequence[TaskResult]) -> dict[str, Any]:
    return {
        "act_tokens": average([task.act_tokens for task in tasks]),
        "rehearsal_tokens": average([task.rehearsal_tokens for task in tasks]),
        "real_calls": average([task.steps for task in tasks]),
    }


def _plain_rows(result: BenchmarkResult) -> list[TaskResult]:
    """The strategy's own rows, witnesses left out."""
    return [task for task in result.tasks if _suffix(task) == ""]


def _suffix(task: TaskResult) -> str:
    return task.category.partition("/")[2]


def _split(category: str) -> str:
    name, _, template = category.partition(".")
    templates = world(name).templates
    if template not in templates:
        raise EnvaceError(
            f"evaluation/worlds: world {name} has no template {template!r}", "run `dvc repro evaluate_worlds`"
        )
    return templates[template]


def _of_splits(tasks: Iterable[TaskResult], *splits: str) -> list[TaskResult]:
    """Tasks of the chained worlds whose template is in one of the splits."""
    return [t for t in tasks if not _commits(t.category) and _split(t.category) in splits]


def _commits(category: str) -> bool:
    return world(category.partition(".")[0]).commit_once


def _of_category(tasks: Iterable[TaskResult], category: str) -> list[TaskResult]:
    return [task for task in tasks if task.category == category]


def _of_world(tasks: Iterable[TaskResult], name: str, suffix: str) -> list[TaskResult]:
    return [t for t in tasks if t.category.partition(".")[0] == name and _suffix(t) == suffix]


def _categories(tasks: Iterable[TaskResult]) -> list[str]:
    """Chained templates in the order of the tasks."""
    return [name for name in dict.fromkeys(t.category for t in tasks) if not _commits(name)]


def _outcomes(tasks: Iterable[TaskResult]) -> dict[str, int]:
    """Success by task; tasks on which the harness itself failed are left out."""
    return {task.id: task.success for task in tasks if task.success is not None}


def _share(tasks: Iterable[TaskResult]) -> dict[str, Any]:
    outcomes = _outcomes(tasks)
    return _plain(proportion(sum(outcomes.values()), len(outcomes))) or NOTHING


def _change(before: Iterable[TaskResult], after: Iterable[TaskResult]) -> dict[str, Any] | None:
    return _plain(paired(_outcomes(before), _outcomes(after)))


def _accuracy(quality: QualityResult) -> Proportion | None:
    overall = quality.agreement.overall
    return proportion(round((overall.share or 0.0) * overall.n), overall.n)


def _plain(record: BaseModel | None) -> Any:
    return None if record is None else record.model_dump(mode="json")
