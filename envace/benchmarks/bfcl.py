"""BFCL v4: single- and multi-turn function calling, by the official generation and checker."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envace.benchmarks import bfcl_score
from envace.benchmarks.adapter import Adapter, Ids, means_of, read_ids, task
from envace.benchmarks.harness import site_packages, version
from envace.errors import EnvaceError
from envace.files import digest

CATEGORIES = ("simple_python", "multiple", "irrelevance", "multi_turn_base")
"""Categories of the default run: one for each thing the method could change."""

SETS = {"default": CATEGORIES, "offline": bfcl_score.OFFLINE} | {
    name: tuple(part for part in parts if part in bfcl_score.OFFLINE)
    for name, parts in bfcl_score.PARTS.items()
}
"""Names for several categories at once."""


def categories_of(names: Sequence[str]) -> tuple[str, ...]:
    """Offline categories by their names and those of sets, each once.

    Raises:
        EnvaceError: One is neither.
    """
    chosen: dict[str, None] = {}
    for name in names:
        if name not in SETS and name not in bfcl_score.OFFLINE:
            known = ", ".join([*SETS, *bfcl_score.OFFLINE])
            raise EnvaceError(f"bfcl_v4 has no offline category {name!r}", f"choose from {known}")
        chosen |= dict.fromkeys(SETS.get(name, (name,)))
    return tuple(chosen)


class Bfcl(Adapter):
    """The adapter of BFCL v4.

    Args:
        root: Folder of all harnesses; None for the default.
        categories: Names of categories or of `SETS`.
        threads: Requests at once; more than one is faster where the server batches, whose answers may then
            differ from run to run.
    """

    name = "bfcl_v4"
    harness = "bfcl"
    finished = "result/**/*_result.json"
    env = {"BFCL_PROJECT_ROOT": "{work}", "OPENAI_API_KEY": "none"}  # noqa: RUF012

    def __init__(
        self, root: Path | None = None, categories: Sequence[str] = ("default",), threads: int = 1
    ) -> None:
        super().__init__(root)
        self.categories = categories_of(categories)
        if threads < 1:
            raise EnvaceError(f"bfcl_v4: {threads} threads", "1 or more")
        self.threads = threads

    def data(self) -> Path:
        """Folder with the benchmark's data files."""
        return site_packages(self.harness, self.root) / "bfcl_eval" / "data"

    def file(self, category: str) -> Path:
        """Data file of a category; the memory categories share one."""
        stem = "memory" if category.startswith("memory_") else category
        return self.data() / f"BFCL_v4_{stem}.json"

    def ids(self) -> Ids:
        """Ids of the measured categories."""
        found = {category: read_ids(self.file(category)) for category in self.categories}
        # The data name no backend: `memory_0-customer-0` is asked of each of them.
        return {
            c: [i.replace("memory_", f"{c}_") if c.startswith("memory_") else i for i in ids]
            for c, ids in found.items()
        }

    def outcomes(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """See `Adapter.outcomes`."""
        yield from self.asked(ids, base_url, model, seed, work, ENVACE_THREADS=str(self.threads))

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit} a category" if limit else "all entries"
        files = sorted({self.file(category) for category in self.categories})
        gold = [self.data() / "possible_answer" / path.name for path in files]
        return {
            "protocol": f"BFCL v4 {', '.join(self.categories)}, {size}: official generation and checker, "
            f"function-calling mode, temperature 0.001, requests at once: {self.threads}. "
            "Calls other than name(literals) of the entry's own "
            "functions are scored wrong unseen. `all` is the mean of these categories; groups and overall, "
            "weighed as the leaderboard does, are among the measures, the overall marked partial with its "
            "ceiling when a category is missing.",
            "official": limit == 0,
            "harness": version(self.harness),
            "dataset_sha": digest(*files, *filter(Path.is_file, gold)),
        }

    def measures(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """The leaderboard's groups, and the overall as far as it goes."""
        return bfcl_score.measures({c: s for c, s in means_of(list(map(task, rows))).items() if c != "all"})

    def check(self) -> dict[str, dict[str, float]]:
        """Every offline category, whatever is measured."""
        everything = Bfcl(self.root, ["offline"])
        return {mode: everything.means(mode) for mode in self.modes}
