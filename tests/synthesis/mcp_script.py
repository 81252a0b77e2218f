"""An endpoint that writes what it is asked for by rule, and tool servers to ask it about."""

import hashlib
import json
from pathlib import Path
from typing import Any

from envace.imports.mcp_tools import ToolServer
from envace.trajectory import Lineage, Tool, write_records

TEXT = {"type": "string"}


def tool(name: str, **properties: dict[str, Any]) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=name, description=f"What {name} does.", parameters=parameters)


SERVERS = (
    ToolServer(
        id="weather",
        server="Weather",
        tools=(tool("get_weather", city=TEXT), tool("set_alarm", city=TEXT, degrees={"type": "integer"})),
        lineage=Lineage(origin="raw.jsonl:1"),
    ),
    ToolServer(
        id="notes",
        server="Notes",
        tools=(tool("add_note", text=TEXT), tool("find_notes", word=TEXT), tool("drop_note", id=TEXT)),
        lineage=Lineage(origin="raw.jsonl:2"),
    ),
)


def written(folder: Path, servers: tuple[ToolServer, ...] = SERVERS) -> Path:
    path = folder / "servers.jsonl"
    write_records(path, servers)
    return path


def kind(body: dict[str, Any]) -> str:
    """What is asked for: `plan`, `arguments`, `response` or `reply`."""
    said = body["messages"][0]["content"]
    starts = {"You write tasks": "plan", "You are the tool": "response"}
    found = next((name for start, name in starts.items() if said.startswith(start)), "")
    return found or ("reply" if "Write your reply" in said else "arguments")


def wanted(body: dict[str, Any]) -> dict[str, Any]:
    """The schema of the answer."""
    return body["response_format"]["json_schema"]["schema"]


def fitting(schema: dict[str, Any], word: str) -> Any:
    """A value of a schema: what is required and no more; `word` is the texts and decides the choices."""
    if "enum" in schema:
        return schema["enum"][int(word[-6:], 16) % len(schema["enum"])]
    kinds = schema.get("type", "string")
    match kinds if isinstance(kinds, str) else kinds[0]:
        case "object":
            properties = schema.get("properties", {})
            return {
                key: fitting(properties.get(key, {}), f"{key} {word}") for key in schema.get("required", [])
            }
        case "array":
            return [fitting(schema.get("items", {}), word) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            return schema.get("minimum", 7)
        case "boolean":
            return True
        case "null":
            return None
    return word


def answer(body: dict[str, Any], number: int = 0) -> str:
    """The content of an answer: a function of what is asked, and of nothing else."""
    mark = hashlib.sha256(json.dumps([body["messages"], body["seed"]]).encode()).hexdigest()[:6]
    schema = wanted(body)
    return json.dumps({"seen": mark} if schema == {"type": "object"} else fitting(schema, mark))
