"""ShareGPT and Hermes: `{"conversations": [{"from": "human", "value": "..."}], "tools": ..., "system": ...}`.

Origin: the ShareGPT shape as LLaMA-Factory extends it to tools (`function_call` and `observation` turns), and
`NousResearch/hermes-function-calling-v1`, which writes calls in `<tool_call>` tags, responses in
`<tool_response>` tags, and tools in a `tools` string or in `<tools>` tags of the system turn. Calls are JSON
or Python literals. The system turn stays as it is, its tool list included.
"""

from collections.abc import Iterator
from typing import Any

from envace.imports.conversation import Imported, Origin, trajectory
from envace.imports.decode import as_list, as_object
from envace.imports.turns import Turn, joined, listed_tools
from envace.trajectory import Trajectory


def convert(value: Any, origin: Origin) -> Imported[Trajectory]:
    """One record as a trajectory.

    Raises:
        ValueError: What is wrong with the record, in one line.
    """
    record = as_object(value, "a record")
    messages = joined(_turns(record))
    tools = as_list(record.get("tools"), "tools") or listed_tools(messages)
    return trajectory(origin, messages, tools, id=record.get("id") or record.get("uuid"))


def _turns(record: dict[str, Any]) -> Iterator[Turn]:
    if record.get("system"):
        yield "system", record["system"], None
    for number, value in enumerate(as_list(record.get("conversations"), "conversations")):
        turn = as_object(value, f"conversations[{number}]")
        yield turn.get("from"), turn.get("value"), turn.get("name")
