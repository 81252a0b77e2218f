"""Sampling of a role: its stop markers, and random numbers of its own each turn."""

import random
from dataclasses import replace

from envace.chat import Template
from envace.engines import Sampling


def with_markers(sampling: Sampling, template: Template, stop: frozenset[int]) -> Sampling:
    """The same sampling with stop markers and the template's forbidden ones."""
    return replace(sampling, stop_ids=stop, forbidden_ids=template.forbidden_ids)


def for_turn(sampling: Sampling, role: str, turn: int) -> Sampling:
    """The same sampling with a seed of its own: turns and roles must not share random numbers."""
    seed = random.Random(f"{sampling.seed}/{role}/{turn}").randrange(2**31)
    return replace(sampling, seed=seed, continued=True)
