"""The guard before the checker's `eval()`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.benchmarks.inside import allowlist

NAMES = {"cd", "ls", "power"}


def refusal(name, arguments):
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return allowlist.step_refusal([{name: raw}], NAMES, evaluated=True)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["folder", "a", "path"]), values))
def test_literal_arguments_pass_whatever_they_hold(arguments):
    assert refusal("cd", arguments) is None


@given(st.text(), st.text())
def test_what_passes_evaluates_to_its_own_arguments(key, value):
    if refusal("cd", {key: value}) is None:
        seen = []
        eval(
            allowlist.call_text("cd", {key: value}), {"cd": lambda **kw: seen.append(kw), "__builtins__": {}}
        )
        # Python folds identifiers to NFKC; everything else must come through unchanged.
        assert [list(kw.values()) for kw in seen] == [[value]]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("__import__('os').system", {}, "no function"),
        ("rm", {}, "no function"),
        ("cd", {"folder=open('x','w'),a": 1}, "no Python|no literal|no function"),
        ("cd", {"a": float("nan")}, "no literal"),
        ("cd", {"1bad": 1}, "no Python"),
        ("cd", "{'folder': 1}", "no JSON"),
        ("cd", "[1]", "no JSON object"),
        ("cd", "[" * 50_000, "no JSON"),
        ("power", {"base": 10, "exponent": 10**9}, "beyond"),
    ],
)
def test_refused_with_the_reason(name, arguments, reason):
    found = refusal(name, arguments)
    assert found and any(part in found for part in reason.split("|"))


def test_a_key_that_closes_the_call_is_no_plain_call():
    assert allowlist.text_refusal("cd(a=1).__class__", NAMES) == "not a plain call"
    assert allowlist.text_refusal("cd(a=1) or ls()", NAMES) == "not a plain call"
    assert allowlist.text_refusal("cd(**{'a': 1})", NAMES) == "** arguments"
    assert allowlist.text_refusal("cd('x')", NAMES) == "positional arguments"


def test_talk_is_no_call():
    assert allowlist.answer_refusal("__import__('os')", NAMES, evaluated=False) is None
    assert allowlist.answer_refusal([["ls()", [{"rm": "{}"}]]], NAMES, evaluated=True) is not None
