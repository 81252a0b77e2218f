"""Filters: a funnel of named rules that keeps what is fit to train on and sets the rest aside."""

from collections.abc import Callable, Mapping
from typing import Any

from envace.errors import EnvaceError
from envace.filters import calls, duplicates, length, structure
from envace.filters.funnel import Example, FunnelResult, Rule, RuleCount, filter_files, run_funnel


def _fixed(rule: Rule) -> Callable[[], Rule]:
    return lambda: rule


FILTERS: dict[str, Callable[..., Rule]] = {
    "roles": _fixed(structure.roles),
    "pairing": _fixed(structure.pairing),
    "tool_names": _fixed(structure.tool_names),
    "empty": _fixed(structure.empty),
    "think": _fixed(structure.think),
    "length": length.length,
    "tool_schema": calls.tool_schema,
    "calls": calls.calls,
    "duplicates": duplicates.duplicates,
}
"""Makers of rules by name, in running order: the cheap first, duplicates among survivors last."""


def make_rules(options: Mapping[str, Mapping[str, Any] | None] | None = None) -> dict[str, Rule]:
    """Fresh rules for one run.

    Args:
        options: The rules to run with their arguments, as in `{"roles": {}, "length":
            {"max_messages": 60}}`; all rules with their defaults when None. They run in the
            registry's order.

    Raises:
        EnvaceError: An unknown rule or argument.
    """
    chosen = dict.fromkeys(FILTERS) if options is None else options
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


__all__ = [
    "FILTERS",
    "Example",
    "FunnelResult",
    "Rule",
    "RuleCount",
    "filter_files",
    "make_rules",
    "run_funnel",
]
