"""FinMCP-Bench: financial dialogs over the tools of a vendor's MCP server, the recorded responses inline.

Origin: `DianJin/FinMCP-Bench` (arXiv 2603.24943, CC-BY-NC-SA-4.0). `messages` of OpenAI's shape; `tool_list`
holds bare names, nested in single-turn samples, and there once for each call. The tools' schemas are not
published, so that every tool takes any arguments.
"""

from collections.abc import Iterator
from typing import Any

from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object, unreadable
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One sample as a trajectory.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    names = dict.fromkeys(_names(as_list(record.get("tool_list"), "tool_list")))
    return trajectory(origin, as_list(record.get("messages"), "messages"), list(names), id=record.get("id"))


def kind(value: Any) -> str:
    """Kind of a sample: `single_step`, `multi_step` or `multi_turn`.

    Raises:
        ValueError: It names none.
    """
    task = as_object(value, "a record").get("task")
    if not isinstance(task, str) or not task:
        raise unreadable("task: absent", "leave it as published")
    return task.replace(" ", "_")


def _names(found: Any) -> Iterator[str]:
    if isinstance(found, list):
        for part in found:
            yield from _names(part)
    else:
        yield str(found)
