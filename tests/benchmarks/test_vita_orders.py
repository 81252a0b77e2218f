"""The order check by hand."""

import json
import os
from pathlib import Path

import pytest

from envace.benchmarks.inside.vita_orders import required, share_found, signature


def order(id="1", shop="S", status="paid", products=(("P", 1),), kind="delivery"):
    rows = [{"product_id": product, "quantity": count, "price": 1.0} for product, count in products]
    return {"order_id": id, "order_type": kind, "store_id": shop, "status": status, "products": rows}


@pytest.mark.parametrize(
    ("made", "share"),
    [
        ([order("other id")], 1.0),
        ([order(status="delivered")], 1.0),
        ([order(status="unpaid")], 0.0),
        ([order(status="cancelled")], 0.0),
        ([order(products=[("P", 2)])], 0.0),
        ([order(products=[("P", 1), ("Q", 1)])], 0.0),
        ([order(shop="T")], 0.0),
        ([order(kind="instore")], 0.0),
        ([], 0.0),
    ],
)
def test_an_order_is_the_same_but_for_its_id_and_later_stages(made, share):
    assert share_found([order(status="processed")], made) == share


def test_orders_are_multisets_and_nothing_wanted_is_no_score():
    twice = [order("1"), order("2")]
    assert share_found(twice, twice[:1]) == 0.5
    assert share_found(twice, [*twice, order(shop="T")]) == 1.0
    assert share_found([], twice) is None
    assert signature(order(products=[("P", 1), ("Q", 2)])) == signature(order(products=[("Q", 2), ("P", 1)]))
    assert required({}) == required({"expected_states": [{"required_orders": [order(kind="instore")]}]}) == []


def test_the_published_delivery_tasks_have_orders_to_compare():
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared"))
    file = shared / "data" / "vitabench" / "delivery_tasks_en.json"
    if not file.is_file():
        pytest.skip(f"data/vitabench/{file.name} is absent")
    tasks = json.loads(file.read_text(encoding="utf-8"))
    wanted = [required(task["evaluation_criteria"]) for task in tasks]
    # 396 orders, three of which hold another one among their products.
    assert sum(map(len, wanted)) == 399 and all(map(signature, (o for orders in wanted for o in orders)))
    assert {share_found(orders, orders) for orders in wanted} <= {1.0, None}
