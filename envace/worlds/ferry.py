"""Ferry: commit once, where responses are drawn by chance and their spread has to be learned.

The total of a crossing is its base plus a delay. The delay is drawn anew for every call, from a
distribution that depends on the kind of water; which kind awaits a line at an hour is printed
nowhere and the same in every episode. One real look proves little: what counts is the total to be
expected, which only a policy that has learned the spread can rehearse. An episode's draws are
fixed by its task, so that an evaluation repeats exactly.
"""

import random
from typing import Any, ClassVar

from envace.trajectory import Tool
from envace.worlds.base import Goal, Response, Split
from envace.worlds.names import NamePool
from envace.worlds.offers import Offers, priced

LINES = ("K", "L", "M", "P")
HOURS = range(1, 9)
BASES = range(1, 6)
FIELDS = {"line": "string", "hour": "integer", "base": "integer"}
DELAYS = {"calm": (1, 2, 2, 2, 3), "fair": (2, 4, 4, 4, 6), "rough": (3, 6, 6, 6, 9)}
"""Delays by kind of water, equally likely; the middle one is the mean and the most frequent."""


def _waters() -> dict[tuple[str, int], str]:
    """Kind of water by (line, hour): every line meets the three kinds in turn, in an order of its own."""
    rng = random.Random(7)
    table: dict[tuple[str, int], str] = {}
    for line in LINES:
        first, second, third = rng.sample(list(DELAYS), 3)
        early, late = sorted(rng.sample(HOURS[1:], 2))
        table |= {(line, h): first if h < early else second if h < late else third for h in HOURS}
    return table


WATERS = _waters()


class Ferry(Offers):
    """Four crossings; the goal is to sail with the one whose total is lowest on average."""

    name = "ferry"
    tools: ClassVar[tuple[Tool, ...]] = (
        priced("sail", "Sail with an offer; final. Answers the total, by chance.", True, **FIELDS),
        priced("watch", "The total of an offer on another day; one look is free.", False, **FIELDS),
    )
    templates: ClassVar[dict[str, Split]] = {"sail": "demonstrated"}
    fields = tuple(FIELDS)

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        super().__init__(rng, names)
        self.today, self.other_day = self._drawn(rng), self._drawn(rng)

    def draw(self, rng: random.Random) -> list[Any]:
        return [rng.choice(LINES), rng.choice(HOURS), rng.choice(BASES)]

    def _drawn(self, rng: random.Random) -> dict[str, int]:
        """Every offer's total on one day."""
        return {
            offer: base + rng.choice(DELAYS[WATERS[line, hour]])
            for offer, (line, hour, base) in self.offers.items()
        }

    def worth(self, offer: str) -> int:
        line, hour, base = self.offers[offer]
        delays = DELAYS[WATERS[line, hour]]
        return base + sum(delays) // len(delays)

    def watch(self, **given: Any) -> Response:
        return self.try_out(given, self.other_day)

    def sail(self, **given: Any) -> Response:
        return self.commit(given, self.today, "sailed")

    def goal_sail(self, rng: random.Random, names: NamePool) -> Goal:
        return self.best("sail", "sail at the lowest total on average")
