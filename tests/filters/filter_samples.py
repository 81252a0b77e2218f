"""Small conversations, and rules run over them."""

from collections.abc import Mapping, Sequence
from typing import Any

from envace.filters import FunnelResult, Rule, Tally, sift
from envace.trajectory import Line, Message, Quarantined, Tool, ToolCall, Trajectory


def talk(text: str, answer: str = "ok", id_: str = "t", **fields: Any) -> Trajectory:
    """A question and its answer."""
    turns = (Message(role="user", content=text), Message(role="assistant", content=answer))
    return Trajectory(id=id_, source="log", messages=turns, **fields)


def exchange(*pairs: tuple[dict, str], tool: Tool | None = None, **fields: Any) -> Trajectory:
    """Calls of one tool with their responses, in turns of their own."""
    tool = tool or Tool(name="look")
    messages = [Message(role="user", content="go")]
    for arguments, response in pairs:
        call = ToolCall(name=tool.name, arguments=arguments)
        messages.append(Message(role="assistant", tool_calls=(call,)))
        messages.append(Message(role="tool", name=tool.name, content=response))
    fields = {"id": "t", "source": "log"} | fields
    return Trajectory(tools=(tool,), messages=tuple(messages), **fields)


def run(
    trajectories: Sequence[Trajectory], rules: Mapping[str, Rule]
) -> tuple[list[Trajectory], list[Quarantined], FunnelResult]:
    """What is kept, what is set aside, and the counts."""
    tally = Tally()
    lines = [Line("memory", n, t.model_dump_json(), t) for n, t in enumerate(trajectories, start=1)]
    out = list(sift(lines, rules, tally))
    kept = [result.trajectory for result in out if isinstance(result, Line)]
    return kept, [result for result in out if isinstance(result, Quarantined)], tally.result(rules)
