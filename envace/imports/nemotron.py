"""Nemotron: multi-turn tool use by several tools, the raw material of CM2.

Origin: `nvidia/Nemotron-Post-Training-Dataset-v1`, split `tool_calling` (310,051 rows, CC-BY-4.0).
`messages` of OpenAI's shape; the tools are in `metadata`, JSON in a string: `{"tools": [...]}`.
"""

from typing import Any

from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    metadata = as_object(record.get("metadata") or {}, "metadata")
    tools = as_list(metadata.get("tools") or record.get("tools"), "metadata.tools")
    return trajectory(origin, as_list(record.get("messages"), "messages"), tools, id=record.get("uuid"))
