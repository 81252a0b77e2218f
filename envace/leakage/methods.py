"""The registry of leakage methods: a new one is a file with `find` and a line here."""

from dataclasses import dataclass
from functools import partial

from envace.leakage import calls, exact, minhash, ngram, schema
from envace.leakage.material import Find
from envace.leakage.records import Kind


@dataclass(frozen=True)
class Method:
    """An entry of the registry."""

    find: Find
    """Finds the pairs."""
    kind: Kind
    """Whether its matches count."""
    on_text: bool = True
    """True when it compares user turns, so that a common run can be shown."""


METHODS: dict[str, Method] = {
    "exact": Method(exact.find, "leak"),
    "ngram8": Method(partial(ngram.find, n=8, threshold=0.5), "leak"),
    "ngram13": Method(partial(ngram.find, n=13, threshold=0.0), "hint"),
    "minhash": Method(minhash.find, "leak"),
    "calls": Method(calls.find, "leak", on_text=False),
    "schema": Method(schema.find, "same_domain", on_text=False),
}
"""Leakage methods by name; `ngram13` (any hit) and `schema` are only reported."""
