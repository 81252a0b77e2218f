"""Small records that the tests of this room share, and where the published samples are."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from envace.imports.conversation import Origin

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
PARAMETERS = {
    "type": "object",
    "properties": {"at": {"type": "string", "description": "where"}},
    "required": ["at"],
}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look somewhere.", "parameters": PARAMETERS},
}


def chat(**fields: Any) -> dict[str, Any]:
    """A conversation with one call, as OpenAI clients log it."""
    messages = [
        {"role": "user", "content": "look up"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "blue"},
        {"role": "assistant", "content": "It is blue."},
    ]
    return {"messages": messages, "tools": [TOOL]} | fields


def at(format: str = "openai_messages") -> Origin:
    return Origin(format, "file:7", "file.jsonl:7")


def published(name: str) -> Path:
    """A published sample, or a skip where it is absent."""
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared")).resolve()
    if not (shared / "data" / name).is_file():
        pytest.skip(f"data/{name} is absent")
    return shared / "data" / name


def write_lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path
