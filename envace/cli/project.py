"""Commands of a checkout: parameters and stages."""

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

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


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Make them known."""
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
