"""Commands of the benchmarks: harnesses, and a benchmark against a server."""

import argparse
from pathlib import Path
from typing import Any

from envace.errors import EnvaceError


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Make them known."""
    add = commands.add_parser("harness", help="benchmark harnesses in their own environments")
    add.add_argument("action", choices=("install", "list", "check"))
    add.add_argument("name", nargs="?", help="bfcl, tau2, vitabench or finmcp; all when left out")
    add.add_argument(
        "--from", dest="source", type=Path, metavar="PATH", help="your own copy, for a harness that needs one"
    )
    add.set_defaults(run=harness)

    add = commands.add_parser("evaluate", help="a benchmark against any OpenAI-compatible server")
    add.add_argument("benchmark", metavar="BENCHMARK", help="bfcl_v4, tau2, vitabench or finmcp")
    add.add_argument("options", nargs="*", metavar="KEY=VALUE", help="e.g. categories=[non_live]")
    add.add_argument("--url", default="http://127.0.0.1:8000/v1", help="its address, ending in /v1")
    add.add_argument("--limit", type=int, default=10, help="tasks a category, a seeded sample; 0: all")
    add.add_argument("--seed", type=int, default=1)
    add.add_argument("--trials", type=int, default=1, help="of every task, each with a seed of its own")
    add.add_argument("--strategy", default="direct", help="how the server answers; noted in the result")
    add.add_argument("--served", metavar="NAME", help="what is served; a killed run with the same goes on")
    add.add_argument("--out", type=Path, default=Path("evaluated"), help="folder to write")
    add.set_defaults(run=evaluate)


def harness(arguments: argparse.Namespace) -> None:
    """envace harness."""
    from envace import benchmarks
    from envace.benchmarks import copies
    from envace.benchmarks import harness as harnesses

    known = list(dict.fromkeys([*harnesses.names(), *copies.OWN]))
    if arguments.name not in (None, *known):
        raise EnvaceError(f"no harness {arguments.name!r}", f"choose from {', '.join(known)}")
    listing = arguments.action == "list"
    for name in [arguments.name] if arguments.name else known:
        own, built = name in copies.OWN, name in harnesses.names()
        if own and not arguments.name and not listing and not copies.given(name):
            continue  # nobody has to own every benchmark
        if arguments.action == "check":
            for benchmark, modes in benchmarks.check(name).items():
                _show_check(benchmark, modes)
            continue
        if arguments.action == "install":
            if own:
                copies.install(name, arguments.source)
            if built:
                harnesses.install(name)
        states = (
            [harnesses.version(name)] if not own else [f"{'' if copies.given(name) else 'no '}copy given"]
        )
        states += [f"{'' if harnesses.installed(name) else 'not '}installed"] if built else []
        print(f"{name}: {', '.join(states)}")


def _show_check(benchmark: str, modes: dict[str, dict[str, float]]) -> None:
    for mode, groups in modes.items():
        scores = ", ".join(f"{group} {score:.3f}" for group, score in groups.items())
        print(f"{benchmark}, {mode}: {scores}")
    if any(score < 1.0 for score in modes["gold"].values()):
        raise EnvaceError(f"{benchmark}: a gold answer is not accepted", "reinstall the harness")
    if any(score > 0.0 for score in modes.get("spoiled", {}).values()):
        raise EnvaceError(f"{benchmark}: a spoiled answer is accepted", "reinstall the harness")


def evaluate(arguments: argparse.Namespace) -> None:
    """envace evaluate."""
    from envace.benchmarks.command import evaluate

    evaluate(arguments)
