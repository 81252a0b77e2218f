"""The `envace` command. Every sub-command imports what it needs, so `--help` answers at once."""

import argparse
import os
import runpy
import sys
from pathlib import Path

from envace import __version__
from envace.errors import EnvaceError

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
    arguments = parser().parse_args(argv)
    try:
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


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(
        prog="envace", description="Train one language model to act and to rehearse its environment."
    )
    root.add_argument("--version", action="version", version=f"envace {__version__}")
    root.add_argument("--debug", action="store_true", help="show a traceback with an error")
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")

    add = commands.add_parser("import", help="turn your own logs into trajectories")
    add.add_argument("format", metavar="FORMAT", help="openai-messages: OpenAI chat logs, JSON or JSON lines")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--out", type=Path, default=Path("imported.jsonl"), help="trajectory file to write")
    add.set_defaults(run=import_logs)

    add = commands.add_parser("filter", help="keep what is fit to train on, set the rest aside")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--out", type=Path, default=Path("filtered.jsonl"), help="trajectory file to write")
    add.add_argument("--max-loss", type=float, default=1.0, help="fail when a larger share is set aside")
    add.set_defaults(run=filter_trajectories)

    add = commands.add_parser("leakage", help="look for test items in training data")
    add.add_argument("train", type=Path, metavar="TRAIN", help="trajectory file")
    add.add_argument(
        "--against", required=True, help="comma-separated: bfcl_v4, tau2, or files of evaluation items"
    )
    add.add_argument("--policy", choices=("report", "remove", "fail"), default="report")
    add.add_argument("--out", type=Path, default=Path("leakage"), help="folder to write")
    add.set_defaults(run=leakage)

    add = commands.add_parser("show", help="read a trajectory in color")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("which", nargs="?", default="0", help="index from 0, or an id")
    add.set_defaults(run=show_trajectory)

    add = commands.add_parser("serve", help="OpenAI-compatible server over a policy, with private rehearsal")
    add.add_argument("model", type=Path, metavar="FOLDER", help="a trained policy, e.g. models/trained")
    add.add_argument("--host", default="127.0.0.1")
    add.add_argument("--port", type=int, default=8000)
    add.add_argument("--branches", type=int, default=8, help="branches of a private rehearsal")
    add.add_argument("--max-tokens", type=int, default=128, help="tokens of a reply without a limit")
    add.set_defaults(run=serve)

    add = commands.add_parser("harness", help="benchmark harnesses in their own environments")
    add.add_argument("action", choices=("install", "list", "check"))
    add.add_argument("name", nargs="?", help="bfcl or tau2; all when left out")
    add.set_defaults(run=harness)

    add = commands.add_parser("params", help="compose params.yaml from the groups in conf/")
    add.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="e.g. profile=smoke train.rate=5e-4")
    add.set_defaults(run=params)

    add = commands.add_parser("stage", help="run one workflow stage in this folder, without DVC")
    add.add_argument("name", choices=STAGES, metavar="STAGE", help=", ".join(STAGES))
    add.add_argument("arguments", nargs="*", help="e.g. the policy for check")
    add.set_defaults(run=stage)
    return root


def import_logs(arguments: argparse.Namespace) -> None:
    """envace import."""
    from envace.imports import import_files

    quarantine = arguments.out.with_suffix(".quarantine.jsonl")
    format = arguments.format.replace("-", "_")
    counts = import_files(format, arguments.files, arguments.out, quarantine)
    print(f"{counts.kept} imported into {arguments.out}, {counts.quarantined} set aside in {quarantine}")
    for reason, count in counts.reasons.most_common():
        print(f"  {count} × {reason}")


def filter_trajectories(arguments: argparse.Namespace) -> None:
    """envace filter."""
    from envace.filters import filter_files, make_rules

    quarantine = arguments.out.with_suffix(".quarantine.jsonl")
    result = filter_files(arguments.files, arguments.out, quarantine, make_rules(), arguments.max_loss)
    for name, rule in result.rules.items():
        print(f"{name:12} {rule.entered:8} in {rule.refused:8} refused")
        for example in rule.examples:
            print(f"  {example.where}: {example.reason}")
    print(f"{len(result.kept)} kept in {arguments.out}, {len(result.quarantined)} set aside in {quarantine}")


def leakage(arguments: argparse.Namespace) -> None:
    """envace leakage."""
    from envace.benchmarks import BENCHMARKS, benchmark
    from envace.leakage import LeakageFiles, check_files
    from envace.trajectory import write_records

    out: Path = arguments.out
    files = []
    for name in arguments.against.split(","):
        if name in BENCHMARKS:
            file = out / f"items_{name}.jsonl"
            write_records(file, benchmark(name).items())
            files.append(file)
        else:
            files.append(Path(name))
    names = ("clean.jsonl", "quarantine.jsonl", "matches.jsonl", "metrics.json")
    result = check_files(
        arguments.train, files, LeakageFiles(*(out / name for name in names)), arguments.policy
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


def serve(arguments: argparse.Namespace) -> None:
    """envace serve."""
    from envace.serve.policy_backend import load_backend
    from envace.serve.runner import serve_forever

    backend = load_backend(arguments.model, arguments.branches, arguments.max_tokens)
    print(f"serving {', '.join(backend.models())} on http://{arguments.host}:{arguments.port}/v1", flush=True)
    serve_forever(backend, arguments.host, arguments.port)


def harness(arguments: argparse.Namespace) -> None:
    """envace harness."""
    from envace import benchmarks
    from envace.benchmarks import harness as harnesses

    names = [arguments.name] if arguments.name else harnesses.names()
    for name in names:
        if arguments.action == "install":
            harnesses.install(name)
        if arguments.action == "check":
            for benchmark, groups in benchmarks.check(name).items():
                scores = ", ".join(f"{group} {score:.3f}" for group, score in groups.items())
                print(f"{benchmark}: gold answers score {scores}")
                if any(score < 1.0 for score in groups.values()):
                    raise EnvaceError(f"{benchmark}: a gold answer is not accepted", "reinstall the harness")
        else:
            state = "installed" if harnesses.installed(name) else "not installed"
            print(f"{name} {harnesses.version(name)}: {state}")


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
