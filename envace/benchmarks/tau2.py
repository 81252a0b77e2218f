"""τ²-bench, by the official orchestrator and evaluator; its user is a script, or a model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envace.benchmarks.adapter import Adapter, Ids, means_of, task
from envace.benchmarks.base import ALL
from envace.benchmarks.harness import site_packages, version
from envace.benchmarks.sides import side
from envace.benchmarks.stats import mean
from envace.errors import EnvaceError
from envace.files import digest, read_json

DOMAINS = ("mock", "airline", "retail", "telecom")
"""Domains of the benchmark; the leakage check covers all."""

SCRIPTED = "scripted"
"""The user who states the task word for word and leaves after one answer."""


class Tau2(Adapter):
    """The adapter of τ²-bench.

    Args:
        root: Folder of all harnesses; None for the default.
        domains: What is measured.
        split: `base`, `train` or `test`; `mock` has the first alone.
        user: `scripted`, or the name of a model behind `ENVACE_USER_URL`.
    """

    name = "tau2"
    harness = "tau2"
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # noqa: RUF012
    modes = ("gold", "nothing")

    def __init__(
        self,
        root: Path | None = None,
        domains: Sequence[str] = ("mock",),
        split: str = "base",
        user: str = SCRIPTED,
    ) -> None:
        super().__init__(root)
        unknown = [domain for domain in domains if domain not in DOMAINS]
        if unknown:
            raise EnvaceError(f"tau2 has no domain {unknown[0]!r}", f"choose from {', '.join(DOMAINS)}")
        self.domains, self.split, self.user = tuple(domains), split, user

    def data(self, domain: str) -> Path:
        """Folder with a domain's data files."""
        return site_packages(self.harness, self.root) / "tau2" / "data" / "tau2" / "domains" / domain

    def split_ids(self, domain: str) -> list[str]:
        """Ids of a domain's split, as `DOMAIN/ID`.

        Raises:
            EnvaceError: The domain has no such split.
        """
        splits = read_json(self.data(domain) / "split_tasks.json")
        if self.split not in splits:
            raise EnvaceError(
                f"tau2's {domain} has no split {self.split!r}", f"choose from {', '.join(splits)}"
            )
        return [f"{domain}/{id}" for id in splits[self.split]]

    def ids(self) -> Ids:
        """Ids of the measured tasks."""
        return {domain: self.split_ids(domain) for domain in self.domains}

    def items_job(self) -> dict[str, Any]:
        """Items come from every domain."""
        return {"mode": "items", "domains": DOMAINS}

    def outcomes(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """See `Adapter.outcomes`; a model that plays the user is reached from the harness."""
        env = {}
        if self.user != SCRIPTED:
            played = side("user", self.user)
            env = {"USER_MODEL": played.model, "USER_BASE_URL": played.url, "USER_API_KEY": played.key}
        yield from self.asked(ids, base_url, model, seed, work, **env)

    def measures(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Mean over domains and over tasks."""
        scored = [float(row["success"]) for row in rows if row["success"] is not None]
        return {"macro": means_of(list(map(task, rows)))[ALL], "micro": mean(scored)} if scored else {}

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit} a domain" if limit else "all tasks"
        who = "a scripted user that states the task and leaves after one answer"
        why = "published scores have a model as user"
        if self.user != SCRIPTED:
            who = f"{self.user} as user with the official prompt"
            why = "published scores have another user"
        elif "telecom" in self.domains:
            why += ", and telecom's user must act, which the script does not"
        return {
            "protocol": f"τ² pre-v1.0 tasks, {', '.join(self.domains)}, {self.split} split, {size}: official "
            f"orchestrator and evaluator, temperature 0, {who}. `all` and macro are the mean over "
            f"domains, micro is the mean over tasks. Internal: {why}.",
            "official": False,
            "harness": version(self.harness),
            "dataset_sha": digest(
                *(path for d in self.domains for path in sorted(self.data(d).glob("*")) if path.name in DATA)
            ),
            "user_simulator": "scripted: the instructions verbatim" if self.user == SCRIPTED else self.user,
        }

    def check(self) -> dict[str, dict[str, float]]:
        """Every domain, whatever is measured."""
        everything = Tau2(self.root, DOMAINS)
        return {mode: everything.means(mode) for mode in self.modes}


DATA = ("tasks.json", "db.json", "db.toml", "user_db.toml")
"""Files that decide an outcome."""
