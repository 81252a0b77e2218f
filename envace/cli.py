"""The `envace` command. Every sub-command imports what it needs, so `--help` answers at once."""

import argparse
import os
import runpy
import sys
from collections import Counter
from pathlib import Path

from envace import __version__
from envace.errors import EnvaceError, room

STAGES = (
    "model",
    "synthesize",
    "filter",
    "leakage",
    "split",
    "warmup",
    "check",
    "train",
    "evaluate_worlds",
    "evaluate",
    "report",
)


def main(argv: list[str] | None = None) -> None:
    """Entry point: errors are one line with the mend, a traceback only with `--debug`."""
    arguments = parse(argv)
    try:
        with room():
            arguments.run(arguments)
    except EnvaceError as error:
        if arguments.debug:
            raise
        sys.exit(f"error: {error}")
    except BrokenPipeError:
        # The reader of a pipe (head, less) left: not an error, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Arguments of the command; where it takes KEY=VALUE, these may stand anywhere among them."""
    root = parser()
    arguments, left = root.parse_known_args(argv)
    # argparse fills a list of positional arguments once, at their first place.
    if left and hasattr(arguments, "options") and not any(word.startswith("-") for word in left):
        arguments.options += left
    elif left:
        root.error(f"unrecognized arguments: {' '.join(left)}")
    return arguments


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(
        prog="envace", description="Train one language model to act and to rehearse its environment."
    )
    root.add_argument("-V", "--version", action="version", version=f"envace {__version__}")
    root.add_argument("--debug", action="store_true", help="show a traceback with an error")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    add = commands.add_parser("import", help="turn your own logs and tool lists into trajectories and tools")
    add.add_argument(
        "format",
        metavar="FORMAT",
        help="openai-messages, cm2, sharegpt, hermes, toucan, apigen-mt, xlam, nemotron, finmcp or mcp-tools",
    )
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines, JSON or parquet")
    add.add_argument(
        "--out", "--output", type=Path, default=Path("imported.jsonl"), help="file to write, a record a line"
    )
    add.set_defaults(run=import_logs)

    add = commands.add_parser("synthesize", help="make trajectories from one source; a killed run resumes")
    add.add_argument("source", metavar="SOURCE", help="worlds, tau2, mcp or rollouts")
    add.add_argument("options", nargs="*", metavar="KEY=VALUE", help="e.g. domains=[retail] or model=NAME")
    add.add_argument("--count", type=int, help="tasks to try; all there are when left out")
    add.add_argument("--seed", type=int, default=0)
    add.add_argument("--out", "--output", type=Path, default=Path("synthetic.jsonl"), help="file to write")
    add.set_defaults(run=synthesize)

    add = commands.add_parser("filter", help="keep what is fit to train on, set the rest aside")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--out", type=Path, default=Path("filtered.jsonl"), help="trajectory file to write")
    add.add_argument("--max-loss", type=float, default=1.0, help="fail when a larger share is set aside")
    add.add_argument("--rules", help="instead of the default rules, e.g. 'roles, length: {max_messages: 60}'")
    add.add_argument(
        "--also", default="", metavar="RULES", help="besides them, e.g. 'success, near_duplicates'"
    )
    add.set_defaults(run=filter_trajectories)

    add = commands.add_parser("leakage", help="look for test items in training data")
    add.add_argument("train", type=Path, metavar="TRAIN", help="trajectory file")
    add.add_argument(
        "--against",
        required=True,
        metavar="SETS",
        help="comma-separated: bfcl_v4, tau2, vitabench=FILE, an import format as in finmcp=FILE, or files "
        "of evaluation items",
    )
    add.add_argument("--policy", choices=("report", "remove", "fail"), default="report")
    add.add_argument(
        "--encoder", default="", metavar="FOLDER", help="sentence encoder, to look for paraphrases"
    )
    add.add_argument("--workers", type=int, default=1, metavar="N", help="processes that compare")
    add.add_argument("--out", type=Path, default=Path("leakage"), help="folder to write")
    add.set_defaults(run=leakage)

    add = commands.add_parser("show", help="read a trajectory in color")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("which", nargs="?", default="0", help="index from 0, or an id")
    add.set_defaults(run=show_trajectory)

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

    add = commands.add_parser("params", help="compose params.yaml from the groups in conf/")
    add.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="e.g. profile=smoke train.rate=5e-4")
    add.set_defaults(run=params)

    add = commands.add_parser("stage", help="run one workflow stage in this folder, without DVC")
    add.add_argument("name", choices=STAGES, metavar="STAGE", help=", ".join(STAGES))
    add.add_argument("arguments", nargs="*", help="e.g. the policy for check")
    add.set_defaults(run=stage)

    for name, text in (("warmup", "learn both roles"), ("train", "EnvACE training")):
        add = commands.add_parser(name, help=f"{text}; a killed run resumes")
        add.set_defaults(run=stage, name=name, arguments=[])
    return root


