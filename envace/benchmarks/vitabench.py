"""VitaBench over the user's own checkout; its user and its judge are models behind endpoints."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envace.benchmarks.adapter import Adapter, Ids, api_key
from envace.benchmarks.base import BenchmarkItem
from envace.benchmarks.copies import copy_of
from envace.benchmarks.inside import vita_orders
from envace.benchmarks.sides import side
from envace.benchmarks.stats import mean
from envace.errors import EnvaceError
from envace.files import digest, read_json

DOMAINS = ("delivery", "instore", "ota")
"""Domains that can be measured; `cross_domain` is in the leakage check alone."""

FILES = {"english": "tasks_en.json", "chinese": "tasks.json"}
"""Task file of a language."""


class Vitabench(Adapter):
    """The adapter of VitaBench.

    Args:
        root: Folder of all harnesses; None for the default.
        domains: What is measured.
        user: Model behind `ENVACE_USER_URL` that plays the user.
        judge: Model behind `ENVACE_JUDGE_URL` that judges.
        language: `english`, or `chinese`, the benchmark's own default.
    """

    name = "vitabench"
    harness = "vitabench"
    env = {"VITA_MODEL_CONFIG_PATH": "{work}/models.yaml", "PYTHON_DOTENV_DISABLED": "1"}  # noqa: RUF012

    def __init__(
        self,
        root: Path | None = None,
        domains: Sequence[str] = ("delivery",),
        user: str = "",
        judge: str = "",
        language: str = "english",
    ) -> None:
        super().__init__(root)
        unknown = [domain for domain in domains if domain not in DOMAINS]
        if unknown:
            raise EnvaceError(f"vitabench has no domain {unknown[0]!r}", f"choose from {', '.join(DOMAINS)}")
        self.domains, self.user, self.judge, self.language = tuple(domains), user, judge, language

    def tasks(self, domain: str) -> dict[str, dict[str, Any]]:
        """Tasks of a domain as the data have them, by `DOMAIN/ID`."""
        path = copy_of("vitabench", self.root) / "data" / "vita" / "domains" / domain / FILES[self.language]
        return {f"{domain}/{task['id']}": task for task in read_json(path)}

    def ids(self) -> Ids:
        """Ids of the measured tasks."""
        return {domain: list(self.tasks(domain)) for domain in self.domains}

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit} a domain" if limit else "all tasks"
        checkout = copy_of("vitabench", self.root)
        return {
            "protocol": f"VitaBench, {', '.join(self.domains)}, {self.language}, {size}: official "
            "orchestrator and sliding-window judge, temperature 0. Configurations and keys are "
            "kept out of request bodies. The score `orders` is this project's own: the share of required "
            "delivery orders that stand in the end, compared without ids. Internal: published scores have "
            "another user and judge and the mean of four trials.",
            "official": False,
            "harness": f"vita, sources {digest(checkout / 'src')}",
            "dataset_sha": digest(*(self.tasks(domain) for domain in self.domains)),
            "user_simulator": self.user,
            "judge": self.judge,
        }

    def outcomes(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """See `Adapter.outcomes`.

        Raises:
            EnvaceError: No model is named for the user or the judge, or no endpoint is set.
        """
        if not self.user or not self.judge:
            raise EnvaceError(
                "vitabench needs models as user and judge", "name evaluate.user and evaluate.judge"
            )
        env = {"AGENT_MODEL": model, "AGENT_URL": base_url, "AGENT_KEY": api_key(), "ENVACE_SEED": str(seed)}
        for played in (side("user", self.user), side("judge", self.judge)):
            role = played.role.upper()
            env |= {f"{role}_MODEL": played.model, f"{role}_URL": played.url, f"{role}_KEY": played.key}
        checkout = str(copy_of("vitabench", self.root).absolute())
        job = {"checkout": checkout, "language": self.language, "ids": ids}
        yield from self.ask(job, work, self.watch(ids), **env)["tasks"]

    def replay(self, mode: str, ids: Ids, **job: Any) -> list[dict[str, Any]]:
        """Success of an agent that does nothing: 0, for rubrics are unmet until a judge says otherwise."""
        return [
            {"id": id, "category": domain, "success": 0, "answer": []}
            for domain, chosen in ids.items()
            for id in chosen
        ]

    def measures(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Mean share of rubrics met, and of required orders that stand, over the tasks that have them."""
        found = {
            part: [row["scores"][part] for row in rows if part in row.get("scores", {})]
            for part in ("rubrics", "orders")
        }
        return {part: mean(values) for part, values in found.items() if values}

    def check(self) -> dict[str, dict[str, float]]:
        """Our order check on the reference orders, on ones with another quantity, and on none made."""
        made: dict[str, list[float]] = {"gold": [], "spoiled": [], "nothing": []}
        for task in self.tasks("delivery").values():
            wanted = vita_orders.required(task["evaluation_criteria"])
            before = list(task["environment"]["orders"].values())
            new = [order for order in wanted if vita_orders.share_found([order], before) == 0]
            for mode, orders in (("gold", new), ("spoiled", list(map(other, new))), ("nothing", [])):
                share = vita_orders.share_found(new, orders)
                made[mode] += [] if share is None else [share]
        return {mode: {"orders": mean(shares)} for mode, shares in made.items()}

    def items(self) -> list[BenchmarkItem]:
        """Tasks of every domain, for the leakage check; tools and reference calls are not in the data."""
        return [
            BenchmarkItem(benchmark="vitabench", id=id, split=domain, text=task["instructions"])
            for domain in (*DOMAINS, "cross_domain")
            for id, task in self.tasks(domain).items()
        ]


def other(order: vita_orders.Order) -> vita_orders.Order:
    """The same order of far more of everything."""
    return order | {"products": [p | {"quantity": p["quantity"] + 1000} for p in order["products"]]}
