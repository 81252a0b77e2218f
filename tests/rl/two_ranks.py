"""Two processes on this machine that train together."""

import socket
import time
from collections.abc import Callable
from typing import Any

import torch.multiprocessing as mp

LIMIT = 240
"""Seconds after which a rank is waiting for something that will not come."""


def world(rank: int, port: int) -> dict[str, str]:
    """What the launcher tells one of them."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"} | address


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def on_both(function: Callable[..., None], *args: Any) -> None:
    """Run `function(rank, port, *args)` in both, to the end."""
    context = mp.spawn(function, (free_port(), *args), nprocs=2, join=False)
    deadline = time.monotonic() + LIMIT
    try:
        while not context.join(timeout=5):
            assert time.monotonic() < deadline, "a rank is still waiting"
    finally:
        for process in context.processes:
            process.kill()
