"""Filters: a funnel of named rules that keeps what is fit to train on and sets the rest aside."""

from collections.abc import Callable, Mapping
from typing import Any

from envace.errors import EnvaceError
from envace.filters import calls, duplicates, length, structure
from envace.filters.difficulty import Difficulty
from envace.filters.funnel import Example, FunnelResult, Rule, RuleCount, Tally, filter_files, sift
from envace.filters.judge import LlmJudge
from envace.filters.language import language
from envace.filters.near_duplicates import near_duplicates
from envace.filters.private import personal, secrets
from envace.filters.repetition import repetition
from envace.filters.results import results
from envace.filters.success import success


def _fixed(rule: Rule) -> Callable[[], Rule]:
    return lambda: rule


FILTERS: dict[str, Callable[..., Rule]] = {
    "roles": _fixed(structure.roles),
    "pairing": _fixed(structure.pairing),
    "tool_names": _fixed(structure.tool_names),
    "empty": _fixed(structure.empty),
    "think": _fixed(structure.think),
    "markup": _fixed(structure.markup),
    "length": length.length,
    "success": success,
    "difficulty": Difficulty,
    "secrets": secrets,
    "personal": personal,
    "repetition": repetition,
    "language": language,
    "tool_schema": calls.tool_schema,
    "calls": calls.calls,
    "results": results,
    "duplicates": duplicates.duplicates,
    "near_duplicates": near_duplicates,
    "judge": LlmJudge,
}
"""Makers of rules by name, in running order: the cheap first, duplicates among survivors, the judge last."""

DEFAULT = (
    "roles",
    "pairing",
    "tool_names",
    "empty",
    "think",
    "markup",
    "length",
    "secrets",
    "tool_schema",
    "calls",
    "results",
    "duplicates",
)
"""Rules for data of any kind; the others depend on what the data is for."""

Options = Mapping[str, Mapping[str, Any] | None]
"""Rules with their arguments, as in `{"roles": {}, "length": {"max_messages": 60}}`."""


def make_rules(options: Options | None = None) -> dict[str, Rule]:
    """Fresh rules for one run.

    Args:
        options: The rules to run; those of `DEFAULT` when None. They run in the registry's order.

    Raises:
        EnvaceError: An unknown rule or argument.
    """
    chosen: Options = dict.fromkeys(DEFAULT) if options is None else options
    unknown = sorted(set(chosen) - set(FILTERS))
    if unknown:
        raise EnvaceError(f"unknown filter {unknown[0]}", f"choose from {', '.join(FILTERS)}")
    rules = {}
    for name, maker in FILTERS.items():
        if name in chosen:
            try:
                rules[name] = maker(**(chosen[name] or {}))
            except TypeError as error:
                raise EnvaceError(f"filter {name}: {error}", "mend its options") from error
    return rules


def parse_rules(text: str) -> dict[str, dict[str, Any] | None]:
    """Rules as they are written on a command line: `near_duplicates, language: {allowed: [de]}`.

    Raises:
        EnvaceError: It is not readable.
    """
    import yaml

    try:
        chosen = yaml.safe_load(f"{{{text}}}")
    except yaml.YAMLError:
        chosen = None
    if not isinstance(chosen, dict) or not all(isinstance(o, dict | None) for o in chosen.values()):
        raise EnvaceError(f"filter rules {text!r} cannot be read", "write NAME, NAME: {OPTION: VALUE}, …")
    return chosen


__all__ = [
    "DEFAULT",
    "FILTERS",
    "Example",
    "FunnelResult",
    "Options",
    "Rule",
    "RuleCount",
    "Tally",
    "filter_files",
    "make_rules",
    "parse_rules",
    "sift",
]
