"""Commands that make, import, sift and show trajectories."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Make them known."""
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
