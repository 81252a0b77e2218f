"""Options by name: read from a command line, handed to what takes them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from envace.errors import EnvaceError

T = TypeVar("T")


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """Options as they are written on a command line, `NAME=VALUE` with values as in YAML.

    Raises:
        EnvaceError: One is not readable.
    """
    import yaml

    options = {}
    for word in words:
        name, equals, value = word.partition("=")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            equals = ""
        if not (name and equals):
            raise EnvaceError(f"option {word!r} cannot be read", "write NAME=VALUE")
    return options


def with_options(name: str, make: Callable[..., T], options: Mapping[str, Any]) -> T:
    """What `make` makes of the options.

    Args:
        name: What it is, for the error.
        make: A class or function that names its options.
        options: Their values.

    Raises:
        EnvaceError: It has no such option, or lacks one.
    """
    try:
        return make(**options)
    except TypeError as error:
        reason = re.sub(r"^\S*__init__\(\) ", "", str(error))
        raise EnvaceError(f"{name}: {reason}", "mend its options") from error
