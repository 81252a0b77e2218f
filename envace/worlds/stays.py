"""Stays: a search under filters, then an action on the best hit."""

import random
from collections.abc import Callable
from typing import Any, ClassVar

from envace.trajectory import Tool, ToolCall, compact
from envace.worlds.base import (
    Expert,
    Goal,
    NotPossible,
    Response,
    Split,
    ToolError,
    World,
    keys,
    one_key,
    row,
    tool,
)
from envace.worlds.names import NamePool

KINDS = ("inn", "hut")
ID_LETTERS = "hjqwxy"
HITS = one_key({"type": "array", "items": row("string", "integer")})


class Stays(World):
    """Places to stay by town and kind, each with an id and a price; a place is booked once."""

    name = "stays"
    tools: ClassVar[tuple[Tool, ...]] = (
        tool(
            "search",
            "Ids and prices of the stays of one kind in a town, cheapest first.",
            returns=HITS,
            town="string",
            kind="string",
        ),
        tool("book", "Book a stay by id.", returns=keys(booked="string"), id="string"),
        tool("release", "Give a booked stay back.", returns=keys(released="string"), id="string"),
    )
    templates: ClassVar[dict[str, Split]] = {
        "cheapest": "demonstrated",
        "book_cheapest": "demonstrated",
        "book_release": "practiced",
        "book_dearest": "demonstrated",
        "dearest": "practiced",
        "book_id": "practiced",
        "dearest_release": "held_out",
    }

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        self.towns = names.draw(rng, 2)
        self.lists: dict[str, list[list[Any]]] = {f"{t} {k}": [] for t in self.towns for k in KINDS}
        letters = rng.sample(ID_LETTERS, 5)
        prices = sorted(rng.sample(range(10, 100), 5))
        keys = list(self.lists)
        full = rng.sample(keys, 2)
        places = [full[0], full[0], full[1], full[1], rng.choice(keys)]
        for key, letter, price in zip(places, letters, prices, strict=True):
            self.lists[key].append([f"{letter}{rng.randint(0, 9)}", price])
        self.booked: list[str] = []
        self.log: list[tuple[str, str]] = []

    def printed(self) -> str:
        return compact(self.lists)

    def state(self) -> Any:
        return self.log

    def _ids(self) -> list[str]:
        return [stay[0] for stays in self.lists.values() for stay in stays]

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        if tool == "search":
            known = rng.random() < 0.85
            return {
                "town": rng.choice(self.towns) if known else names.draw(rng, 1)[0],
                "kind": rng.choice(KINDS),
            }
        if tool == "release" and self.booked and rng.random() < 0.7:
            return {"id": rng.choice(self.booked)}
        known = rng.random() < 0.85
        return {"id": rng.choice(self._ids()) if known else f"{rng.choice(ID_LETTERS)}{rng.randint(0, 9)}"}

    def search(self, town: str, kind: str) -> Response:
        key = f"{town} {kind}"
        if key not in self.lists:
            raise ToolError("town")
        return {key: self.lists[key]}

    def book(self, id: str) -> Response:
        if id not in self._ids():
            raise ToolError("id")
        if id in self.booked:
            raise ToolError("taken")
        self.booked.append(id)
        self.log.append(("book", id))
        return {"booked": id}

    def release(self, id: str) -> Response:
        if id not in self.booked:
            raise ToolError("id")
        self.booked.remove(id)
        self.log.append(("release", id))
        return {"released": id}

    def _filtered(self, rng: random.Random) -> tuple[str, str, str]:
        """Town, kind and key of a list with at least two stays."""
        keys = [key for key, stays in self.lists.items() if len(stays) > 1]
        if not keys:
            raise NotPossible
        key = rng.choice(keys)
        town, kind = key.split(" ")
        return town, kind, key

    def _ranked(
        self, rng: random.Random, best: Callable[..., Any], wording: str, then: tuple[str, ...]
    ) -> Goal:
        """Search, pick the extreme price, and apply the tools of `then` to its id."""
        town, kind, key = self._filtered(rng)

        def expert() -> Expert:
            found = yield ToolCall(name="search", arguments={"town": town, "kind": kind})
            id, price = best(found[key], key=lambda stay: stay[1])
            for name in then:
                yield ToolCall(name=name, arguments={"id": id})
            return "done" if then else f"{id} {price}"

        return Goal(wording.format(f"{town} {kind}"), expert)

    def goal_cheapest(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, min, "cheapest {}?", ())

    def goal_dearest(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, max, "dearest {}?", ())

    def goal_book_cheapest(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, min, "book the cheapest {}", ("book",))

    def goal_book_dearest(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, max, "book the dearest {}", ("book",))

    def goal_book_release(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, min, "book the cheapest {} then release it", ("book", "release"))

    def goal_dearest_release(self, rng: random.Random, names: NamePool) -> Goal:
        return self._ranked(rng, max, "book the dearest {} then release it", ("book", "release"))

    def goal_book_id(self, rng: random.Random, names: NamePool) -> Goal:
        id = rng.choice(self._ids())

        def expert() -> Expert:
            yield ToolCall(name="book", arguments={"id": id})
            return "done"

        return Goal(f"book {id}", expert)
