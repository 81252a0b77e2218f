"""The `envace` command. Every sub-command imports what it needs, so `--help` answers at once."""

import argparse
import os
import sys

from envace import __version__
from envace.cli import data, measure, policy, project
from envace.errors import EnvaceError, room


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
    for part in (data, policy, measure, project):
        part.add_commands(commands)
    return root
