"""The registry of leakage methods: a new one is a file with a `Finder` and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from envace.errors import EnvaceError
from envace.leakage.calls import Calls
from envace.leakage.embedding import Embeddings
from envace.leakage.exact import Exact
from envace.leakage.material import Finder, Items
from envace.leakage.minhash import MinHash
from envace.leakage.ngram import Ngrams
from envace.leakage.records import Kind
from envace.leakage.schema import Schemas


@dataclass(frozen=True)
class Method:
    """An entry of the registry."""

    make: Callable[..., Finder]
    """Makes the finder from the items and the method's options."""
    kind: Kind
    """Whether its matches count."""
    on_text: bool = True
    """True when it compares the tokens of the questions, so that a common run can be shown."""
    by_default: bool = True
    """False for a method that needs options."""


METHODS: dict[str, Method] = {
    "exact": Method(Exact, "leak"),
    "ngram8": Method(partial(Ngrams, n=8, threshold=0.5), "leak"),
    "ngram13": Method(partial(Ngrams, n=13, threshold=0.0), "hint"),
    "minhash": Method(MinHash, "leak"),
    "calls": Method(Calls, "leak", on_text=False),
    "schema": Method(Schemas, "same_domain", on_text=False),
    "embedding": Method(Embeddings, "hint", on_text=False, by_default=False),
}
"""Leakage methods by name; those of another kind than `leak` are only reported."""

Choice = Mapping[str, Mapping[str, Any] | None]
"""Methods with their options, as in `{"exact": {}, "minhash": {"threshold": 0.7}}`."""


def default_methods(encoder: str = "") -> Choice:
    """The methods that need nothing, and `embedding` when there is an encoder for it."""
    chosen: dict[str, dict[str, Any]] = {name: {} for name, method in METHODS.items() if method.by_default}
    return chosen | ({"embedding": {"encoder": encoder}} if encoder else {})


def make_finders(chosen: Choice, items: Items) -> dict[str, Finder]:
    """A finder for every method chosen.

    Raises:
        EnvaceError: An unknown method or option, or one that is missing.
    """
    finders = {}
    for name, options in chosen.items():
        if name not in METHODS:
            raise EnvaceError(f"unknown leakage method {name}", f"choose from {', '.join(METHODS)}")
        try:
            finders[name] = METHODS[name].make(items, **(options or {}))
        except TypeError as error:
            raise EnvaceError(f"leakage method {name}: {error}", "mend its options") from error
    return finders
