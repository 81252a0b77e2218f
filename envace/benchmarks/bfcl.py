"""BFCL v4: single- and multi-turn function calling, by the official generation and checker."""

from pathlib import Path
from typing import Any

from envace.benchmarks.adapter import Adapter, Ids, read_ids
from envace.benchmarks.harness import site_packages, version
from envace.files import digest

CATEGORIES = ("simple_python", "multiple", "irrelevance", "multi_turn_base")
"""Categories measured: offline, and one for each thing the method could change."""


class Bfcl(Adapter):
    """The adapter of BFCL v4."""

    name = "bfcl_v4"
    harness = "bfcl"
    env = {"BFCL_PROJECT_ROOT": "{work}", "OPENAI_API_KEY": "none"}  # noqa: RUF012

    def data(self) -> Path:
        """Folder with the benchmark's data files."""
        return site_packages(self.harness, self.root) / "bfcl_eval" / "data"

    def ids(self) -> Ids:
        """Ids of the measured categories."""
        return {c: read_ids(self.data() / f"BFCL_v4_{c}.json") for c in CATEGORIES}

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit} a category" if limit else "all entries"
        files = [f"BFCL_v4_{c}.json" for c in CATEGORIES]
        gold = [self.data() / "possible_answer" / name for name in files]
        return {
            "protocol": f"BFCL v4 {', '.join(CATEGORIES)}, {size}: official generation and checker, function-"
            "calling mode, temperature 0.001. Calls other than name(literals) of the entry's own functions "
            "are scored wrong unseen. `all` is the mean of these categories, not the leaderboard's overall.",
            "official": limit == 0,
            "harness": version(self.harness),
            "dataset_sha": digest(*(self.data() / name for name in files), *filter(Path.is_file, gold)),
        }
