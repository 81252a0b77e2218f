"""Courier: commit once, under a tariff that is learnable but never printed.

The total of an offer is its base price plus a surcharge for zone and weight. The tariff
is the same in every episode, so it can be learned from revealed totals; a shipment is
final and only one real quote is granted, so trying things out for real does not help.
Here private rehearsal is worth something, and only to a policy that knows the tariff.
"""

import random
from typing import Any, ClassVar

from envace.trajectory import Outcome, Tool, ToolCall, compact
from envace.worlds.base import Expert, Goal, NotPossible, Response, Split, ToolError, World, keys, tool
from envace.worlds.names import NamePool

ZONES = ("N", "S", "E", "W")
WEIGHTS = range(1, 9)
BASES = range(1, 6)
OFFERS = "ABCD"
"""Labels of the offers; what is offered under them is random."""
REAL_QUOTES = 1


def _tariff() -> dict[tuple[str, int], int]:
    """Surcharge by (zone, weight), 1–9; rises with weight in some zones and falls in others."""
    rng = random.Random(42)
    table: dict[tuple[str, int], int] = {}
    for zone in ZONES:
        surcharges = sorted(rng.randint(1, 9) for _ in WEIGHTS)
        if rng.random() < 0.5:
            surcharges.reverse()
        table |= {(zone, kg): surcharge for kg, surcharge in zip(WEIGHTS, surcharges, strict=True)}
    return table


TARIFF = _tariff()


def _priced(name: str, description: str, irreversible: bool) -> Tool:
    kinds = {"offer": "string", "zone": "string", "kg": "integer", "base": "integer"}
    plain = tool(name, description, irreversible, keys(total="integer"), **kinds)
    return plain.model_copy(update={"outcome": Outcome(field="total", better="lower")})


class Courier(World):
    """Four offers; the goal is to ship with the one whose total is lowest, at the first try."""

    name = "courier"
    tools: ClassVar[tuple[Tool, ...]] = (
        _priced("ship", "Ship with an offer; final. Answers the total.", irreversible=True),
        _priced("quote", "The total of an offer; one quote is free.", irreversible=False),
    )
    templates: ClassVar[dict[str, Split]] = {"ship": "demonstrated"}
    commit_once = True

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        self.offers: dict[str, list[Any]] = {
            label: [rng.choice(ZONES), rng.choice(WEIGHTS), rng.choice(BASES)] for label in OFFERS
        }
        self.shipped = ""
        self.quotes = REAL_QUOTES

    def printed(self) -> str:
        return compact(self.offers)

    def state(self) -> Any:
        return self.shipped

    def total(self, zone: str, kg: int, base: int) -> int:
        """What an offer costs in all."""
        return base + TARIFF[zone, kg]

    def arguments(self, offer: str) -> dict[str, Any]:
        """The arguments that name an offer by its own record."""
        zone, kg, base = self.offers[offer]
        return {"offer": offer, "zone": zone, "kg": kg, "base": base}

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        return self.arguments(rng.choice(list(self.offers)))

    def commit_arguments(self) -> list[dict[str, Any]]:
        return [self.arguments(offer) for offer in self.offers]

    def _checked(self, offer: str, zone: str, kg: int, base: int) -> int:
        if self.offers.get(offer) != [zone, kg, base]:
            raise ToolError("offer")
        return self.total(zone, kg, base)

    def quote(self, offer: str, zone: str, kg: int, base: int) -> Response:
        total = self._checked(offer, zone, kg, base)
        if self.quotes == 0:
            raise ToolError("quota")
        self.quotes -= 1
        return {"total": total}

    def ship(self, offer: str, zone: str, kg: int, base: int) -> Response:
        total = self._checked(offer, zone, kg, base)
        if self.shipped:
            raise ToolError("shipped")
        self.shipped = offer
        return {"total": total}

    def goal_ship(self, rng: random.Random, names: NamePool) -> Goal:
        totals = {offer: self.total(*record) for offer, record in self.offers.items()}
        lowest = min(totals.values())
        best = [offer for offer, total in totals.items() if total == lowest]
        if len(best) > 1:
            raise NotPossible
        arguments = self.arguments(best[0])

        def expert() -> Expert:
            yield ToolCall(name="ship", arguments=arguments)
            return "done"

        return Goal("ship at the lowest total", expert)
