"""Sections on what was found: headline, curves, worlds, rehearsal, quality gate, benchmarks, the paper."""

from collections.abc import Iterator, Mapping
from typing import Any

from envace.report.blocks import Block, Bullets, Picture, Section, Table, Text, Tile, Tiles
from envace.report.headline import headline
from envace.report.words import DASH, difference, names, number, percent, share, yes

POLICIES = {"warmup": "after warm-up", "trained": "after training"}
ROWS = {
    "none": "the policy acts at once",
    "parallel": "the policy rehearses in private and reads the memory of it",
    "rule": "the first call of that memory is committed without the act role; the goal state alone counts",
    "oracle": "the policy reads a memory of true responses",
    "wrong": "the policy reads a memory of true responses handed to the wrong calls",
}
INTERVALS = "In parentheses: 95 % intervals, Wilson for shares, normal for changes (in points)."


def findings(summary: Mapping[str, Any]) -> Section:
    """The numbers to see first, and the sentences."""
    worlds, gate = summary["worlds"], summary["gate"]
    tiles = [
        _tile("Success, chained worlds", worlds["trained"]["success"], worlds["change"]),
        _tile(
            "Environment agreement", worlds["trained"]["environment_accuracy"], worlds["environment_change"]
        ),
        *(
            Tile(
                f"Rehearsal in {name}",
                percent(world["rows"]["parallel"]["success"]),
                f"{difference(world['gain'])} against none",
            )
            for name, world in summary["rehearsal"]["trained"].items()
        ),
        Tile(
            "Quality gate",
            " / ".join("passed" if gate[policy]["passed"] else "failed" for policy in POLICIES),
            f"{' / '.join(POLICIES.values())}; collusion alarms: {summary['collusion']['collusion_alarms']}",
        ),
    ]
    return Section("Findings", [Tiles(tiles), *(Text(line, "lead") for line in headline(summary))])


def _tile(label: str, value: float | None, change: Mapping[str, Any] | None) -> Tile:
    return Tile(label, percent(value), f"{difference(change)} against warm-up")


def curves(summary: Mapping[str, Any]) -> Section:
    """How the two trainings went."""
    training, dev = summary["training"], summary["warmup"]["dev"]
    ends = [
        (label, *(percent(training[f"{name}_{end}"]) for end in ("first", "last")))
        for name, label in (
            ("success", "success"),
            ("agreement", "agreement with revealed responses"),
            ("rule_success", "success of the rule-only witness"),
        )
    ]
    return Section(
        "Learning curves",
        [
            Picture("warmup", "Warm-up: training loss by role."),
            Text(
                f"On held-back trajectories the warm-up ends at {dev['act_loss']:.3f} nats a token for the "
                f"act role and {dev['environment_loss']:.3f} for the environment role."
            ),
            Picture(
                "training",
                "Training: success and agreement over all worlds; the rule-only witness, which commits what "
                "the memory ranks first, over the commit-once worlds.",
            ),
            Table(
                f"Means over the first and the last tenth of {training['steps']} training steps",
                ("Measure", "First", "Last"),
                ends,
            ),
            Picture("training-worlds", "Training: success and agreement by world."),
            *_alarms(summary["collusion"]["alarms"]),
        ],
    )


def _alarms(alarms: Mapping[str, str]) -> Iterator[Block]:
    for world, line in alarms.items():
        yield Text(f"{world}: {line}", "warning")


def worlds(summary: Mapping[str, Any]) -> Section:
    """Every template before and after training."""
    found = summary["worlds"]
    before, after = (found[policy] for policy in POLICIES)
    rows = [
        _before_after("all but held-out templates", "", before, after, found["change"]),
        _before_after(
            "held-out templates",
            "",
            before["held_out_templates"],
            after["held_out_templates"],
            found["held_out_change"],
        ),
    ]
    for name, row in after["per_template"].items():
        split = row["split"].replace("_", "-")
        change = found["template_change"][name]
        rows.append(_before_after(name, split, before["per_template"][name], row, change))
    return Section(
        "Worlds before and after training",
        [
            Picture("worlds", "Success by template without rehearsal, with 95 % intervals."),
            Table(
                f"Success on held-out names, acting at once. {INTERVALS} Changes are paired by task.",
                ("Template", "Split", "Tasks", *map(str.capitalize, POLICIES.values()), "Change"),
                rows,
                texts=2,
            ),
            Text(
                "Demonstrated templates occur in warm-up and training, practiced ones in training and a few "
                "times in warm-up, held-out ones in evaluation only."
            ),
        ],
    )


