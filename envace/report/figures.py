"""Figures as SVG text: transparent, ink in `currentColor`, so that one drawing fits both themes.

Equal inputs give equal bytes: element ids are salted with the figure's name and no date is written.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envace.report.compare import average
from envace.report.inputs import Curve
from envace.worlds import WORLDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"
"""A color no series has: replaced by `currentColor` in the finished SVG."""
SERIES = ("#2b7bba", "#d55e00", "#009e73", "#cc79a7")
"""After Okabe and Ito: told apart with any color vision, and against white as against black."""
MARKERS = ("o", "s", "^", "D")
LINES = ("-", "--", "-.", ":")
WINDOW = 5
"""Steps averaged by the strong line of a training curve."""
WIDTH = 4.8
"""Inches: a phone's width, so that text keeps its size there."""
POLICY_LABELS = {"warmup": "after warm-up", "trained": "after training"}
SPLIT_MARKS = {"demonstrated": "", "practiced": " *", "held_out": " †"}
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#808080",
    "grid.alpha": 0.3,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}

Interval = tuple[float, float, float]
"""Value, lower and upper end of its 95 % interval, each in [0, 1]."""


def draw(summary: Mapping[str, Any], curves: Mapping[str, Curve]) -> dict[str, str]:
    """All figures as SVG by name."""
    makers: dict[str, tuple[float, Callable[[Figure], None]]] = {
        "warmup": (2.8, lambda figure: _warmup(figure, curves["warmup"])),
        "training": (3.2, lambda figure: _training(figure, curves["train"])),
        "training-worlds": (4.6, lambda figure: _training_worlds(figure, curves["train"])),
        "worlds": (6.4, lambda figure: _worlds(figure, summary["worlds"])),
        "rehearsal": (2.8, lambda figure: _rehearsal(figure, summary["rehearsal"])),
        "benchmarks": (3.0, lambda figure: _benchmarks(figure, summary["benchmarks"])),
    }
    return {name: svg(name, height, maker) for name, (height, maker) in makers.items()}


def svg(name: str, height: float, maker: "Callable[[Figure], None]") -> str:
    """One figure: its name salts the ids, `height` is in inches, `maker` draws it."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**RC, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        maker(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": "envace"})
    text = buffer.getvalue()
    # Counted ids (`axes_1`) repeat from figure to figure, and nothing refers to them.
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text[text.index("<svg") :]).replace(INK, "currentColor")


def _warmup(figure: "Figure", curve: Curve) -> None:
    axes = figure.add_subplot()
    _plot(axes, curve, {"act_loss": "act", "environment_loss": "environment"}, window=1)
    axes.set(yscale="log", xlabel="warm-up step", ylabel="loss, nats a token")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend()


def _training(figure: "Figure", curve: Curve) -> None:
    axes = figure.add_subplot()
    labels = {
        "success": "success",
        "agreement": "agreement with revealed responses",
        "rule_success": "success of the rule-only witness",
    }
    _plot(axes, curve, labels)
    _shares(axes, f"share, % (mean of {WINDOW} steps)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center")


def _training_worlds(figure: "Figure", curve: Curve) -> None:
    panels = figure.subplots(2, 1, sharex=True)
    for axes, measure in zip(panels, ("success", "agreement"), strict=True):
        _plot(axes, curve, {f"{measure}_{world}": world for world in WORLDS})
        _shares(axes, f"{measure}, %")
    panels[0].set(xlabel="")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _worlds(figure: "Figure", worlds: Mapping[str, Any]) -> None:
    templates = worlds["trained"]["per_template"]
    order = [name for split in SPLIT_MARKS for name in templates if templates[name]["split"] == split]
    rows = {
        label: [_interval(worlds[policy]["per_template"][name]) for name in order]
        for policy, label in POLICY_LABELS.items()
    }
    _dots(figure, [name + SPLIT_MARKS[templates[name]["split"]] for name in order], rows)
    figure.axes[0].set(xlabel="success, %  (* practiced, † held-out template)")


def _rehearsal(figure: "Figure", rehearsal: Mapping[str, Any]) -> None:
    worlds = rehearsal["trained"]
    order = [(world, row) for world in worlds for row in worlds[world]["rows"]]
    rows = {
        label: [_interval(rehearsal[policy][world]["rows"][row]) for world, row in order]
        for policy, label in POLICY_LABELS.items()
    }
    _dots(figure, [f"{world}: {row}" for world, row in order], rows)
    figure.axes[0].set(xlabel="success, %")


def _benchmarks(figure: "Figure", benchmarks: Mapping[str, Any]) -> None:
    order = [(name, group) for name in benchmarks for group in benchmarks[name]["none"]["groups"]]
    rows = {}
    for strategy in ("none", "parallel"):
        groups = [benchmarks[name][strategy]["groups"][group] for name, group in order]
        rows[f"rehearsal: {strategy}"] = [(g["mean"], g["ci_low"], g["ci_high"]) for g in groups]
    floors = [benchmarks[name]["none"]["groups"][group]["floor"] for name, group in order]
    rows["doing nothing"] = [(floor, floor, floor) for floor in floors]
    _dots(figure, [f"{name}: {group}" for name, group in order], rows)
    figure.axes[0].set(xlabel="score, %")


def _plot(axes: "Axes", curve: Curve, labels: Mapping[str, str], window: int = WINDOW) -> None:
    """Lines of those columns that the run has; a thin one for every step where they are averaged."""
    present = [name for name in labels if name in curve]
    for name, color, style in zip(present, SERIES, LINES, strict=False):
        values = curve[name]
        if window > 1:
            axes.plot(_floats(curve["step"]), _floats(values), color=color, linewidth=0.6, alpha=0.35)
        smooth = [
            average([v for v in values[: i + 1][-window:] if v is not None]) for i in range(len(values))
        ]
        axes.plot(
            _floats(curve["step"]),
            _floats(smooth),
            color=color,
            linestyle=style,
            label=labels[name],
            linewidth=1.6,
        )


def _floats(values: Sequence[float | None]) -> list[float]:
    """Missing values as gaps."""
    return [float("nan") if value is None else value for value in values]


def _shares(axes: "Axes", label: str) -> None:
    axes.set(xlabel="training step", ylabel=label, ylim=(-0.03, 1.03))
    _percent(axes.yaxis)


def _percent(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")


def _dots(figure: "Figure", labels: Sequence[str], rows: Mapping[str, Sequence[Interval | None]]) -> None:
    """One line of dots with intervals for every label, the series a little apart."""
    axes = figure.add_subplot()
    for number, (label, intervals) in enumerate(rows.items()):
        shift = 0.22 * (number - (len(rows) - 1) / 2)
        known = [(y + shift, *interval) for y, interval in enumerate(intervals) if interval is not None]
        places, values, lows, highs = zip(*known, strict=True) if known else ((), (), (), ())
        axes.hlines(places, lows, highs, color=SERIES[number], linewidth=1.4)
        axes.plot(
            values, places, MARKERS[number], color=SERIES[number], markersize=4, label=label, clip_on=False
        )
    axes.set(
        yticks=range(len(labels)), yticklabels=labels, xlim=(-0.02, 1.02), ylim=(len(labels) - 0.5, -0.5)
    )
    _percent(axes.xaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(rows))


def _interval(share: Mapping[str, Any]) -> Interval | None:
    return None if share["success"] is None else (share["success"], share["ci_low"], share["ci_high"])
