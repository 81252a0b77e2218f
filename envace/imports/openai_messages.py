"""Conversations in the OpenAI chat format: `{"messages": [...], "tools": [...]}`, as most sets publish them.

Origin: the chat completions API of OpenAI, its older `functions` and `function_call` included. Reads what
is found in the wild: tools and calls as JSON strings, arguments as strings or objects, tool turns without
`tool_call_id`, `content` null or in text parts, reasoning in `reasoning_content` or as a leading `<think>`
block, and CM2's nested `checklists`.
"""

from typing import Any

from envace.imports.checklists import read_checklist
from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory.

    Args:
        value: The decoded record.
        origin: Where it stands; its default id is for a record that has neither `id` nor `uuid`.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    tools = record.get("tools") or record.get("functions")
    return trajectory(
        origin,
        as_list(record.get("messages"), "messages"),
        as_list(tools, "tools"),
        read_checklist(record.get("checklists")),
        id=record.get("id") or record.get("uuid"),
    )