def _before_after(
    name: str, split: str, before: Mapping[str, Any], after: Mapping[str, Any], change: Any
) -> tuple[str, ...]:
    return name, split, str(after["n"]), share(before), share(after), difference(change)


def rehearsal(summary: Mapping[str, Any]) -> Section:
    """The strategies and the witnesses, world by world."""
    rows = []
    gains = []
    for policy, label in POLICIES.items():
        for world, found in summary["rehearsal"][policy].items():
            rows += [_strategy(world, label, row, value) for row, value in found["rows"].items()]
            agreement = f"{percent(found['environment_agreement'])} of {found['environment_n']} responses"
            gains.append((world, label, difference(found["gain"]), agreement))
        chained = summary["chained_rehearsal"][policy]
        rows += [_strategy("chained worlds", label, row, value) for row, value in chained["rows"].items()]
        gains.append(("chained worlds", label, difference(chained["gain"]), DASH))
    return Section(
        "Private rehearsal",
        [
            Picture("rehearsal", "Success in commit-once worlds, with 95 % intervals."),
            Table(
                f"Success, and the cost of an episode. {INTERVALS}",
                ("World", "Policy", "Row", "Success", "Tasks", "Real calls", "Rehearsed tokens"),
                rows,
                texts=3,
            ),
            Table(
                "Gain of parallel rehearsal over none, paired by task, in points (95 % interval), and "
                "agreement of rehearsed with real responses",
                ("World", "Policy", "Gain", "Agreement"),
                gains,
                texts=2,
            ),
            Bullets([f"{row}: {meaning}" for row, meaning in ROWS.items()]),
            Text("The calls that make up the oracle's and the wrong memory are not counted as real calls."),
        ],
    )


def _strategy(world: str, policy: str, row: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    spent = (number(value["real_calls"], 2), number(value["rehearsal_tokens"]))
    return world, policy, row, share(value), str(value["n"]), *spent


def gate(summary: Mapping[str, Any]) -> Section:
    """Rehearsed responses of both policies against the world."""
    results = summary["gate"]
    rows: list[tuple[str, ...]] = [
        ("gate passed", *(yes(results[policy]["passed"]) for policy in POLICIES)),
        (
            "expectations evaluated",
            *(f"{results[policy]['evaluated']} of {results[policy]['expected']}" for policy in POLICIES),
        ),
        ("responses checked", *(number(results[policy]["rows"]) for policy in POLICIES)),
    ]
    for kind, label in (("overall", "agreement, gated worlds"), ("errors", "agreement on errors")):
        rows.append((label, *(_agreement(results[policy]["agreement"][kind]) for policy in POLICIES)))
    for kind in ("worlds", "tools"):
        for name in results["trained"]["agreement"][kind]:
            cells = (results[policy]["agreement"][kind].get(name) for policy in POLICIES)
            rows.append((f"agreement, {name}", *map(_agreement, cells)))
    for name in results["trained"]["first_calls"]:
        cells = (results[policy]["first_calls"].get(name) for policy in POLICIES)
        rows.append((f"first calls that {name} accepts", *map(_agreement, cells)))
    failures = [f"{POLICIES[p]}: {line}" for p in POLICIES for line in results[p]["failures"]]
    return Section(
        "Quality gate",
        [
            Table(
                "Rehearsed responses on held-out calls; agreement means equality with the world's response",
                ("Measure", *map(str.capitalize, POLICIES.values())),
                rows,
            ),
            *([Bullets(failures)] if failures else []),
            Text("Full validation results: " + names(results[policy]["docs"] for policy in POLICIES) + "."),
        ],
    )


def _agreement(value: Mapping[str, Any] | None) -> str:
    return DASH if value is None else f"{percent(value['share'])} of {value['n']}"
