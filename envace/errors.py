"""The one error type that reaches a user as a single line, and failures of the machine that become one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a limit that is full."""
SAID = (*map(os.strerror, FULL), "PytorchStreamWriter failed writing", "inline_container.cc")
"""How libraries that hide the number say it."""


class EnvaceError(Exception):
    """A problem the user can mend; the command line prints it without a traceback.

    Args:
        message: What is wrong, in one line, with the file and line where there is one.
        mend: What to do about it, in one line.
    """

    def __init__(self, message: str, mend: str = "") -> None:
        self.message = message
        self.mend = mend
        super().__init__(f"{message} ({mend})" if mend else message)


@contextmanager
def room() -> Iterator[None]:
    """Turn a write for which there is no room into one line.

    Raises:
        EnvaceError: Instead of whatever a library raises then.
    """
    try:
        yield
    except EnvaceError:
        raise
    except Exception as error:
        numbered = isinstance(error, OSError) and error.errno in FULL
        if not numbered and not any(text in str(error) for text in SAID):
            raise
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise EnvaceError(
            f"{where}{said}", "make room and run it again; what was finished is kept"
        ) from error
