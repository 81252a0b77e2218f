"""Commands that use a policy: rehearse, serve, guard."""

import argparse
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Make them known."""
    add = commands.add_parser("rehearse", help="rehearse one task in private and show what was imagined")
    add.add_argument("file", type=Path, metavar="TASK.json", help="one task, or JSON lines of tasks")
    add.add_argument("which", nargs="?", default="0", help="index from 0, or an id")
    add.add_argument("--model", type=Path, default=Path("models/trained"), help="folder of the policy")
    add.add_argument("--strategy", default="parallel-8", help="strategy, budget, memory: parallel-4+plans")
    add.add_argument("--seed", type=int, default=0, help="seed of the private sampling")
    add.add_argument("--tokens", type=int, default=64, help="tokens of one turn at most")
    add.add_argument("--trace", type=Path, help="JSON file to write the whole trace to")
    add.set_defaults(run=rehearse)

    add = commands.add_parser("serve", help="OpenAI-compatible server over a policy that rehearses")
    add.add_argument(
        "model", type=Path, nargs="?", metavar="FOLDER", help="a trained policy, e.g. models/trained"
    )
    add.add_argument("options", nargs="*", metavar="KEY=VALUE", help="of the engine, e.g. max_model_len=4096")
    add.add_argument("--upstream", metavar="URL", help="instead of a policy: an OpenAI-compatible server")
    add.add_argument("--host", default="127.0.0.1")
    add.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    add.add_argument(
        "--guard", type=Path, metavar="FILE", help="rehearse irreversible calls first; see docs/guard.md"
    )
    add.add_argument("--engine", default="hf", help="what samples: hf, or vllm where it is installed")
    add.add_argument("--branches", type=int, default=8, help="branches of a private rehearsal")
    add.add_argument("--max-tokens", type=int, default=128, help="tokens of a reply without a limit")
    add.add_argument("--running", type=int, default=64, help="requests at work at once")
    add.add_argument("--waiting", type=int, default=256, help="requests in line; more are answered 429")
    add.add_argument("--per-minute", type=int, default=0, help="requests a minute from one address; 0: any")
    add.add_argument("--timeout", type=float, default=600, help="seconds in which a request is answered")
    add.set_defaults(run=serve)

    add = commands.add_parser("guard", help="MCP proxy that rehearses irreversible calls before they pass")
    add.add_argument("--config", type=Path, default=Path("guard.yaml"), help="see docs/guard.md")
    add.set_defaults(run=guard)


def rehearse(arguments: argparse.Namespace) -> None:
    """envace rehearse."""
    from rich.console import Console

    from envace.files import write_json
    from envace.rehearsal.base import Settings, load_policy
    from envace.rehearsal.strategies import strategy
    from envace.rehearsal.terminal import read_conversation, rehearse, show

    chosen = strategy(arguments.strategy, Settings(turn_tokens=arguments.tokens))
    conversation = read_conversation(arguments.file, arguments.which)
    policy = load_policy(arguments.model)
    trace, committed = rehearse(policy, conversation, chosen, arguments.seed, arguments.tokens)
    if arguments.trace:
        write_json(arguments.trace, trace.model_dump(mode="json"))
    show(trace, committed, Console())


def serve(arguments: argparse.Namespace) -> None:
    """envace serve."""
    from envace.serve.command import serve

    serve(arguments)


def guard(arguments: argparse.Namespace) -> None:
    """envace guard."""
    from importlib.util import find_spec

    from envace.guard.config import load_config, make_guard

    if find_spec("mcp") is None:
        raise EnvaceError("the guard needs the mcp package", "pip install 'envace[guard]'")
    config = load_config(arguments.config)
    from envace.guard.proxy import serve

    serve(config, make_guard(config))
