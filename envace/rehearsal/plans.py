"""A memory of plans: every distinct course of calls with what it met, and how far rehearsals agree.

    plan of 3 in 4 rehearsals:
    {"name":"find","arguments":{…}} {"id":"q1"} [2 of 3]
    {"name":"order","arguments":{…}} {"error":"stock"} [failure]
    answer: sold out

A response is the majority's at that point of the plan, with its votes where they differ. Plans that
met no failure come first, then those that more rehearsals agree on.
"""

from collections import Counter
from collections.abc import Sequence

from envace.rehearsal.base import Policy, Settings
from envace.rehearsal.draft import Draft, Written
from envace.rehearsal.memory import rank
from envace.rehearsal.rule import keep_within, recommended
from envace.rehearsal.trace import Branch
from envace.trajectory import Outcome, Tool

FAILURE = "[failure]"
NO_RESPONSE = "[no response]"


def plans(policy: Policy, drafts: Sequence[Draft], settings: Settings, seed: int) -> list[Written]:
    """Write the plans of every draft, cut to the budget; see `Writer`."""
    written = []
    for draft in drafts:
        text = plans_text(draft.branches, draft.conversation.tools)
        kept = keep_within(policy.template, text, settings.memory_tokens)
        written.append(Written(kept, recommended(draft)))
    return written


def plans_text(branches: Sequence[Branch], tools: Sequence[Tool]) -> str:
    """All plans of some rehearsals; those that came to nothing legible count in the totals alone."""
    outcomes = {tool.name: tool.outcome for tool in tools}
    groups: dict[tuple[str, ...], list[Branch]] = {}
    for branch in branches:
        if branch.steps or branch.answer is not None:
            groups.setdefault(tuple(step.call.text() for step in branch.steps), []).append(branch)
    described = []
    for group in groups.values():
        lines, failed = _steps(group, outcomes)
        heading = f"plan of {len(group)} in {len(branches)} rehearsals:"
        described.append((failed, -len(group), [heading, *lines, *_answer(group)]))
    described.sort(key=lambda plan: plan[:2])
    return "\n".join(line for _, _, lines in described for line in lines)


def _steps(group: Sequence[Branch], outcomes: dict[str, Outcome | None]) -> tuple[list[str], bool]:
    """Lines of the steps of one plan, and whether any of them failed."""
    lines, failed = [], False
    for position, step in enumerate(group[0].steps):
        votes = Counter(branch.steps[position].response for branch in group)
        response, count = votes.most_common(1)[0]
        parts = [step.call.text(), NO_RESPONSE if response is None else response]
        if count < len(group):
            parts.append(f"[{count} of {len(group)}]")
        if response is None or rank(response, outcomes.get(step.call.name))[0] > 0:
            failed = True
            parts += [FAILURE] if response is not None else []
        lines.append(" ".join(parts))
    return lines, failed


def _answer(group: Sequence[Branch]) -> list[str]:
    answers = Counter(branch.answer for branch in group if branch.answer is not None)
    return [f"answer: {answers.most_common(1)[0][0]}"] if answers else []
