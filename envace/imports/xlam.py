"""xLAM: one question and the calls that answer it, without responses.

Origin: `Salesforce/xlam-function-calling-60k` (CC-BY-4.0). `{id, query, answers, tools}`, the last two as
JSON in strings; a tool's `parameters` map each argument to `{description, type, default}`, the type a Python
name such as `str, optional` or `List[int]`. An argument that is not optional and has no default is required.
"""

from typing import Any

from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object, unreadable
from envace.imports.type_names import is_optional
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory of two turns.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    if not isinstance(record.get("query"), str) or not record["query"].strip():
        raise unreadable("query: absent or empty", "leave the record out")
    messages = [
        {"role": "user", "content": record["query"]},
        {"role": "assistant", "tool_calls": as_list(record.get("answers"), "answers")},
    ]
    tools = [_flagged(tool, number) for number, tool in enumerate(as_list(record.get("tools"), "tools"))]
    return trajectory(origin, messages, tools, id=record.get("id"))


def _flagged(value: Any, number: int) -> dict[str, Any]:
    """The tool, each argument saying whether it is required."""
    tool = as_object(value, f"tools[{number}]")
    parameters = tool.get("parameters")
    if not isinstance(parameters, dict) or "properties" in parameters:
        return tool
    flagged = dict(parameters)
    for name, argument in parameters.items():
        if isinstance(argument, dict):
            optional = is_optional(str(argument.get("type"))) or "default" in argument
            flagged[name] = {"required": not optional} | argument
    return tool | {"parameters": flagged}
