"""Tool lists of MCP servers, as `tools/list` answers and as collections of servers hold them.

Origin: the Model Context Protocol (modelcontextprotocol.io). Reads a server `{server, label, tools: [...]}`,
the bare result `{"tools": [...]}`, and a JSON-RPC answer with it in `result`. A tool has `name`,
`description`, `inputSchema`, and optionally `outputSchema` and `annotations` (`destructiveHint` makes it
irreversible).
"""

from typing import Any

from envace.imports.conversation import Imported, Origin
from envace.imports.decode import as_list, as_object, unreadable
from envace.imports.schema import normalize_all
from envace.trajectory import Tool
from envace.trajectory.records import Lineage, Record


class ToolServer(Record):
    """A server and its tools: one line of an imported tool list."""

    id: str
    """Unique within the file."""
    server: str
    """Name of the server."""
    label: str = ""
    """Category, where the collection has one."""
    tools: tuple[Tool, ...]
    """Its tools, normalized; `imports.schema.original_name` finds the published name."""
    lineage: Lineage = Lineage()
    """Origin."""


def convert(value: Any, origin: Origin) -> Imported[ToolServer]:
    """One server.

    Raises:
        ValueError: No tools, a tool without a name, or a schema beyond repair.
    """
    record = as_object(value, "a server")
    result = as_object(record.get("result") or record, "result")
    if "tools" not in result:
        raise unreadable("tools: absent", "give a server with its tools, or an answer to tools/list")
    tools, repairs = normalize_all(as_list(result["tools"], "tools"))
    name = str(record.get("server") or record.get("name") or origin.default_id)
    server = ToolServer(
        id=name,
        server=name,
        label=str(record.get("label") or ""),
        tools=tools,
        lineage=Lineage(origin=origin.place),
    )
    return Imported(server, repairs)
