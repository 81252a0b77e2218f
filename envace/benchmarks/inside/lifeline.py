"""A harness process ends with the run that started it, even when that is killed."""

import os
import threading


def tie() -> None:
    """Exit when standard input ends: the run holds its other end, and nothing is ever written to it."""
    if os.environ.get("ENVACE_LIFELINE"):
        threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    os.read(0, 1)  # not through `sys.stdin`, whose lock the interpreter wants when it ends
    os._exit(1)
