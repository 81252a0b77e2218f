"""Sections on benchmarks of others: the own scores beside doing nothing, and the paper's numbers apart."""

from collections.abc import Mapping
from typing import Any

from envace.report import paper
from envace.report.blocks import Bullets, Picture, Section, Table, Text
from envace.report.words import DASH, percent, points


def benchmarks(summary: Mapping[str, Any]) -> Section:
    """Harness results beside what doing nothing scores."""
    rows, protocols = [], []
    for name, results in summary["benchmarks"].items():
        for strategy, result in results.items():
            for group, value in result["groups"].items():
                ends = f"({100 * value['ci_low']:.0f} to {100 * value['ci_high']:.0f})"
                score = f"{percent(value['mean'])} {ends}"
                floor = percent(value["floor"])
                counts = (str(value["n"]), str(value["errors"]))
                rows.append((name, group, strategy, score, floor, *counts))
        result = results["none"]
        kind = "official protocol" if result["official"] else "not the official protocol"
        protocols.append(f"{name}, {result['harness']}, {kind}: {result['protocol']}")
    return Section(
        "Benchmarks",
        [
            Picture("benchmarks", "Scores of the trained policy beside doing nothing, with 95 % intervals."),
            Table(
                "Scores of the trained policy (95 % bootstrap interval); the floor is what an agent that "
                "does nothing scores on the same tasks",
                ("Benchmark", "Group", "Rehearsal", "Score", "Floor", "Tasks", "Harness errors"),
                rows,
                texts=3,
            ),
            Bullets(protocols),
        ],
    )


def published(_: Mapping[str, Any]) -> Section:
    """The paper's numbers, apart from ours."""

    def cells(values: tuple[Any, ...]) -> tuple[str, ...]:
        return tuple(DASH if value is None else str(value) for value in values)

    return Section(
        "Published numbers",
        [
            Text(paper.WARNING, "warning"),
            Table(
                f"Main table of {paper.SOURCE}, percent. {paper.WARNING}",
                ("Method", "BFCL-v4", "τ²-bench", "VitaBench", "Overall"),
                [cells(row) for row in paper.MAIN],
            ),
            Table(
                f"Test-time scaling of EnvACE-8B, {paper.SOURCE}, percent. {paper.WARNING}",
                ("Rehearsal", "τ²-bench", "BFCL multi-turn", "Mean", "Points over none"),
                [(*cells(row[:-1]), points(row.gain / 100)) for row in paper.TEST_TIME],
            ),
            Bullets(paper.CAVEATS),
        ],
    )
