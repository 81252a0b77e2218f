"""Real MCP sessions for tests: servers and guards as processes, clients that are called without await."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from anyio.from_thread import BlockingPortal
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

SERVER = Path(__file__).with_name("accounts_server.py")
ROOT = Path(__file__).parents[2]
GUARD = (sys.executable, "-m", "envace.cli", "guard", "--config")


def predict(body: dict[str, Any], number: int) -> str:
    """What the accounts would return; about notes on a doubt, predictions differ each time."""
    call = json.loads(body["messages"][1]["content"].rpartition("# call\n")[2])
    if call["name"] == "close":
        return json.dumps({"paid_out": {"ada": 120, "bob": -5}[call["arguments"]["name"]]})
    return json.dumps(f"noted {number}" if "doubt" in call["arguments"]["text"] else "noted")


def configured(folder: Path, model_url: str, **fields: Any) -> Path:
    """A configuration file that guards the accounts server, or whatever `fields` say."""
    command = [sys.executable, str(SERVER), str(folder / "counts")]
    values: dict[str, Any] = {
        "upstream": {"command": command},
        "rehearse": {"endpoint": {"endpoints": [model_url], "model": "m", "attempts": 1}, "times": 2},
        "rules": {"agreement": 0.6, "limits": [{"tool": "close", "field": "paid_out", "min": 0}]},
    }
    path = folder / "guard.yaml"
    path.write_text(yaml.safe_dump(values | fields))
    return path


def reached(folder: Path) -> list[str]:
    """Tools of the calls that reached the server."""
    counts = folder / "counts"
    return counts.read_text().split() if counts.exists() else []


def logged(folder: Path) -> list[dict[str, Any]]:
    """Lines of the log."""
    log = folder / "guard.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@dataclass
class Session:
    """A connected client."""

    portal: BlockingPortal
    client: Client
    progress: list[float] = field(default_factory=list)

    def call(self, tool: str, **arguments: Any) -> Any:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(progress)

        return self.portal.call(lambda: self.client.call_tool(tool, arguments, progress_callback=report))

    def do(self, method: str, *arguments: Any) -> Any:
        return self.portal.call(getattr(self.client, method), *arguments)


@dataclass
class Person:
    """Answers the questions that the client shows; they are kept."""

    answer: ElicitResult = field(default_factory=lambda: ElicitResult(action="cancel"))
    asked: list[str] = field(default_factory=list)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self.answer


@contextmanager
def connected(
    portal: BlockingPortal, server: Any, person: Person | None = None, mode: str = "auto"
) -> Iterator[Session]:
    """A client of a server: a command, or a URL."""
    if isinstance(server, tuple):
        command, *arguments = map(str, server)
        environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        server = StdioServerParameters(command=command, args=arguments, env=environment)
    client = Client(server, elicitation_callback=person, mode=mode, read_timeout_seconds=20)
    with portal.wrap_async_context_manager(client) as entered:
        yield Session(portal, entered)


@contextmanager
def guard_on_http(config: Path) -> Iterator[str]:
    """`envace guard` with a port; yields its endpoint."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([*GUARD, str(config)], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "/mcp" in line, line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=10)
