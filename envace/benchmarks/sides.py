"""Models that take a side in a benchmark, the user or the judge, behind endpoints of the user's."""

import os
from dataclasses import dataclass
from typing import Literal

from envace.errors import EnvaceError


@dataclass(frozen=True)
class Side:
    """A model behind an OpenAI-compatible endpoint."""

    role: str
    """`user` or `judge`."""
    model: str
    """Name that the endpoint knows it by."""
    url: str
    """Base URL, ending in `/v1` as a rule."""
    key: str
    """Bearer key; `none` where the endpoint asks for none."""


def side(role: Literal["user", "judge"], model: str) -> Side:
    """The model that plays a role: its address in `ENVACE_<ROLE>_URL`, its key in `ENVACE_<ROLE>_KEY`.

    Raises:
        EnvaceError: No address is set, or it or the key is not usable.
    """
    from envace.engines.openai import checked_url, read_key

    name = f"ENVACE_{role.upper()}"
    url = os.environ.get(f"{name}_URL", "")
    if not url:
        raise EnvaceError(f"no endpoint for the {role} {model}", f"export {name}_URL=http://host:port/v1")
    key = read_key(f"{name}_KEY") if os.environ.get(f"{name}_KEY") else "none"
    return Side(role, model, checked_url(url), key)
