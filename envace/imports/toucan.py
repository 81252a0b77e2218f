"""Toucan: trajectories over the tools of real MCP servers.

Origin: `Agent-Ark/Toucan-1.5M` (Apache-2.0). All columns are strings. The configuration `SFT` has `messages`
with the roles system, user, assistant, tool_call (a Python literal with `name` and `arguments`, the latter
JSON) and tool_response, and `tools`; the others have `available_tools` and messages of OpenAI's shape, calls
in `function_call`. `target_tools` and the quality assessments have no place in a trajectory.
"""

from typing import Any

from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object
from envace.imports.turns import joined
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    found = as_list(record.get("messages"), "messages")
    messages = [as_object(message, f"messages[{number}]") for number, message in enumerate(found)]
    if any(message.get("role") == "tool_call" for message in messages):
        messages = joined((m.get("role"), m.get("content"), m.get("name")) for m in messages)
    tools = as_list(record.get("tools") or record.get("available_tools"), "tools")
    return trajectory(origin, messages, tools, id=record.get("uuid"))
