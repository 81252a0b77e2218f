"""The one error type that reaches a user as a single line."""


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
