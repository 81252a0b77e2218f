"""The memory by the rule of `memory.py`: one line a distinct call, best first, cut to a budget."""

from collections.abc import Sequence

from envace.chat import Template
from envace.rehearsal.base import Policy, Settings
from envace.rehearsal.draft import Draft, Written
from envace.rehearsal.memory import Memory, Rehearsed, memory_message
from envace.trajectory import ToolCall


def ranked(policy: Policy, drafts: Sequence[Draft], settings: Settings, seed: int) -> list[Written]:
    """Rank what every draft rehearsed; see `Writer`."""
    written = []
    for draft in drafts:
        memory = _memory(draft)
        text = keep_within(policy.template, memory.message.content, settings.memory_tokens)
        written.append(Written(text, memory.best))
    return written


def recommended(draft: Draft) -> ToolCall | None:
    """The call that the rule ranks first, whoever writes the memory."""
    return _memory(draft).best


def _memory(draft: Draft) -> Memory:
    """A branch with a call that got no whole response is not worth remembering."""
    rehearsed = [
        Rehearsed(step.call, step.response or "")
        for branch in draft.branches
        if all(step.response is not None for step in branch.steps)
        for step in branch.steps
    ]
    return memory_message(rehearsed, draft.conversation.tools)


def keep_within(template: Template, text: str, limit: int) -> str:
    """As many whole lines from the top as fit into `limit` tokens."""
    lines = text.split("\n")
    while lines and len(template.encode("\n".join(lines))) > limit:
        lines.pop()
    return "\n".join(lines)
