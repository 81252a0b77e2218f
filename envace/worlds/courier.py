"""Courier: commit once, under a tariff that is learnable but never printed.

The total of an offer is its base price plus a surcharge for zone and weight. The tariff
is the same in every episode, so it can be learned from revealed totals; a shipment is
final and only one real quote is granted, so trying things out for real does not help.
Here private rehearsal is worth something, and only to a policy that knows the tariff.
"""

import random
from typing import Any, ClassVar

from envace.trajectory import Tool
from envace.worlds.base import Goal, Response, Split
from envace.worlds.names import NamePool
from envace.worlds.offers import Offers, priced

ZONES = ("N", "S", "E", "W")
WEIGHTS = range(1, 9)
BASES = range(1, 4)
KINDS = {"zone": "string", "kg": "integer", "base": "integer"}


def _tariff() -> dict[tuple[str, int], int]:
    """Surcharge by (zone, weight), 1–6; rises with weight in some zones and falls in others."""
    rng = random.Random(42)
    table: dict[tuple[str, int], int] = {}
    for zone in ZONES:
        surcharges = sorted(rng.randint(1, 6) for _ in WEIGHTS)
        if rng.random() < 0.5:
            surcharges.reverse()
        table |= {(zone, kg): surcharge for kg, surcharge in zip(WEIGHTS, surcharges, strict=True)}
    return table


TARIFF = _tariff()


class Courier(Offers):
    """Four offers; the goal is to ship with the one whose total is lowest, at the first try."""

    name = "courier"
    tools: ClassVar[tuple[Tool, ...]] = (
        priced("ship", "Ship with an offer; final. Answers the total.", True, **KINDS),
        priced("quote", "The total of an offer; one quote is free.", False, **KINDS),
    )
    templates: ClassVar[dict[str, Split]] = {"ship": "demonstrated"}
    fields = tuple(KINDS)

    def draw(self, rng: random.Random) -> list[Any]:
        return [rng.choice(ZONES), rng.choice(WEIGHTS), rng.choice(BASES)]

    def worth(self, offer: str) -> int:
        zone, kg, base = self.offers[offer]
        return base + TARIFF[zone, kg]

    def _totals(self) -> dict[str, int]:
        return {offer: self.worth(offer) for offer in self.offers}

    def quote(self, **given: Any) -> Response:
        return self.try_out(given, self._totals())

    def ship(self, **given: Any) -> Response:
        return self.commit(given, self._totals(), "shipped")

    def goal_ship(self, rng: random.Random, names: NamePool) -> Goal:
        return self.best("ship", "ship at the lowest total")
