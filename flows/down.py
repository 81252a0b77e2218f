"""`python -m flows.down`: stop what `flows.up` started, and nothing else."""

import sys
from pathlib import Path

from flows import daemons
from flows.address import answers, api
from flows.up import SERVICES


def down(folder: Path = SERVICES) -> list[str]:
    """Cancel what runs, then stop worker and server.

    Returns:
        What was stopped.
    """
    stopped = []
    server, worker = daemons.recorded("server", folder), daemons.recorded("worker", folder)
    if server and worker and answers(address := api(int(server.command[-1]))):
        from flows.services import cancel_runs

        # A run that lost its worker and its server together would stay Running until it is found dead.
        if count := cancel_runs(address):
            stopped.append(f"{count} flow runs")
    return stopped + [name for name in ("worker", "server") if daemons.stop(name, folder)]


def main() -> int:
    """Stop the services and say what was stopped."""
    print(f"stopped: {', '.join(down()) or 'nothing was running'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
