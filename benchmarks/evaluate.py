"""What an evaluation takes beyond the time in which the model answers.

    python benchmarks/evaluate.py [--model FOLDER] [--limit 25] [--categories NAME …]

Runs BFCL through its official harness against the served policy: starting the harness, its own work,
the floor, and everything between it and the model count as overhead; answering does not. The model
is SmolLM2-135M with short answers, unless a folder is named. What the harness takes to start is the
same for every model and number of tasks, so that a model of a million weights shows little else.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import vllm_cpu

from envace.benchmarks import benchmark
from envace.errors import EnvaceError
from envace.files import write_json
from envace.serve import ChatReply, ChatRequest
from envace.serve.policy_backend import load_backend
from envace.serve.runner import served

SINGLE_TURN = ["simple_python", "multiple", "irrelevance"]
BASELINE = 10
"""Percent that an evaluation may cost."""


class Timed:
    """A backend, and the seconds in which it was answering."""

    def __init__(self, folder: Path, branches: int, tokens: int) -> None:
        self.inner = load_backend(folder, branches, tokens)
        self.seconds = 0.0
        self.requests = 0

    def models(self) -> list[str]:
        """See `Backend`."""
        return self.inner.models()

    def reply(self, request: ChatRequest) -> ChatReply:
        """See `Backend`; the harness asks one request at a time, so that times add up."""
        begun = time.perf_counter()
        try:
            return self.inner.reply(request)
        finally:
            self.seconds += time.perf_counter() - begun
            self.requests += 1


def main() -> None:
    """Measure, print a RESULT line, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a policy")
    parser.add_argument("--limit", type=int, default=25, help="tasks a category")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of one answer at most")
    parser.add_argument("--categories", nargs="+", default=SINGLE_TURN)
    arguments = parser.parse_args()
    try:
        backend = Timed(arguments.model or vllm_cpu.smollm2(), 1, arguments.tokens)
        with served(backend) as url, tempfile.TemporaryDirectory() as out:
            adapter = benchmark("bfcl_v4", categories=arguments.categories)
            begun = time.perf_counter()
            result = adapter.run(url, arguments.limit, 1, Path(out) / "bfcl")
            total = time.perf_counter() - begun
    except EnvaceError as error:
        sys.exit(f"not measured: {error}")
    percent = 100 * (total - backend.seconds) / backend.seconds
    figures = {"tasks": len(result.tasks), "requests": backend.requests, "model_seconds": backend.seconds}
    told = " ".join(f"{key}={value:.4g}" for key, value in figures.items())
    print(f"RESULT name=evaluate_overhead value={percent:.3g} unit=percent baseline={BASELINE} {told}")
    kept = {"name": "evaluate_overhead", "value": percent, "unit": "percent", "baseline": BASELINE}
    write_json(Path(__file__).parent / "evaluate_overhead.json", kept | figures)


if __name__ == "__main__":
    main()
