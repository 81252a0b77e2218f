"""report: what the other stages wrote, as one page in HTML and Markdown → reports/."""

from pathlib import Path

from envace.params import Params
from stages.base import run


def main(params: Params) -> None:
    """Write the report of the run in the current folder."""
    from envace.report.page import write_report

    write_report(Path(), Path("reports"), params)


if __name__ == "__main__":
    run(main)
