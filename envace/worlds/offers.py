"""What the commit-once worlds share: four labeled offers, one free trial, one final commitment.

A response is the total of an offer under rules that are the same in every episode and printed in
none, so they can be learned from revealed totals; trying things out for real does not help.
"""

import random
from typing import Any, ClassVar

from envace.trajectory import Outcome, Tool, ToolCall, compact
from envace.worlds.base import Expert, Goal, NotPossible, Response, ToolError, World, keys, tool
from envace.worlds.names import NamePool

LABELS = "ABCD"
"""Labels of the offers; what is offered under them is random."""
TRIALS = 1
"""Free trials an episode."""


def priced(name: str, description: str, irreversible: bool, **kinds: str) -> Tool:
    """A tool that takes an offer with its whole record and answers its total; lower is better."""
    plain = tool(name, description, irreversible, keys(total="integer"), offer="string", **kinds)
    return plain.model_copy(update={"outcome": Outcome(field="total", better="lower")})


class Offers(World):
    """The goal is to commit to the best of four offers at the first try."""

    commit_once = True
    fields: ClassVar[tuple[str, ...]]
    """Arguments that repeat an offer's record, in its order."""

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        self.offers: dict[str, list[Any]] = {label: self.draw(rng) for label in LABELS}
        self.chosen = ""
        self.trials = TRIALS

    def draw(self, rng: random.Random) -> list[Any]:
        """The record of one offer."""
        raise NotImplementedError

    def worth(self, offer: str) -> int:
        """What is lowest for the offer to choose."""
        raise NotImplementedError

    def printed(self) -> str:
        return compact(self.offers)

    def state(self) -> Any:
        return self.chosen

    def arguments(self, offer: str) -> dict[str, Any]:
        """The arguments that name an offer by its own record."""
        return {"offer": offer, **dict(zip(self.fields, self.offers[offer], strict=True))}

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        return self.arguments(rng.choice(list(self.offers)))

    def commit_arguments(self) -> list[dict[str, Any]]:
        return [self.arguments(offer) for offer in self.offers]

    def _known(self, given: dict[str, Any]) -> str:
        offer = given["offer"]
        if offer not in self.offers or given != self.arguments(offer):
            raise ToolError("offer")
        return offer

    def try_out(self, given: dict[str, Any], total: dict[str, int]) -> Response:
        """Answer the total of one offer without commitment."""
        offer = self._known(given)
        if self.trials == 0:
            raise ToolError("quota")
        self.trials -= 1
        return {"total": total[offer]}

    def commit(self, given: dict[str, Any], total: dict[str, int], again: str) -> Response:
        """Choose an offer; a second time is refused with the code `again`."""
        offer = self._known(given)
        if self.chosen:
            raise ToolError(again)
        self.chosen = offer
        return {"total": total[offer]}

    def best(self, tool: str, text: str) -> Goal:
        """The goal to commit, with a tool, to the offer that is worth most."""
        worth = {offer: self.worth(offer) for offer in self.offers}
        lowest = min(worth.values())
        best = [offer for offer in worth if worth[offer] == lowest]
        if len(best) > 1:
            raise NotPossible
        arguments = self.arguments(best[0])

        def expert() -> Expert:
            yield ToolCall(name=tool, arguments=arguments)
            return "done"

        return Goal(text, expert)
