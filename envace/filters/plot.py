"""The funnel as a picture: how many records each rule let through."""

from pathlib import Path

from envace.files import atomic_text
from envace.filters.funnel import FunnelResult


def funnel_plot(result: FunnelResult, path: Path) -> None:
    """Draw what is left after every rule, and what the rule refused, as SVG; equal counts, equal bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    names = ["read", *result.rules]
    left = [result.read, *(count.entered - count.refused for count in result.rules.values())]
    with matplotlib.rc_context({"svg.hashsalt": "funnel", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4.8, 0.6 + 0.24 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        axes.barh(names, left, color="#2b7bba")
        refused = [0, *(count.refused for count in result.rules.values())]
        axes.barh(names, refused, left=left, color="#d55e00")
        for place, (kept, lost) in enumerate(zip(left, refused, strict=True)):
            axes.annotate(
                f"{kept:,}" + (f"  (−{lost:,})" if lost else ""),
                (kept + lost, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
            )
        axes.invert_yaxis()
        axes.margins(x=0.3)
        axes.set_xlabel("trajectories left; refused by the rule in orange")
        axes.spines[["top", "right"]].set_visible(False)
        with atomic_text(path) as handle:
            figure.savefig(handle, format="svg", metadata={"Date": None, "Creator": "envace"})
