"""A memory in the policy's own words: it reads the plans it rehearsed and notes what to keep."""

from collections.abc import Sequence

from envace.engines import Sampling
from envace.rehearsal.base import Policy, Settings
from envace.rehearsal.draft import Draft, Written, note
from envace.rehearsal.plans import plans_text
from envace.rehearsal.play import say
from envace.rehearsal.rule import keep_within, recommended

INSTRUCTION = (
    "Above is what you rehearsed in private; the responses are your own predictions. Note for "
    "yourself, briefly: the best plan, what to expect of it, where the others fail, and what is "
    "uncertain. Do not act yet."
)


def dictated(policy: Policy, drafts: Sequence[Draft], settings: Settings, seed: int) -> list[Written]:
    """Let the policy write every memory, within the budget; see `Writer`.

    Drafts in which nothing was rehearsed are not asked about.
    """
    texts = [plans_text(draft.branches, draft.conversation.tools) for draft in drafts]
    asked = [at for at, text in enumerate(texts) if text]
    prompts = [(drafts[at].conversation, (note(f"{texts[at]}\n{INSTRUCTION}"),)) for at in asked]
    sampling = Sampling(settings.temperature, settings.memory_tokens, seed=seed)
    said = dict(zip(asked, say(policy, prompts, sampling), strict=True))
    written = []
    for at, draft in enumerate(drafts):
        text, tokens = (said[at][0], len(said[at][1].ids)) if at in said else ("", 0)
        # Words that were sampled one way may take more tokens when they are encoded again.
        kept = keep_within(policy.template, text, settings.memory_tokens)
        written.append(Written(kept, recommended(draft), tokens))
    return written
