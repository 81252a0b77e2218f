"""A small real MCP server, run as a process: accounts that can be looked at, noted on and closed.

    python accounts_server.py COUNTS [PORT]

Every call that reaches it adds its tool's name as a line to the file COUNTS. With a port it serves
streamable HTTP, otherwise stdio. The tool `crash` ends the process without an answer.
"""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

COUNTS = Path(sys.argv[1])
BALANCES = {"ada": 120, "bob": -5}
server = MCPServer("accounts", instructions="ada has 120, bob has -5")


def reached(tool: str) -> None:
    with COUNTS.open("a") as file:
        file.write(tool + "\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def balance(name: str, ctx: Context) -> dict[str, int]:
    """Look a balance up."""
    reached("balance")
    await ctx.report_progress(1, 2, "half")
    return {"balance": BALANCES[name]}


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def close(name: str) -> dict[str, int]:
    """Close an account for ever."""
    reached("close")
    return {"paid_out": BALANCES[name]}


@server.tool()
def note(text: str) -> str:
    """Says nothing about itself."""
    reached("note")
    return f"noted {text}"


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
def crash() -> str:
    """End the process."""
    reached("crash")
    os._exit(3)


@server.resource("accounts://all")
def accounts() -> str:
    """All names."""
    return "ada bob"


@server.prompt()
def farewell(name: str) -> str:
    """What to write to somebody whose account was closed."""
    return f"Dear {name}"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
