"""A private rehearsal for human eyes: imagined branches as a tree, the memory, the committed call."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envace.engines import Sampling
from envace.errors import EnvaceError
from envace.rehearsal.base import Conversation, Policy
from envace.rehearsal.play import commit
from envace.rehearsal.strategies import Named
from envace.rehearsal.trace import Branch, Trace
from envace.trajectory import Message, Tool, iter_records
from envace.trajectory.jsonl import describe
from envace.trajectory.show import pretty_call, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

CALL, RESPONSE, ANSWER, THOUGHT, BROKEN = "magenta", "yellow", "green", "italic", "red"
"""Styles of what stands in the tree."""


class Posed(BaseModel):
    """A task as far as rehearsal needs it; other fields of a file are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = ""
    """Its id, if it has one."""
    messages: tuple[Message, ...] = Field(min_length=1)
    """The conversation up to where the act role writes."""
    tools: tuple[Tool, ...] = ()
    """Tools on offer."""


def read_conversation(path: Path, which: str = "0") -> Conversation:
    """A conversation from a JSON file of one task, or from a JSON-lines file of many.

    Args:
        path: The file.
        which: Index from 0, or an id; an id wins over digits read as an index.

    Raises:
        EnvaceError: The file or the task is not there or not valid, or leaves nothing to act on.
    """
    items = list(_read(path))
    found = [item for item in items if item.id == which]
    if not found and which.isdecimal():
        found = items[int(which) : int(which) + 1]
    if not found:
        raise EnvaceError(f"{path}: no task {which} among {len(items)}", "give an id or an index from 0")
    if found[0].messages[-1].role == "assistant":
        raise EnvaceError(
            f"{path}: the conversation ends with an assistant turn", "end it where the act role writes next"
        )
    return Conversation(found[0].messages, found[0].tools)


def _read(path: Path) -> Iterator[Posed]:
    """One object over several lines, or an object a line."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        yield from iter_records(path, Posed)
        return
    try:
        yield Posed.model_validate(whole)
    except ValidationError as error:
        raise EnvaceError(f"{path}: {describe(error)}", "give `messages` and `tools` as in a task") from error


def rehearse(
    policy: Policy, conversation: Conversation, strategy: Named, seed: int, turn_tokens: int
) -> tuple[Trace, Message]:
    """Rehearse one conversation and write the act turn it leads to, greedily; nothing is executed."""
    prepared = strategy.prepare(policy, [conversation], seed)
    (turn,) = commit(policy, [conversation], prepared, Sampling(0.0, turn_tokens))
    return prepared[0].trace, policy.template.parse_act(turn.ids)


def show(trace: Trace, committed: Message, console: "Console") -> None:
    """Print a rehearsal; colors appear only where the console is a terminal."""
    from rich.tree import Tree

    root = Tree(
        _text(
            f"{trace.strategy}: {_count(len(trace.branches), 'rehearsal')}, "
            f"{_count(sum(trace.tokens.values()), 'private token')}, "
            f"{_count(trace.environment_calls, 'environment call')}",
            "bold",
        )
    )
    _grow(root, _merged(trace.branches))
    if trace.memory:
        _leaves(root.add(_text("memory", "bold")), [(line, "") for line in trace.memory.split("\n")])
    _leaves(root.add(_text("commits", "bold")), _turn(committed))
    if trace.tokens:
        spent = ", ".join(f"{purpose} {count}" for purpose, count in trace.tokens.items())
        root.add(_text(f"tokens: {spent}", "dim"))
    console.print(root)


Labels = Sequence[tuple[str, str]]
"""Texts with their styles."""


@dataclass
class _Node:
    """Something that one or more branches imagined at the same place."""

    count: int = 0
    below: dict[tuple[str, str], "_Node"] = field(default_factory=dict)


def _merged(branches: Sequence[Branch]) -> _Node:
    """The branches as one tree: they share nodes as long as they are alike."""
    root = _Node()
    for branch in branches:
        node = root
        for label in _path(branch):
            node = node.below.setdefault(label, _Node())
            node.count += 1
    return root


def _path(branch: Branch) -> Iterator[tuple[str, str]]:
    for step in branch.steps:
        yield pretty_call(step.call), CALL
        if step.response is not None:
            yield step.response, RESPONSE
    if branch.answer is not None:
        yield f"answer: {branch.answer}", ANSWER
    if branch.thought:
        yield branch.thought, THOUGHT
    if not (branch.steps or branch.answer is not None or branch.thought):
        yield f"illegible: {branch.sampled}", BROKEN


def _turn(message: Message) -> Labels:
    """What an act turn says and calls; a cut or malformed one is shown as words."""
    words = [(message.content, ANSWER)] if message.content or not message.tool_calls else []
    return [*words, *((pretty_call(call), CALL) for call in message.tool_calls)]


def _grow(tree: "Tree", node: _Node) -> None:
    for (label, style), child in node.below.items():
        _grow(tree.add(_text(label + (f"  ×{child.count}" if child.count > 1 else ""), style)), child)


def _leaves(tree: "Tree", labels: Labels) -> None:
    for label, style in labels:
        tree.add(_text(label, style))


def _text(text: str, style: str) -> "Text":
    """Text, not markup: square brackets in what a model wrote are no style tags."""
    from rich.text import Text

    return Text(printable(text), style=style)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
