"""Options on a command line: `NAME=VALUE`, values as in YAML."""

from collections.abc import Sequence
from typing import Any

from envace.errors import EnvaceError


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
