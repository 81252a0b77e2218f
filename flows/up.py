"""`python -m flows.up [PORT]`: server, pool, deployments and one worker on this machine, on loopback.

What runs already stays; what is missing is started, so that a second call mends a dead worker.
"""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from envace.errors import EnvaceError
from envace.files import atomic_text
from flows import daemons
from flows.address import HOST, STARTING, answers, api, require_free, wait_until

SERVICES = Path(os.environ["PREFECT_HOME"]) / "services"
"""Records and logs of what `up` started and `down` stops."""
PORT = 4200
PREFECT = (sys.executable, "-m", "prefect")


def up(port: int, folder: Path = SERVICES) -> str:
    """Start the services of the checkout in the current folder.

    Args:
        port: Where the server shall listen; one that runs already stays where it is.
        folder: Where to record what is started.

    Returns:
        The server's interface for programs.

    Raises:
        EnvaceError: The port is taken, or a service does not come up; then nothing is left running
            that was not running before.
    """
    begun = []
    try:
        address, is_new = _server(port, folder)
        begun += ["server"] if is_new else []
        from flows.services import POOL, configure, deployed, environment

        configure(address)
        env = environment(address)
        _deploy(deployed(address), folder / "prefect.yaml", env)
        if not daemons.recorded("worker", folder):
            begun.append("worker")
            worker = daemons.start("worker", [*PREFECT, "worker", "start", "--pool", POOL], env, folder)
            if wait_until(lambda: not daemons.running(worker), 3.0):
                raise EnvaceError(f"the worker ended: {daemons.last_words(folder, 'worker')}")
    except BaseException:
        for name in reversed(begun):
            daemons.stop(name, folder)
        raise
    return address


def _server(port: int, folder: Path) -> tuple[str, bool]:
    """Address of the server, and whether it was started here."""
    if known := daemons.recorded("server", folder):
        return api(int(known.command[-1])), False
    require_free(port)
    from flows.services import environment

    address = api(port)
    command = [*PREFECT, "server", "start", "--host", HOST, "--port", str(port)]
    server = daemons.start("server", command, environment(address), folder)
    try:
        wait_until(lambda: answers(address) or not daemons.running(server), STARTING)
        if not answers(address):
            raise EnvaceError(
                f"the server did not come up: {daemons.last_words(folder, 'server')}",
                f"see {daemons.log(folder, 'server')}",
            )
    except BaseException:
        daemons.stop("server", folder)
        raise
    return address, True


def _deploy(known: set[str], file: Path, env: dict[str, str]) -> None:
    """Make the deployments of prefect.yaml known, or bring them up to date.

    Args:
        known: Deployments the server has, `FLOW/NAME`. Their schedules are left to their owner, who may have
            turned one on: what is deployed with a schedule loses those it had.
        file: Where to write what is deployed.
        env: Environment of the command.
    """
    try:
        given = yaml.safe_load(Path("prefect.yaml").read_text(encoding="utf-8"))
        for each in given["deployments"]:
            if f"{each['entrypoint'].rpartition(':')[2]}/{each['name']}" in known:
                each.pop("schedules", None)
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise EnvaceError(f"prefect.yaml cannot be read: {reason}", "see docs/operations.md") from error
    with atomic_text(file) as handle:
        yaml.safe_dump(given, handle, sort_keys=False)
    done = subprocess.run(
        [*PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        said = [line.strip(" │|") for line in (done.stdout + done.stderr).splitlines()]
        said = [line for line in said if any(map(str.isalnum, line))]
        raise EnvaceError(f"prefect deploy: {said[-1] if said else 'failed'}", "mend prefect.yaml")


def main() -> int:
    """Start the services and say where they are."""
    try:
        given = sys.argv[1] if len(sys.argv) > 1 else str(PORT)
        if not given.isdecimal():
            raise EnvaceError(f"{given!r} is no port", "make ui PORT=4200")
        address = up(int(given))
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"Prefect is at {address.removesuffix('/api')} (make down stops it)")
    print(f"for its command line: export PREFECT_API_URL={address}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
