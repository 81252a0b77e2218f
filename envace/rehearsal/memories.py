"""Who writes the memory: a rule, or the policy itself. A new writer is one file and one line here."""

from collections.abc import Callable, Sequence

from envace.rehearsal.base import Policy, Settings
from envace.rehearsal.dictated import dictated
from envace.rehearsal.draft import Draft, Written
from envace.rehearsal.plans import plans
from envace.rehearsal.rule import ranked

Writer = Callable[[Policy, Sequence[Draft], Settings, int], list[Written]]
"""(policy, drafts, settings, seed) → the memory of each draft, of at most `settings.memory_tokens`."""

MEMORIES: dict[str, Writer] = {"ranked": ranked, "plans": plans, "policy": dictated}


def remember(policy: Policy, drafts: Sequence[Draft], settings: Settings, seed: int) -> None:
    """Write the memory of every draft anew from all of its branches."""
    for draft, memory in zip(drafts, MEMORIES[settings.memory](policy, drafts, settings, seed), strict=True):
        draft.memory = memory
        draft.tokens["memory"] += memory.tokens
