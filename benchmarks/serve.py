"""`envace serve` under load, and what it costs in front of vLLM's own server.

    python benchmarks/serve.py ok [--model FOLDER]   # a policy in process; by default models/trained
    python benchmarks/serve.py overhead              # SmolLM2-135M behind vLLM; needs scripts/vllm_env.sh
    … --clients 64 --seconds 120                     # the defaults

Half of the requests are streamed; in `ok` every eighth rehearses first. In `overhead` the same requests
go to vLLM directly and through `envace serve` by turns, so that a busy machine slows both alike.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
import vllm_cpu
from load import Outcome, load

from envace.errors import EnvaceError
from envace.files import write_json
from envace.serve.openai_format import message_to_wire, tool_to_wire
from envace.worlds.tasks import pose

HERE = Path(__file__).parent
ROUNDS, NEW_TOKENS = 4, 32
"""Alternations, and tokens of one answer of vLLM."""
START_SECONDS = 300


def main() -> None:
    """Measure one figure or both, print a RESULT line each, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("ok", "overhead", "all"), default="all")
    parser.add_argument("--model", type=Path, default=Path("models/trained"))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    arguments = parser.parse_args()
    try:
        if arguments.part != "overhead":
            figures = ok_share(arguments.model, arguments.clients, arguments.seconds)
            report("serve_requests_ok_share", "share", 1, figures)
        if arguments.part != "ok":
            figures = overhead(arguments.clients, arguments.seconds)
            report("serve_overhead_vs_vllm", "percent", 5, figures)
    except EnvaceError as error:
        sys.exit(f"not measured: {error}")


def report(name: str, unit: str, baseline: float, figures: dict[str, float]) -> None:
    """Print and keep one result."""
    value, *rest = [f"{key}={number:.4g}" for key, number in figures.items()]
    print(f"RESULT name={name} {value} unit={unit} baseline={baseline} " + " ".join(rest), flush=True)
    write_json(HERE / f"{name}.json", {"name": name, "unit": unit, "baseline": baseline} | figures)


def ok_share(folder: Path, clients: int, seconds: float) -> dict[str, float]:
    """Share of requests that a policy in process answers, with times and memory."""
    if not folder.is_dir():
        raise EnvaceError(f"{folder}: no such policy", "run `dvc repro train`, or name a model folder")
    tasks = [pose("courier", "ship", seed, "train") for seed in range(64)]

    def body(number: int) -> dict[str, Any]:
        task = tasks[number % len(tasks)]
        return {
            "model": "envace@parallel-4" if number % 8 == 7 else "envace",
            "messages": [message_to_wire(message) for message in task.messages],
            "tools": [tool_to_wire(tool) for tool in task.tools],
            "seed": number,
            **streamed(number),
        }

    command = [sys.executable, "-m", "envace.cli", "serve", folder, "--port", str(free_port())]
    with running(command, {}) as (url, process):
        load(url, clients, min(5.0, seconds / 10), body)  # what is allocated once
        before = process.memory_info().rss
        outcome = load(url, clients, seconds, body)
        grown = process.memory_info().rss - before
        idle = httpx.get(url.removesuffix("/v1") + "/metrics").text
    if "envace_requests_running 0.0" not in idle:
        raise EnvaceError("requests are still at work after the last answer", "see the server's log")
    return {"value": outcome.ok_share, **told(outcome), "clients": clients, "grown_mb": grown / 1e6}


def overhead(clients: int, seconds: float) -> dict[str, float]:
    """Percent of vLLM's throughput that `envace serve` in front of it costs."""
    folder, port = vllm_cpu.smollm2(), free_port()
    # The command `vllm` asks for a package of that name, which the CPU build is not.
    vllm = [vllm_cpu.python(), "-m", "vllm.entrypoints.openai.api_server", "--model"]
    command = [
        *vllm, folder, "--port", str(port), "--served-model-name", "m", "--dtype", "bfloat16",
        "--enforce-eager", "--max-model-len", "1024", "--disable-uvicorn-access-log",
    ]  # fmt: skip

    def body(number: int) -> dict[str, Any]:
        content = f"{number}. Tell me about the number {number % 97} and what follows it. " * 4
        messages = [{"role": "user", "content": content}]
        # No seed: vLLM on a CPU dies of seeds where it takes prompts in parts, as it does here.
        fixed = {"max_tokens": NEW_TOKENS, "ignore_eos": True}
        return {"model": "m", "messages": messages, **fixed, **streamed(number)}

    with running(command, vllm_cpu.settings()) as (direct, _):
        front = [
            sys.executable,
            "-m",
            "envace.cli",
            "serve",
            "--upstream",
            direct,
            "--port",
            str(free_port()),
        ]
        with running(front, {}) as (through, _):
            for url in (direct, through):
                load(url, clients, min(5.0, seconds / 10), body)  # the first calls compile
            pairs = []
            for turn in range(ROUNDS):
                found = {}
                # Who begins changes, so that a trend favors neither.
                for url in (direct, through)[:: 1 if turn % 2 else -1]:
                    found[url] = load(url, clients, seconds / 2 / ROUNDS, body)
                pairs.append((found[direct], found[through]))
                rates = " ".join(f"{outcome.tokens_per_second:.0f}" for outcome in pairs[-1])
                print(f"tokens/s, directly and through: {rates}", file=sys.stderr, flush=True)
    failed = [outcome.errors for pair in pairs for outcome in pair if outcome.errors]
    if failed:
        raise EnvaceError(f"requests failed: {failed[0].most_common(1)}", "see the servers' messages above")
    costs = [100 * (1 - b.tokens_per_second / a.tokens_per_second) for a, b in pairs]
    last_direct, last_through = pairs[-1]
    return {
        "value": median(costs),
        "lowest": min(costs),
        "highest": max(costs),
        **told(last_through),
        **{f"vllm_{key}": number for key, number in told(last_direct).items()},
        "clients": clients,
    }


def streamed(number: int) -> dict[str, Any]:
    """Every other request is a stream that ends with its usage."""
    return {"stream": True, "stream_options": {"include_usage": True}} if number % 2 else {}


def told(outcome: Outcome) -> dict[str, float]:
    """Figures of a load; the first errors go to the terminal."""
    for text, count in outcome.errors.most_common(3):
        print(f"{count} × {text}", file=sys.stderr, flush=True)
    return {
        "p50_seconds": outcome.percentile(50),
        "p99_seconds": outcome.percentile(99),
        "tokens_per_s": outcome.tokens_per_second,
        "requests": outcome.requests,
        "errors": outcome.errors.total(),
    }


@contextmanager
def running(command: list[Any], settings: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """A server in its own process, once it answers; its base URL and process."""
    command = [str(part) for part in command]
    url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
    server = subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while not answers(f"{url}/health"):
            if server.poll() is not None or time.monotonic() > end:
                raise EnvaceError(f"{command[:3]} does not start", "see its messages above")
            time.sleep(0.2)
        yield f"{url}/v1", psutil.Process(server.pid)
    finally:
        server.terminate()
        server.wait(60)


def answers(url: str) -> bool:
    """Whether a server is ready."""
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


if __name__ == "__main__":
    main()
