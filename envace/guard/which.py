"""Which tools are guarded: those that their annotations call irreversible, unless a list says otherwise."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from envace.trajectory import Tool
from envace.trajectory.records import Record


class Lists(Record):
    """Tools by name, as patterns (`delete_*`, `db.[a-m]*`); case matters."""

    irreversible: tuple[str, ...] = ()
    """Always guarded, whatever else is said of them."""
    reversible: tuple[str, ...] = ()
    """Never guarded, unless `irreversible` names them too."""

    def guards(self, name: str, irreversible: bool) -> bool:
        """Whether a tool is guarded.

        Args:
            name: The tool.
            irreversible: What is said of it elsewhere; either list wins over that.
        """
        if any(fnmatchcase(name, pattern) for pattern in self.irreversible):
            return True
        return irreversible and not any(fnmatchcase(name, pattern) for pattern in self.reversible)


def irreversible_by_hints(annotations: Mapping[str, Any] | None) -> bool:
    """Whether MCP annotations leave it possible that a call destroys something.

    The defaults are the specification's (Model Context Protocol, `ToolAnnotations`): `readOnlyHint` is
    false and `destructiveHint` is true, so a tool that says nothing is irreversible.
    """
    hints = annotations or {}
    return hints.get("readOnlyHint") is not True and hints.get("destructiveHint") is not False


def tool_from_mcp(listed: Mapping[str, Any]) -> Tool:
    """An entry of `tools/list` as a record, under its published name.

    Raises:
        pydantic.ValidationError: It has no name.
    """
    fields = {
        "name": listed.get("name"),
        "description": listed.get("description") or "",
        "parameters": listed.get("inputSchema") or {"type": "object", "properties": {}},
        "returns": listed.get("outputSchema"),
        "irreversible": irreversible_by_hints(listed.get("annotations")),
    }
    return Tool.model_validate(fields)
