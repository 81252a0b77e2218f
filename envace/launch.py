"""A stage that needs several processes starts itself again under `accelerate launch`."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envace.errors import EnvaceError


def relaunch(config: str | None, module: str, arguments: Sequence[str] = ()) -> None:
    """Run `python -m module` on all processes of an accelerate configuration, then exit as it did.

    Returns at once where there is nothing to start, or where this process is one of those started.
    The command of a stage thus stays the same on one GPU and on eight.

    Args:
        config: Configuration file, `scale.launch`; None for one process.
        module: Module to run.
        arguments: Its arguments.

    Raises:
        EnvaceError: The file is not there.
        SystemExit: The processes ended; with their exit code.
    """
    if config is None or "WORLD_SIZE" in os.environ:
        return
    if not Path(config).is_file():
        raise EnvaceError(f"scale.launch: {config}: no such file", "see conf/accelerate")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", config, "-m", module]
    sys.exit(subprocess.call([*command, *arguments]))
