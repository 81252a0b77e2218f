"""Numbers that add up: what a call must leave, worked out from what was said before it.

A new law is one function and one line in `LAWS`. A law answers None where the conversation does not tell.
"""

import json
import re
from collections.abc import Callable

from envace.quality.rehearsal import Rehearsal, is_error


def stock_left(row: Rehearsal) -> bool | None:
    """What an order leaves is the stock before it less the quantity."""
    id, quantity = (row.call.arguments.get(name) for name in ("id", "qty"))
    record = rf"\[{re.escape(json.dumps(id))},\d+,(\d+)\]"
    said = row.context.replace(" ", "")
    *_, last = [None, *re.finditer(record, said)]
    told = said[last.end() :] if last else ""
    # The call at hand names the id once; any other order or a cancellation since then moved the stock.
    moved = told.count(f'"id":{json.dumps(id)}') != 1 or '"name":"cancel"' in told
    if last is None or moved or not isinstance(quantity, int):
        return None
    return bool(row.value.get("left") == int(last.group(1)) - quantity)


LAWS: dict[str, Callable[[Rehearsal], bool | None]] = {"store.order": stock_left}
"""Laws by `world.tool`."""


def adds_up(row: Rehearsal) -> bool | None:
    """A response that is no error keeps the law of its tool, where it has one."""
    law = LAWS.get(f"{row.world}.{row.tool.name}")
    if law is None or not isinstance(row.value, dict) or is_error(row.value) or is_error(row.truth):
        return None
    return law(row)
