"""Numbers as people read them: percent, points, intervals. A missing value is a dash."""

from collections.abc import Mapping
from typing import Any

DASH = "–"
MINUS = "−"
NO_BREAK = "\u00a0"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent."""
    return DASH if share is None else f"{100 * share:.{digits}f}{NO_BREAK}%"


def share(value: Mapping[str, Any]) -> str:
    """A dumped `Proportion` with its 95 % interval."""
    if value["success"] is None:
        return DASH
    return f"{percent(value['success'])} ({100 * value['ci_low']:.0f} to {100 * value['ci_high']:.0f})"


def points(value: float) -> str:
    """A difference of shares in percentage points, always signed."""
    text = f"{100 * value:+.1f}".replace("-", MINUS)
    return "0.0" if text in ("+0.0", f"{MINUS}0.0") else text


def difference(value: Mapping[str, Any] | None) -> str:
    """A dumped `Difference` with its 95 % interval, in points."""
    if value is None:
        return DASH
    return f"{points(value['difference'])} ({points(value['ci_low'])} to {points(value['ci_high'])})"


def gain(value: Mapping[str, Any] | None) -> str:
    """The same for running text."""
    if value is None:
        return "an unknown number of points"
    ends = f"{points(value['ci_low'])} to {points(value['ci_high'])}"
    return f"{points(value['difference'])} points (95 % interval {ends})"


def number(value: float | None, digits: int = 1) -> str:
    """A mean, or a count with separators where it is whole."""
    if value is None:
        return DASH
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def yes(flag: bool) -> str:
    """A flag."""
    return "yes" if flag else "no"


def names(values: Any) -> str:
    """Names in a row, the last after "and"."""
    *rest, last = values
    return f"{', '.join(rest)} and {last}" if rest else str(last)
