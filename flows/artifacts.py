"""What a run leaves in the UI: tables of its stages and metrics, a link to the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_table_artifact

from flows.pipeline import metrics

REPORT = Path("reports/index.html")
"""Page that the last stage writes, in the project's folder."""


def publish_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    """A table under a key by which its history is found."""
    create_table_artifact(key=key, table=[dict(row) for row in rows], description=description)


def publish_project() -> None:
    """Metrics and report of the project in the current folder."""
    publish_table("metrics", metrics(), "Metrics after this run")
    if REPORT.is_file():
        create_link_artifact(key="report", link=REPORT.resolve().as_uri(), link_text="The report")
