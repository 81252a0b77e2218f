"""The curve of real success against the budget of rehearsal, and its table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from envace.benchmarks.budget import BASELINE, CONTROLS, REHEARSALS, Cell
from envace.report.figures import LINES, MARKERS, SERIES, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"rehearsal": REHEARSALS, "controls": CONTROLS}
PANEL_HEIGHT = 2.0
"""Inches."""


def draw_budget(cells: Mapping[str, Sequence[Cell]]) -> str:
    """An SVG with a row of panels for each policy: rehearsal on the left, controls on the right.

    Args:
        cells: Cells of `sweep` by policy.
    """
    return svg("rehearsal-budget", 1 + PANEL_HEIGHT * len(cells), lambda figure: _draw(figure, cells))


def _draw(figure: "Figure", cells: Mapping[str, Sequence[Cell]]) -> None:
    axes = figure.subplots(len(cells), len(PANELS), sharex=True, sharey=True, squeeze=False)
    for row, (policy, own) in zip(axes, cells.items(), strict=True):
        budgets = sorted({cell.budget for cell in own})
        for panel, (title, names) in zip(row, PANELS.items(), strict=True):
            for number, name in enumerate(names):
                line = [cell for cell in own if cell.strategy in (BASELINE, name)]
                # A little apart, so that intervals at the same budget can be told from each other.
                x = [budgets.index(cell.budget) + 0.08 * (number - 1) for cell in line]
                panel.vlines(
                    x,
                    [cell.success.ci_low for cell in line],
                    [cell.success.ci_high for cell in line],
                    color=SERIES[number],
                    linewidth=1,
                )
                panel.plot(
                    x,
                    [cell.success.mean for cell in line],
                    LINES[number] + MARKERS[number],
                    color=SERIES[number],
                    markersize=4,
                    label=name,
                )
            panel.set(title=f"{policy}: {title}", xticks=range(len(budgets)), xticklabels=budgets)
            panel.set_ylim(-0.03, 1.03)
            panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    for panel in axes[-1]:
        panel.set_xlabel("budget")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3))
    for panel in axes[:, 0]:
        panel.set_ylabel("real success, %")


def budget_table(cells: Sequence[Cell]) -> list[str]:
    """The same as lines of text, one a cell."""
    lines = [
        f"{'strategy':12} {'budget':>6} {'success (95 %)':>24} {'against none (95 %)':>27} "
        f"{'real calls':>10} {'private tokens':>14}"
    ]
    for cell in cells:
        success = f"{cell.success.mean:.3f} ({cell.success.ci_low:.3f} to {cell.success.ci_high:.3f})"
        gain = f"{cell.gain:+.3f} ({cell.gain_low:+.3f} to {cell.gain_high:+.3f})"
        lines.append(
            f"{cell.strategy:12} {cell.budget:6} {success:>24} {gain:>27} "
            f"{cell.real_calls:10.2f} {cell.private_tokens:14.0f}"
        )
    return lines
