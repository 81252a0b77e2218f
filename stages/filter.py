"""filter: the funnel of rules over synthetic trajectories → data/filtered."""

from pathlib import Path

from envace.files import atomic_folder, write_json
from envace.filters import filter_files, make_rules
from envace.filters.plot import funnel_plot
from envace.params import Params
from stages.base import METRICS, run

QUARANTINE = Path("data/quarantine")


def main(params: Params) -> None:
    """Filter; what is refused stays readable in data/quarantine, whatever happens."""
    with atomic_folder(Path("data/filtered")) as folder:
        result = filter_files(
            [Path("data/synthetic/trajectories.jsonl")],
            folder / "trajectories.jsonl",
            QUARANTINE / "filter.jsonl",
            make_rules(params.filter.rules),
            params.filter.max_loss,
        )
    funnel_plot(result, QUARANTINE / "funnel.svg")
    write_json(METRICS / "filter.json", result.metrics())


if __name__ == "__main__":
    run(main)
