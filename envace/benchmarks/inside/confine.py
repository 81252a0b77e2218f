"""A second wall behind the allow-list: what a harness process may do once a model's text is near it.

Python's audit hooks (PEP 578) cannot be taken off again. They are no sandbox against native code, which
nothing here lets a model reach; they do stop whatever Python code could do that the allow-list overlooked.
"""

import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROGRAMS = frozenset(
    [
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
        "pty.spawn",
        "os.startfile",
    ]
)
"""Audit events of other programs."""

PEERS = ("socket.connect", "socket.sendto")
"""Audit events of another party on the network."""

PATHS = {
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.remove": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.chown": 1,
    "os.utime": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
    "shutil.move": 2,
}
"""Audit events that change files, and how many paths they name."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags of a file that is opened to be changed."""

MEMORY = 16 * 2**30
"""Bytes of address space at most."""
FILE = 2**30
"""Bytes of one file at most."""


class Confined(PermissionError):  # noqa: N818 - what happened, not whose fault it is
    """Something the process may not do."""


def confine(folder: Path, *base_urls: str) -> None:
    """From here on: no other program, no writes outside `folder`, connections to `base_urls` alone.

    Args:
        folder: The only place where files may be made, changed or removed.
        base_urls: The endpoints; none for no network at all.
    """
    root = os.path.realpath(folder)
    hosts: set[Any] = set()
    addresses: set[tuple[Any, ...]] = set()
    for base_url in base_urls:
        names, numbers = _endpoint(base_url)
        hosts |= names
        addresses |= numbers
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))

    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return True  # a file that is open already
        name = os.fsdecode(path)
        place = os.path.realpath(name)
        # A parent's name could be meant from another folder than the current one (`dir_fd`).
        return place == os.devnull or (
            ".." not in Path(name).parts and (place == root or place.startswith(root + os.sep))
        )

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            # A folder that is opened by `os.open` lends its number to calls that name paths within it.
            lends = mode is None and not isinstance(path, int) and Path(os.fsdecode(path)).is_dir()
            if path is not None and (lends or flags & WRITING) and not inside(path):
                raise Confined(f"no writing to {path!r}")
        elif event in PATHS:
            if not all(map(inside, arguments[: PATHS[event]])):
                raise Confined(f"no {event} of {arguments[0]!r}")
        elif event in PROGRAMS:
            raise Confined(f"no {event}")
        elif event == "socket.getaddrinfo" and arguments[0] not in hosts:
            raise Confined(f"no look-up of {arguments[0]!r}")
        elif event == "socket.bind" or (event in PEERS and tuple(arguments[1][:2]) not in addresses):
            raise Confined(f"no {event} with {arguments[1]!r}")

    sys.addaudithook(watch)


def _endpoint(base_url: str) -> tuple[set[Any], set[tuple[Any, ...]]]:
    """Names and addresses that may be used."""
    url = urlsplit(base_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    found = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
    addresses = {tuple(address[:2]) for *_, address in found}
    return {url.hostname, (url.hostname or "").encode()} | {host for host, _ in addresses}, addresses
