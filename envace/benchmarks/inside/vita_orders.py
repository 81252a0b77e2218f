"""Our own look at the orders a VitaBench conversation ends with; the benchmark itself asks a judge alone.

An order's id hashes the time, so that equal orders have other ids: compared are type, shop, products with
their quantities, and whether the order stands. A judge who says yes to everything passes an unpaid order;
this does not.
"""

from collections import Counter
from typing import Any

Order = dict[str, Any]
"""An order as the data have it."""


def standing(status: str) -> str:
    """`cancelled`, `unpaid`, or `placed`: later stages of a paid order are no act of the agent's."""
    return status if status in ("cancelled", "unpaid") else "placed"


def signature(order: Order) -> tuple[Any, ...]:
    """What two orders must share to be the same."""
    products = sorted((str(p["product_id"]), int(p["quantity"])) for p in order["products"])
    return order["order_type"], order["store_id"], standing(order["status"]), tuple(products)


def required(criteria: dict[str, Any]) -> list[Order]:
    """Delivery orders that a task's criteria require; other kinds are not compared."""
    states = criteria.get("expected_states") or []
    orders = [order for state in states for order in state.get("required_orders") or []]
    return [apart for order in orders if order.get("order_type") == "delivery" for apart in split(order)]


def split(order: Order) -> list[Order]:
    """An order, and those that the data by mistake list among its products."""
    inner = [part for part in order["products"] if "products" in part]
    own = order | {"products": [part for part in order["products"] if "products" not in part]}
    return [own, *(apart for part in inner for apart in split(part))]


def share_found(wanted: list[Order], made: list[Order]) -> float | None:
    """Share of the wanted orders that are among those made, as multisets; None when none is wanted."""
    if not wanted:
        return None
    expected = Counter(map(signature, wanted))
    there = Counter(signature(order) for order in made if order.get("order_type") == "delivery")
    return (expected & there).total() / expected.total()