def import_logs(arguments: argparse.Namespace) -> None:
    """envace import."""
    from envace.imports import REPAIRS, import_files

    quarantine = arguments.out.with_suffix(".quarantine.jsonl")
    format = arguments.format.replace("-", "_")
    counts = import_files(format, arguments.files, arguments.out, quarantine)
    print(f"{counts.kept} imported into {arguments.out}, {counts.quarantined} set aside in {quarantine}")
    for reason, count in counts.reasons.most_common():
        print(f"  {count} × {reason}, first {counts.first[reason]}")
    if counts.repairs:
        print(f"tools of {counts.repaired} records repaired:")
    for kind, count in counts.repairs.most_common():
        print(f"  {count} × {kind}: {REPAIRS[kind]}")


def synthesize(arguments: argparse.Namespace) -> None:
    """envace synthesize."""
    from envace.options import parse_options
    from envace.synthesis.sources import write_source

    out: Path = arguments.out
    options = parse_options(arguments.options)
    share = write_source(arguments.source, options, arguments.count, arguments.seed, out)
    aside = out.with_suffix(".quarantine.jsonl")
    print(f"{share.trajectories} trajectories in {out}, {len(share.quarantined)} set aside in {aside}")
    for reason, count in Counter(record.reason for record in share.quarantined).most_common():
        print(f"  {count} × {reason}")
    for name, value in share.facts.items():
        print(f"{name}: {value}")


def filter_trajectories(arguments: argparse.Namespace) -> None:
    """envace filter."""
    from envace.files import write_json
    from envace.filters import DEFAULT, filter_files, make_rules, parse_rules
    from envace.filters.plot import funnel_plot

    out: Path = arguments.out
    quarantine = out.with_suffix(".quarantine.jsonl")
    chosen = dict.fromkeys(DEFAULT) if arguments.rules is None else parse_rules(arguments.rules)
    rules = make_rules(chosen | parse_rules(arguments.also))
    result = filter_files(arguments.files, out, quarantine, rules, arguments.max_loss)
    write_json(out.with_suffix(".metrics.json"), result.metrics())
    funnel_plot(result, out.with_suffix(".funnel.svg"))
    for name, rule in result.rules.items():
        print(f"{name:15} {rule.entered:8} in {rule.refused:8} refused")
        for example in rule.examples:
            print(f"  {example.where}: {example.reason}")
    print(f"{result.kept} kept in {out}, {result.quarantined} set aside in {quarantine}")


def leakage(arguments: argparse.Namespace) -> None:
    """envace leakage."""
    from envace.leakage import LeakageFiles, check_files, default_methods
    from envace.leakage.sources import read_items

    out: Path = arguments.out
    names = ("clean.jsonl", "quarantine.jsonl", "matches.jsonl", "metrics.json")
    result = check_files(
        arguments.train,
        (item for entry in arguments.against.split(",") for item in read_items(entry)),
        LeakageFiles(*(out / name for name in names)),
        arguments.policy,
        default_methods(arguments.encoder),
        arguments.workers,
    )
    for row in result.table:
        found = ", ".join(f"{method} {count}" for method, count in row.matched.items() if count)
        verdict = "CONTAMINATED" if row.contaminated else "clean"
        print(f"{row.benchmark:10} {row.items:6} items  {verdict:12}  {found or 'no match'}")
    for match in [match for match in result.matches if match.kind == "leak"][:5]:
        print(f"  {match.train_id} holds {match.benchmark} {match.item_id} ({match.method})")
    for note in result.notes:
        print(f"  {note}")


def show_trajectory(arguments: argparse.Namespace) -> None:
    """envace show."""
    from rich.console import Console

    from envace.trajectory.show import show

    show(arguments.file, arguments.which, Console())


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


def params(arguments: argparse.Namespace) -> None:
    """envace params."""
    from envace.compose import write_params

    write_params(arguments.overrides)
    print("params.yaml written")


def stage(arguments: argparse.Namespace) -> None:
    """envace stage: the modules belong to the checkout in the current folder, not to the library."""
    if not Path("stages").is_dir():
        raise EnvaceError("no stages/ here", "run in the project folder")
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [f"stages.{arguments.name}", *arguments.arguments]
    runpy.run_module(f"stages.{arguments.name}", run_name="__main__")


if __name__ == "__main__":
    main()
