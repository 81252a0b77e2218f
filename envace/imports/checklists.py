"""CM2's checklists, `[checklist][user turn][item]`: yes/no conditions with weights for each user turn."""

from typing import Any

from envace.imports.decode import as_list, as_object, unreadable
from envace.trajectory import ChecklistItem
from envace.trajectory.records import weights_sum_to_one


def read_checklist(value: Any, what: str = "checklists") -> tuple[ChecklistItem, ...]:
    """The items of the first of several alternative checklists.

    Evidence, failure examples and dependences have no place in the records and are left out.

    Args:
        value: The nested lists, or JSON of them; nothing gives no items.
        what: How an error names them.

    Raises:
        ValueError: Another shape, or weights of a turn that do not sum to 1.
    """
    checklists = as_list(value, what)
    if not checklists:
        return ()
    items: list[ChecklistItem] = []
    for turn, entries in enumerate(as_list(checklists[0], f"{what}[0]")):
        for entry in as_list(entries, f"{what}[0][{turn}]"):
            item = as_object(entry, f"{what}[0][{turn}] item")
            items.append(
                ChecklistItem(
                    id=f"t{turn}.{item.get('id', len(items))}",
                    question=str(item.get("question", "")),
                    turn=turn,
                    weight=item.get("weight", 0.0),
                    focus_on=str(item.get("focus_on", "")),
                    pass_condition=str(item.get("pass_condition", "")),
                )
            )
    if not weights_sum_to_one(tuple(items)):
        raise unreadable(f"{what}: the weights of a turn do not sum to 1", "scale them")
    return tuple(items)
