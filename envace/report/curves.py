"""Learning curves as CSV files that DVC plots and the report read."""

import csv
from collections.abc import Sequence
from pathlib import Path

from envace.files import atomic_text


def write_curve(path: Path | str, rows: Sequence[dict[str, float]]) -> None:
    """Write rows of equal meaning; a value missing in some rows is left empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_text(path) as handle:
        writer = csv.DictWriter(handle, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{value:.6g}" for name, value in row.items()})


def read_curve(path: Path | str) -> dict[str, list[float | None]]:
    """Read a curve back as columns; empty cells are None."""
    with Path(path).open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    return {
        name: [float(row[name]) if row[name] else None for row in rows] for name in (rows[0] if rows else {})
    }
