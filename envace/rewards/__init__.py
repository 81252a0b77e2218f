"""Rewards: how a finished episode is judged."""

from collections.abc import Callable, Mapping
from typing import Any

from envace.errors import EnvaceError
from envace.rewards.base import Reward, Scored
from envace.rewards.checklist import Checklist
from envace.rewards.judge import remote_judge
from envace.rewards.process import Process
from envace.rewards.replay import Replay

REWARDS: dict[str, Callable[..., Reward]] = {
    "replay": Replay,
    "checklist": Checklist,
    "judge": remote_judge,
    "process": Process,
}
"""Makers of rewards by name."""


def make_reward(options: Mapping[str, Any]) -> Reward:
    """A reward from its parameters.

    Args:
        options: `name` in `REWARDS`, and its arguments; an argument that is itself a mapping with a
            `name` is made first, as in `{"name": "process", "outcome": {"name": "replay"}}`.

    Raises:
        EnvaceError: An unknown reward or argument.
    """
    name = options.get("name", "")
    if name not in REWARDS:
        raise EnvaceError(f"unknown reward {name!r}", f"choose from {', '.join(REWARDS)}")
    arguments = {
        key: make_reward(value) if isinstance(value, Mapping) and "name" in value else value
        for key, value in options.items()
        if key != "name"
    }
    try:
        return REWARDS[name](**arguments)
    except TypeError as error:
        raise EnvaceError(f"reward {name}: {error}", "mend its options") from error


__all__ = ["REWARDS", "Reward", "Scored", "make_reward"]
