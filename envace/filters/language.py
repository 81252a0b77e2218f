"""A rule on the language that users and assistants speak."""

from collections.abc import Sequence

from envace.errors import EnvaceError
from envace.filters.funnel import Rule
from envace.filters.structure import visible
from envace.trajectory import Trajectory


def language(allowed: Sequence[str] = ("en", "zh"), at_least: float = 0.9, min_letters: int = 40) -> Rule:
    """A rule that refuses conversations that are surely in another language.

    Args:
        allowed: ISO 639-1 codes.
        at_least: Probability from which on the guess is believed; a doubtful text passes.
        min_letters: Letters that user and assistant turns must have together: a shorter text passes,
            because its language is a guess.

    Raises:
        EnvaceError: An unknown code.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    unknown = sorted(set(allowed) - set(identifier.labels))
    if unknown:
        raise EnvaceError(f"filter language: unknown language {unknown[0]}", "use ISO 639-1 codes: en, zh, …")

    def rule(trajectory: Trajectory) -> str | None:
        turns = [visible(m) for m in trajectory.messages if m.role in ("user", "assistant")]
        text = "\n".join(turns)
        if sum(map(str.isalpha, text)) < min_letters:
            return None
        found, probability = identifier.classify(text)
        if found in allowed or probability < at_least:
            return None
        return f"language {found} ({probability:.0%}), allowed {', '.join(allowed)}"

    return rule
