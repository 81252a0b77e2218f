"""How glibc's allocator treats the heap; on other systems nothing happens.

Source: mallopt(3).
"""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Options of `mallopt`."""


def keep_freed() -> None:
    """Keep freed memory: giving it back after every operation costs a third of batched decoding."""
    _set(M_MMAP_THRESHOLD, 1 << 30)
    _set(M_TRIM_THRESHOLD, (1 << 31) - 1)


def share_arenas() -> None:
    """Let many threads share two arenas: with one each, a server under load holds twice the memory it uses.

    Only before the threads start.
    """
    _set(M_ARENA_MAX, 2)


def _set(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(option, value)
