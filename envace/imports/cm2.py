"""CM2 and EnvACE checklist data: recorded conversations with conditions for each user turn.

Origin: the `namezz/checklist` collection (CM2, github.com/namezhenzhang/CM2-RLCR-Tool-Agent), whose shape
EnvACE's training data follows. In JSON a record is `{uuid, messages, tools, checklists}`. In parquet
`messages` holds only the prompt, and the rest is in `extra_info`: `messages` (the whole recording), `tools`
(JSON in a string), `original_index` and `interaction_kwargs.checklist_list`.
"""

from typing import Any

from envace.imports.checklists import read_checklist
from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory with its checklist.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    extra = as_object(record.get("extra_info") or {}, "extra_info")
    kwargs = as_object(extra.get("interaction_kwargs") or {}, "extra_info.interaction_kwargs")
    checklists = kwargs.get("checklist_list") or record.get("checklist_list") or record.get("checklists")
    index = extra.get("original_index")
    return trajectory(
        origin,
        as_list(extra.get("messages") or record.get("messages"), "messages"),
        as_list(extra.get("tools") or record.get("tools"), "tools"),
        read_checklist(checklists),
        id=record.get("uuid") or record.get("id") or (None if index is None else f"cm2-{index}"),
    )
