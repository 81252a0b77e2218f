"""Trajectories in which a user asks something, and items that ask it too."""

from envace.leakage import EvalItem
from envace.leakage.material import Chunk, Finder, Hit, Items
from envace.trajectory import Message, Tool, ToolCall, Trajectory


def said(
    *turns: str, id_: str = "t", calls: tuple[ToolCall, ...] = (), tools: tuple[Tool, ...] = ()
) -> Trajectory:
    """A trajectory of these user turns; the answer to the last makes the calls."""
    users = tuple(Message(role="user", content=turn) for turn in turns)
    answer = Message(role="assistant", content="ok", tool_calls=calls)
    return Trajectory(id=id_, source="log", tools=tools, messages=(*users, answer))


def item(text: str, id_: str = "q", **fields) -> EvalItem:
    return EvalItem(benchmark="bench", id=id_, text=text, **fields)


def hits(make, train: list[Trajectory], items: list[EvalItem], **options) -> list[Hit]:
    """What a method finds when all training data comes at once."""
    finder: Finder = make(Items(items), **options)
    return finder.feed(Chunk(train))
