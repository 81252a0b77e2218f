"""The memory's majority, order and tie rules, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.rehearsal.memory import Rehearsed, memory_message, rank
from envace.trajectory import Outcome, Tool, ToolCall

SHIP = Tool(name="ship", outcome=Outcome(field="total"))
SCORE = Tool(name="score", outcome=Outcome(field="points", better="higher"))
FIND = Tool(name="find")


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


A, B, C, D = (call("ship", carrier=letter) for letter in "abcd")


def test_best_first_refusals_then_garbage_last() -> None:
    memory = memory_message(
        [
            Rehearsed(A, '{"total":9}'),
            Rehearsed(B, '{"error":"offer"}'),
            Rehearsed(C, "{"),
            Rehearsed(D, '{"total":3}'),
        ],
        [SHIP],
    )
    assert memory.message.content.split("\n") == [
        f'{D.text()} {{"total":3}}',
        f'{A.text()} {{"total":9}}',
        f'{B.text()} {{"error":"offer"}}',
        f"{C.text()} {{",
    ]
    assert (memory.best, memory.message.role, memory.message.name) == (D, "system", "memory")
    assert memory.predictions[A.text()] == '{"total":9}'


def test_the_majority_of_a_call_wins_and_a_tie_falls_to_the_first_seen() -> None:
    def of(*responses: str) -> str:
        return memory_message([Rehearsed(A, text) for text in responses], [SHIP]).predictions[A.text()]

    assert of('{"total":1}', '{"total":5}', '{"total":5}') == '{"total":5}'
    assert of('{"total":5}', '{"total":1}', '{"total":1}', '{"total":5}') == '{"total":5}'
    assert of('{"total":1}', '{"total":5}') == '{"total":1}'


def test_equal_outcomes_are_ordered_by_call_text_whatever_the_order_of_rehearsals() -> None:
    items = [Rehearsed(c, '{"total":4}') for c in (C, A, B)]
    forward, backward = memory_message(items, [SHIP]), memory_message(items[::-1], [SHIP])
    assert forward.message == backward.message
    assert forward.best == A


def test_higher_can_be_better_and_tools_without_an_outcome_are_merely_usable() -> None:
    high, low = call("score", n=1), call("score", n=2)
    scores = [Rehearsed(low, '{"points":2}'), Rehearsed(high, '{"points":8}')]
    assert memory_message(scores, [SCORE]).best == high
    found = call("find", title="x")
    memory = memory_message([Rehearsed(found, '{"x":1}'), Rehearsed(B, '{"error":"offer"}')], [FIND, SHIP])
    assert memory.best == found


def test_nothing_useful_recommends_nothing() -> None:
    assert memory_message([], [SHIP]).best is None
    assert memory_message([], [SHIP]).message.content == ""
    refused = memory_message([Rehearsed(A, '{"error":"x"}'), Rehearsed(B, "")], [SHIP])
    assert refused.best is None
    invented = memory_message([Rehearsed(call("fly"), '{"total":1}')], [SHIP])
    assert invented.best is None  # an invented tool is nothing to commit to


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ('{"total":3}', (0, 3.0)),
        ('{"total":-2.5}', (0, -2.5)),
        ('{"total":true}', (1, 0.0)),
        ('{"total":"3"}', (1, 0.0)),
        ('{"total":null}', (1, 0.0)),
        ("{}", (1, 0.0)),
        ('{"total":3,"error":"x"}', (1, 0.0)),
        ("[3]", (1, 0.0)),
        ("null", (1, 0.0)),
        ("3", (1, 0.0)),
        ('{"total":', (2, 0.0)),
        ("", (2, 0.0)),
        ("9" * 5000, (2, 0.0)),
    ],
)
def test_rank_by_hand(response: str, expected: tuple[int, float]) -> None:
    assert rank(response, Outcome(field="total")) == expected


@given(text=st.text(max_size=30), better=st.sampled_from(["lower", "higher", None]))
def test_rank_takes_any_text(text: str, better: str | None) -> None:
    outcome = None if better is None else Outcome(field="total", better=better)  # type: ignore[arg-type]
    assert rank(text, outcome)[0] in (0, 1, 2)
