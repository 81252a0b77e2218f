"""Sections on how the run was made: provenance, data, leakage, costs, known limits."""

from collections.abc import Iterator, Mapping
from typing import Any

from envace.leakage import CONTAMINATED
from envace.leakage.methods import METHODS
from envace.report.blocks import Block, Bullets, Section, Table, Text
from envace.report.words import names, number, percent, yes
from envace.worlds import WORLDS

UNKNOWN = "unknown"


def provenance(summary: Mapping[str, Any]) -> Section:
    """What was run."""
    run, model = summary["provenance"], summary["model"]
    facts = [
        ("Profile", run["profile"]),
        ("Seed, threads", f"{run['seed']}, {run['threads']}"),
        ("Model", f"{number(model['parameters'])} parameters, vocabulary {number(model['vocabulary'])}"),
        ("Code revision", run["revision"] or UNKNOWN),
        ("Digest of dvc.lock", run["lock"] or UNKNOWN),
        ("Versions", ", ".join(f"{name} {value or UNKNOWN}" for name, value in run["versions"].items())),
    ]
    groups = [(name, _flat(group)) for name, group in run["params"].items() if isinstance(group, dict)]
    return Section(
        "What was run",
        [
            Table("The run", ("What", "Value"), facts, texts=2),
            Table("Parameters", ("Group", "Values"), groups, texts=2),
        ],
    )


def _flat(group: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in group.items())


def _value(value: Any) -> str:
    """A parameter in words; in a mapping, a name without options stands alone."""
    if isinstance(value, dict):
        return " + ".join(
            f"{name} ({_flat(inner)})" if isinstance(inner, dict) and inner else name if inner in ({}, None)
            else f"{name} {_value(inner)}"
            for name, inner in value.items()
        )  # fmt: skip
    if isinstance(value, list):
        return " + ".join(map(str, value))
    return str(value)


def data(summary: Mapping[str, Any]) -> Section:
    """From synthesis to the split, with examples of what was refused."""
    made, split = (summary["data"][name] for name in ("synthesize", "split"))
    funnel = summary["funnel"]
    stages = [
        ("synthesized", made["trajectories"]),
        ("kept by the filter", funnel["kept"]),
        ("kept by the leakage check", summary["leakage"]["clean"]),
        ("for training", split["train"]),
        ("held back for the dev loss", split["dev"]),
        ("held-out tasks", made["held_out_tasks"]),
    ]
    rules = [
        (name, number(rule["entered"]), number(rule["refused"])) for name, rule in funnel["rules"].items()
    ]
    examples = [
        f"{name}: {example['where']}: {example['reason']}"
        for name, rule in funnel["rules"].items()
        for example in rule["examples"]
    ]
    shown: list[Block] = [Text("Refused, for example:"), Bullets(examples)] if examples else []
    return Section(
        "Data funnel",
        [
            Table("Trajectories", ("Step", "Count"), [(name, number(count)) for name, count in stages]),
            Table(
                "Synthesized, by world and kind",
                ("Kind", "Count"),
                [(name.replace("_", ", "), number(count)) for name, count in made["kinds"].items()],
            ),
            Table(
                f"Filter: {percent(funnel['loss'], 2)} set aside, by the first rule that refused",
                ("Rule", "Entered", "Refused"),
                rules,
            ),
            *shown,
        ],
    )


def leakage(summary: Mapping[str, Any]) -> Section:
    """Evaluation items found in the training data."""
    found = summary["leakage"]
    methods = list(found["table"][0]["matched"]) if found["table"] else []
    hints = [name for name, method in METHODS.items() if method.kind != "leak"]
    rows = [
        (
            row["benchmark"],
            yes(row["contaminated"]),
            number(row["items"]),
            number(row["leaked"]),
            *(number(row["matched"][method]) for method in methods),
        )
        for row in found["table"]
    ]
    return Section(
        "Leakage",
        [
            Table(
                "Evaluation items found in the training data before removal, by method",
                ("Evaluation set", "Contaminated", "Items", "Leaked", *methods),
                rows,
                texts=2,
            ),
            Text(
                f"{number(found['leaking'])} training trajectories leaked and {number(found['removed'])} "
                f"were removed. Contaminated: more than {percent(CONTAMINATED, 0)} of the items leaked. "
                f"Reported only, without counting as a leak: {names(hints)}."
            ),
            Bullets(found["notes"]),
        ],
    )


def costs(summary: Mapping[str, Any]) -> Section:
    """Tokens by purpose and real calls."""
    spent = summary["costs"]
    rows = [
        (
            name,
            str(row["n"]),
            number(row["act_tokens"]),
            number(row["rehearsal_tokens"]),
            number(row["real_calls"], 2),
        )
        for name, row in spent["episodes"].items()
    ]
    return Section(
        "Costs",
        [
            Table(
                "Means an episode: tokens of committed turns, tokens of private rehearsal, and real calls "
                "(worlds) or model requests (benchmarks)",
                ("Evaluation", "Episodes", "Act tokens", "Rehearsed tokens", "Real calls"),
                rows,
            ),
            Text(
                f"Training made {number(spent['training_real_calls_per_rollout'], 2)} real calls a roll-out: "
                "those that verify what the policy committed."
            ),
        ],
    )


def limits(summary: Mapping[str, Any]) -> Section:
    """What these numbers cannot show."""
    return Section("Known limits", [Bullets([*_limits(summary)]), *_no_claims(summary)])


def _limits(summary: Mapping[str, Any]) -> Iterator[str]:
    run = summary["provenance"]
    yield f"One training seed ({run['seed']}): the intervals cover the choice of tasks, not of the seed."
    yield (
        f"A policy of {number(summary['model']['parameters'])} parameters on synthetic worlds: "
        "nothing here predicts what a larger model gains."
    )
    yield ("Intervals of single templates are not corrected for their number: some exclude 0 by chance.")
    yield (
        "A normal interval has no width where every task changed alike, as where none did; "
        "read it with the number of tasks."
    )
    yield "The change in agreement is unpaired, which treats the two policies' calls as independent samples."
    yield "Agreement is equality of text: a response that differs in form alone counts as wrong."
    format_only = run["params"]["synthesize"]["format_only"]
    for name in (name for name in WORLDS if name in format_only):
        yield (f"Warm-up shows the form of responses in {name}, not its rules; agreement starts near chance.")


def _no_claims(summary: Mapping[str, Any]) -> Iterator[Block]:
    """Benchmarks whose numbers must not leave this page."""
    for name, results in summary["benchmarks"].items():
        if not results["none"]["official"]:
            yield Text(f"{name} was not run by its official protocol: do not quote its score.", "warning")
