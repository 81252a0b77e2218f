"""What the adapters share: ask a harness script for outcomes, turn them into a result, cache items."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.benchmarks.base import (
    Benchmark,
    BenchmarkItem,
    BenchmarkResult,
    TaskResult,
    summarize,
    trials_of,
)
from envace.benchmarks.harness import HERE, default_root, requirements, run_inside
from envace.benchmarks.stats import pass_hat_k, stratified_sample
from envace.benchmarks.unfinished import unfinished
from envace.benchmarks.watch import Watch
from envace.errors import EnvaceError
from envace.files import atomic_folder, digest, write_json
from envace.serve.runner import KEY_VARIABLE
from envace.trajectory.jsonl import iter_records, write_records
from envace.trajectory.records import compact

if TYPE_CHECKING:
    from envace.engines.openai import ChatClient

Ids = Mapping[str, Sequence[str]]
"""Task ids by category."""


def api_key() -> str:
    """The server's key; clients insist on some text where the server asks for none."""
    return os.environ.get(KEY_VARIABLE, "") or "none"


def served_model(base_url: str) -> str:
    """Name of the first model at `base_url`.

    Raises:
        EnvaceError: when nothing answers there.
    """
    import httpx

    try:
        headers = {"Authorization": f"Bearer {api_key()}"}
        response = httpx.get(f"{base_url.rstrip('/')}/models", headers=headers, timeout=10)
        response.raise_for_status()
        return str(response.json()["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
        raise EnvaceError(
            f"no model at {base_url}: {error or type(error).__name__}", "start it with `envace serve`"
        ) from error


def chat_client(base_url: str, model: str) -> "ChatClient":
    """A client for benchmarks that need no harness; one request at a time, so that answers repeat."""
    from envace.engines.openai import ChatClient

    key = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else ""
    return ChatClient([base_url], model, key, concurrency=1, timeout=600)


class Adapter(Benchmark):
    """Base of the adapters: task ids, and outcomes by the script `inside/<harness>_run.py`.

    Args:
        root: Folder of all harnesses; None for the default.
    """

    env: Mapping[str, str] = {}
    """Variables the script needs."""
    modes: Sequence[str] = ("gold", "spoiled", "nothing")
    """Answers that need no model, for `check`."""
    finished = "finished.jsonl"
    """Files in the script's folder that get a line for every task it finishes."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def ids(self) -> Ids:
        """Ids of all tasks by category."""
        raise NotImplementedError

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        raise NotImplementedError

    def items_job(self) -> dict[str, Any]:
        """The job that lists all test items."""
        return {"mode": "items"}

    def ask(
        self, job: Mapping[str, Any], work: Path | None = None, watch: Watch | None = None, **env: str
    ) -> dict[str, Any]:
        """Run the script with a job, in the folder `work` or a fresh one."""
        script, variables = f"{self.harness}_run.py", {**self.env, **env}
        return run_inside(self.harness, script, job, variables, self.root, work, watch)

    def replay(self, mode: str, ids: Ids, **job: Any) -> list[dict[str, Any]]:
        """Outcomes of answers that need no model, one of `modes`."""
        return self.ask({"mode": mode, "ids": ids, **job})["tasks"]

    def outcomes(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """Outcomes of the served model, task by task.

        Args:
            ids: Tasks.
            base_url: OpenAI-compatible address ending in `/v1`.
            model: Name that the server knows the model by.
            seed: Seed of every request.
            work: Folder with what an earlier, killed run has so far, which is not done again; None for none.
        """
        yield from self.asked(ids, base_url, model, seed, work)

    def asked(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None, **env: str
    ) -> list[dict[str, Any]]:
        """Outcomes of the served model by the harness script, which sees `env`, too."""
        where = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": api_key()}
        asked = {"ENVACE_MODEL": model, "ENVACE_SEED": str(seed)}
        return self.ask({"mode": "run", "ids": ids}, work, self.watch(ids), **where, **asked, **env)["tasks"]

    def watch(self, ids: Ids) -> Watch:
        """How to see what a script has done of the tasks."""
        return Watch(self.name, self.finished, sum(map(len, ids.values())))

    def measures(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Scores of the benchmark's own over all outcomes; none by default."""
        return {}

    def means(self, mode: str) -> dict[str, float]:
        """Score of a replay over all tasks, by group."""
        return means_of([task(row) for row in self.replay(mode, self.ids())])

    def floor(self) -> dict[str, float]:
        """Score of an agent that does nothing, by group."""
        return self.means("nothing")

    def check(self) -> dict[str, dict[str, float]]:
        """See `Benchmark.check`."""
        return {mode: self.means(mode) for mode in self.modes}

    def run(
        self,
        base_url: str,
        limit: int,
        seed: int,
        out: Path,
        strategy: str = "direct",
        identity: str | None = None,
        trials: int = 1,
    ) -> BenchmarkResult:
        """See `Benchmark.run`."""
        model = served_model(base_url)
        ids = stratified_sample(self.ids(), limit, seed)
        described = self.describe(limit)
        scripts = sorted((HERE / "inside").glob("*.py"))
        key = identity and digest(
            identity, self.name, model, strategy, seed, trials, ids, described, *scripts
        )
        with unfinished(out, key) as work:
            rows = []
            for trial in range(trials):
                (place := work / f"trial_{trial}").mkdir(exist_ok=True)
                played = self.outcomes(ids, base_url, model, seed + trial, place)
                rows += [row | {"trial": trial} for row in played]
            floors = {row["id"]: row["success"] for row in self.replay("nothing", ids)}
            tasks = [task(row) for row in rows]
            result = BenchmarkResult(
                benchmark=self.name,
                model=model,
                strategy=strategy,
                seed=seed,
                trials=trials,
                groups=summarize(tasks, floors, seed),
                measures=self.measures(rows) | reliability(tasks, trials),
                tasks=tuple(tasks),
                **described,
            )
            with atomic_folder(out) as folder:
                write_json(folder / "result.json", result.model_dump(mode="json"))
                answers = [compact({key: row[key] for key in ("id", "trial", "answer")}) for row in rows]
                (folder / "answers.jsonl").write_text("".join(line + "\n" for line in answers), "utf-8")
        return result

    def items(self) -> list[BenchmarkItem]:
        """All test items, cached beside the harness."""
        key = digest(requirements(self.harness), *sorted((HERE / "inside").glob("*.py")))
        cache = self.root / self.harness / f"items.{key}.jsonl"
        if not cache.is_file():
            rows = self.ask(self.items_job())["items"]
            write_records(cache, [BenchmarkItem.model_validate(row) for row in rows])
        return list(iter_records(cache, BenchmarkItem))


def means_of(tasks: Sequence[TaskResult]) -> dict[str, float]:
    """Mean success by category and over all."""
    return {name: group.mean for name, group in summarize(tasks, {t.id: 0 for t in tasks}, 0).items()}


def reliability(tasks: Sequence[TaskResult], trials: int) -> dict[str, float]:
    """`pass^k` for every k up to the number of trials, as far as tasks have that many; none of one trial."""
    made = trials_of(tasks)
    most = max(map(len, made), default=0)
    return {f"pass^{k}": pass_hat_k(made, k) for k in range(1, most + 1)} if trials > 1 else {}


def task(row: Mapping[str, Any]) -> TaskResult:
    """An outcome without the answer itself."""
    return TaskResult.model_validate({key: value for key, value in row.items() if key != "answer"})


def read_ids(path: Path) -> list[str]:
    """The `id` of every JSON line of a data file."""
    return [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines() if line.strip()]
