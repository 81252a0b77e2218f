"""A small corpus for the tokenizer: the texts of every span the policy reads or writes."""

from collections.abc import Iterator

from envace.chat.compact import act_text, signatures
from envace.synthesis.worlds import Mixture, synthesize
from envace.worlds import DEFAULT

MIXTURE = Mixture(
    demonstrations=3000,
    glimpses=0,
    drills=2000,
    memories=600,
    commits=300,
    wrong_call_rate=0.15,
    broken_rate=0.1,
    noted_rate=0.1,
    format_only=("courier",),
    worlds=DEFAULT,
)


def tokenizer_corpus(seed: int) -> Iterator[str]:
    """Texts of every span, one at a time, so that merges are learned as they will be used."""
    for trajectory in synthesize(MIXTURE, seed + 1):
        yield signatures(trajectory.tools)
        for message in trajectory.messages:
            yield act_text(message) if message.role == "assistant" else message.content
