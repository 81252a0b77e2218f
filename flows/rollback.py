"""`python -m flows.rollback [VERSION]`: back to the champion before the present one, or to any version."""

import sys
from pathlib import Path

from envace.errors import EnvaceError
from flows.registry import champions, promote, versions


def rollback(root: Path, version: str | None = None) -> tuple[str, str]:
    """Make a former policy the champion again.

    Args:
        root: The checkout.
        version: A registered version; None is the champion before the present one.

    Returns:
        The version in service before, and now.

    Raises:
        EnvaceError: There is nothing to go back to, or no such version.
    """
    line, known = champions(root), versions(root)
    if not line:
        raise EnvaceError("there is no champion yet", "the first retrain makes one")
    if version is None and len(line) < 2:
        raise EnvaceError(f"{line[-1]} is the first champion", f"name one of {', '.join(known)}")
    chosen = version or line[-2]
    if chosen not in known:
        raise EnvaceError(f"no version {chosen}", f"choose from {', '.join(known)}")
    promote(root, chosen, f"rolled back from {line[-1]}")
    return line[-1], chosen


def main() -> int:
    """Roll back and say what is in service now."""
    try:
        before, now = rollback(Path(), *sys.argv[1:2])
    except EnvaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"champion: {now} (before: {before})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
