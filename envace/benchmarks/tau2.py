"""τ²-bench's `mock` domain, by the official orchestrator and evaluator, with a scripted user."""

from pathlib import Path
from typing import Any

from envace.benchmarks.adapter import Adapter, Ids
from envace.benchmarks.harness import site_packages, version
from envace.files import digest, read_json

DOMAINS = ("mock", "airline", "retail", "telecom")
"""Domains of the benchmark; the leakage check covers all."""


class Tau2(Adapter):
    """The adapter of τ²-bench."""

    name = "tau2"
    harness = "tau2"
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # noqa: RUF012
    modes = ("gold", "nothing")

    def data(self, domain: str) -> Path:
        """Folder with a domain's data files."""
        return site_packages(self.harness, self.root) / "tau2" / "data" / "tau2" / "domains" / domain

    def base_ids(self, domain: str) -> list[str]:
        """Ids of a domain's base split."""
        return list(read_json(self.data(domain) / "split_tasks.json")["base"])

    def ids(self) -> Ids:
        """Ids of the measured tasks."""
        return {"mock": self.base_ids("mock")}

    def items_job(self) -> dict[str, Any]:
        """Items come from every domain."""
        return {"mode": "items", "domains": DOMAINS}

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit}" if limit else "all tasks"
        return {
            "protocol": f"τ² pre-v1.0 tasks, mock domain, {size}: official orchestrator and evaluator, "
            "one trial, temperature 0, a scripted user that states the task and leaves after one answer. "
            "Internal: published scores use other domains and an LLM as user.",
            "official": False,
            "harness": version(self.harness),
            "dataset_sha": digest(*(self.data("mock") / name for name in ("tasks.json", "db.json"))),
            "user_simulator": "scripted: the instructions verbatim",
        }
