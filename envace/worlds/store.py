"""Store: a look-up chain that feeds a transaction (name → id → order)."""

import random
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

ID_LETTERS = "hjqwxy"
ITEM = one_key(row("string", "integer", "integer"))
ORDER = keys(order="string", left="integer")


class Store(World):
    """Items with id, price and stock; orders take from the stock and can be canceled."""

    name = "store"
    tools: ClassVar[tuple[Tool, ...]] = (
        tool("get_item", "Id, price and stock of an item.", returns=ITEM, item="string"),
        tool("order", "Order a quantity of an item by id.", returns=ORDER, id="string", qty="integer"),
        tool("cancel", "Cancel an order.", returns=keys(canceled="string"), order="string"),
    )
    templates: ClassVar[dict[str, Split]] = {
        "price": "demonstrated",
        "order": "demonstrated",
        "order_or_rest": "demonstrated",
        "order_cancel": "practiced",
        "stock": "practiced",
        "order_all": "practiced",
        "order_all_cancel": "held_out",
    }

    def __init__(self, rng: random.Random, names: NamePool) -> None:
        count = rng.randint(3, 4)
        letters = rng.sample(ID_LETTERS, count)
        self.items: dict[str, list[Any]] = {
            name: [f"{letter}{rng.randint(0, 9)}", rng.randint(10, 99), rng.randint(1, 9)]
            for name, letter in zip(names.draw(rng, count), letters, strict=True)
        }
        self.orders: dict[str, tuple[str, int]] = {}
        self.placed = 0
        self.log: list[tuple[Any, ...]] = []

    def printed(self) -> str:
        return compact(self.items)

    def state(self) -> Any:
        return self.items, self.orders, self.log

    def random_arguments(self, tool: str, rng: random.Random, names: NamePool) -> dict[str, Any]:
        if tool == "get_item":
            known = rng.random() < 0.8
            return {"item": rng.choice(list(self.items)) if known else names.draw(rng, 1)[0]}
        if tool == "order":
            record = rng.choice(list(self.items.values()))
            known = rng.random() < 0.9
            return {
                "id": record[0] if known else f"{rng.choice(ID_LETTERS)}{rng.randint(0, 9)}",
                "qty": rng.randint(1, 9) if rng.random() < 0.5 else rng.randint(1, max(1, record[2])),
            }
        return {"order": f"o{rng.randint(1, max(1, self.placed) + 1)}"}

    def get_item(self, item: str) -> Response:
        if item not in self.items:
            raise ToolError("item")
        return {item: self.items[item]}

    def order(self, id: str, qty: int) -> Response:
        record = next((record for record in self.items.values() if record[0] == id), None)
        if record is None:
            raise ToolError("id")
        if qty < 1:
            raise ToolError("qty")
        if qty > record[2]:
            raise ToolError("stock", stock=record[2])
        record[2] -= qty
        self.placed += 1
        self.orders[f"o{self.placed}"] = (id, qty)
        self.log.append(("order", id, qty))
        return {"order": f"o{self.placed}", "left": record[2]}

    def cancel(self, order: str) -> Response:
        if order not in self.orders:
            raise ToolError("order")
        id, qty = self.orders.pop(order)
        self.log.append(("cancel", id, qty))
        next(record for record in self.items.values() if record[0] == id)[2] += qty
        return {"canceled": order}

    def goal_price(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            return str(found[item][1])

        return Goal(f"price of {item}?", expert)

    def goal_stock(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            return str(found[item][2])

        return Goal(f"stock of {item}?", expert)

    def goal_order(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))
        qty = rng.randint(1, self.items[item][2])

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            done = yield ToolCall(name="order", arguments={"id": found[item][0], "qty": qty})
            return f"left {done['left']}"

        return Goal(f"order {qty} {item}", expert)

    def goal_order_or_rest(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))
        qty = rng.randint(1, 9)

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            id = found[item][0]
            done = yield ToolCall(name="order", arguments={"id": id, "qty": qty})
            if "error" in done:
                done = yield ToolCall(name="order", arguments={"id": id, "qty": done["stock"]})
            return f"left {done['left']}"

        return Goal(f"order {qty} {item} or the rest", expert)

    def goal_order_all(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            id, _, stock = found[item]
            done = yield ToolCall(name="order", arguments={"id": id, "qty": stock})
            return f"left {done['left']}"

        return Goal(f"order all {item}", expert)

    def goal_order_cancel(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))
        qty = rng.randint(1, self.items[item][2])

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            done = yield ToolCall(name="order", arguments={"id": found[item][0], "qty": qty})
            yield ToolCall(name="cancel", arguments={"order": done["order"]})
            return "done"

        return Goal(f"order {qty} {item} then cancel it", expert)

    def goal_order_all_cancel(self, rng: random.Random, names: NamePool) -> Goal:
        item = rng.choice(list(self.items))
        if self.items[item][2] < 2:
            raise NotPossible

        def expert() -> Expert:
            found = yield ToolCall(name="get_item", arguments={"item": item})
            id, _, stock = found[item]
            done = yield ToolCall(name="order", arguments={"id": id, "qty": stock})
            yield ToolCall(name="cancel", arguments={"order": done["order"]})
            return "done"

        return Goal(f"order all {item} then cancel it", expert)
