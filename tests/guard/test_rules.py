"""What the rules object to, which tools are guarded, and the guard's verdicts in order of strictness."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envace.errors import EnvaceError
from envace.guard.guard import Guard
from envace.guard.rehearsers import Pending, Rehearsal
from envace.guard.rules import RULES, Limit, Rehearsed, RuleSettings, objection
from envace.guard.which import Lists, irreversible_by_hints, tool_from_mcp
from envace.trajectory import ToolCall

CALL = ToolCall(name="pay", arguments={"to": "bob"})


def settings(**fields: Any) -> RuleSettings:
    return RuleSettings.model_validate(fields)


def objected(*predictions: str | None, **fields: Any) -> tuple[str, str, str] | None:
    return objection(Rehearsed("pay", predictions), settings(**fields))


class Dictated:
    """Predicts what it was given; it counts."""

    def __init__(self, *predictions: str | None, fails: str = "") -> None:
        self.predictions = predictions
        self.fails = fails
        self.asked: list[int] = []

    def rehearse(self, pending: Pending, times: int) -> Rehearsal:
        self.asked.append(times)
        if self.fails:
            raise EnvaceError(self.fails)
        return Rehearsal(self.predictions, 7)


@pytest.mark.parametrize(
    ("annotations", "irreversible"),
    [
        (None, True),
        ({}, True),
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": False}, False),
        ({"destructiveHint": True}, True),
        ({"destructiveHint": "no"}, True),
        ({"readOnlyHint": "yes"}, True),
        ({"readOnlyHint": None, "destructiveHint": None}, True),
    ],
)
def test_hints_have_the_defaults_of_the_specification(annotations: Any, irreversible: bool) -> None:
    assert irreversible_by_hints(annotations) is irreversible
    assert tool_from_mcp({"name": "t", "annotations": annotations}).irreversible is irreversible


def test_lists_win_over_hints_and_the_irreversible_one_over_the_other() -> None:
    lists = Lists(irreversible=("delete_*", "db.[ab]*"), reversible=("delete_draft", "note*"))
    assert lists.guards("delete_all", False) and lists.guards("db.abc", False)
    assert lists.guards("delete_draft", False)
    assert not lists.guards("notes", True)
    assert not lists.guards("db.cut", False) and lists.guards("db.cut", True)
    assert not lists.guards("Delete_all", False)


def test_predicted_errors_object_from_their_share_on() -> None:
    error, fine = '{"error":"no such account"}', '{"ok":true}'
    assert objected(error, fine, fine) is None
    decision, rule, reason = objected(error, error, fine, fine) or ("", "", "")
    assert (decision, rule) == ("deny", "predicted_error")
    assert reason == '2 of 4 rehearsals predict an error, as in {"error":"no such account"}'
    assert objected(error, error, fine, fine, error_share=0.6, agreement=0) is None
    assert objected('{"isError":true}') is not None
    assert objected('{"error":null,"ok":1}') is None and objected('{"isError":false}') is None


@pytest.mark.parametrize(
    ("limit", "value", "fault"),
    [
        ({"min": 0}, -5, "f is -5, below 0"),
        ({"min": 0}, 0, None),
        ({"max": 100}, 100.5, "f is 100.5, above 100"),
        ({"max": 100}, 100, None),
        ({"min": 0}, "7", 'f is "7", no number'),
        ({"min": 0}, True, "f is true, no number"),
        ({"min": 0, "max": 1}, float("nan"), "f is NaN, below 0"),
        ({"one_of": ["open", "held"]}, "closed", 'f is "closed", not one of ["open","held"]'),
        ({"one_of": ["open", None]}, None, None),
        ({"one_of": [1]}, True, "f is true, not one of [1]"),
    ],
)
def test_limits(limit: dict[str, Any], value: Any, fault: str | None) -> None:
    assert Limit(field="f", **limit).fault(value) == fault
    found = objected(json.dumps({"f": value}), limits=[{"field": "f", **limit}])
    assert found == (fault and ("deny", "limits", f"1 of 1 rehearsals predict that {fault}"))


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=5), st.floats(-1e6, 1e6))
def test_one_prediction_beyond_a_limit_suffices(values: list[float], low: float) -> None:
    found = objected(
        *(json.dumps({"a": {"rows": [{"left": value}]}}) for value in values),
        limits=[{"field": "a.rows.*.left", "min": low}],
        agreement=0,
    )
    assert (found is not None) == (min(values) < low)


def test_a_limit_on_a_field_nobody_predicts_cannot_be_checked() -> None:
    limits = [{"tool": "p*", "field": "rows.0.left", "min": 0}]
    found = objected('{"rows":[]}', '"done"', limits=limits, agreement=0)
    assert found == ("deny", "limits", "no rehearsal shows rows.0.left, so its limit cannot be checked")
    assert objected('{"rows":[{"left":1}]}', '{"rows":[]}', limits=limits, agreement=0) is None
    assert objected('{"rows":[]}', limits=[{**limits[0], "tool": "q*"}]) is None
    # An error is the business of its own rule: no field is expected in it.
    assert (
        objected('{"error":"x"}', '{"rows":[{"left":1}]}', limits=limits, error_share=1, agreement=0) is None
    )


def test_disagreement_counts_the_commonest_prediction_whatever_the_order_of_its_keys() -> None:
    assert objected('{"a":1,"b":2}', '{"b":2, "a":1}', '{"a":2}', "x", agreement=0.5) is None
    found = objected('{"a":1}', '{"a":2}', '{"a":3}', None)
    assert found == ("ask", "disagreement", 'only 1 of 4 rehearsals agree, the most of them on {"a":1}')
    # Illegible ones agree with nothing, not even with each other.
    assert objected('{"a":1}', None, None, agreement=0.5) is not None


def test_the_strictest_objection_stands_and_a_rule_can_be_switched_off() -> None:
    mixed = ('{"left":-1}', '{"left":2}', '{"left":3}')
    limits = [{"field": "left", "min": 0}]
    assert (objected(*mixed, limits=limits) or "")[1] == "limits"
    softer = {"limits": "ask", "disagreement": "deny"}
    assert (objected(*mixed, limits=limits, decisions=softer) or "")[:2] == ("deny", "disagreement")
    equal = {"limits": "ask", "disagreement": "ask"}
    assert (objected(*mixed, limits=limits, decisions=equal) or "")[:2] == ("ask", "limits")
    assert objected(*mixed, limits=limits, decisions=dict.fromkeys(RULES, "allow")) is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"decisions": {"limit": "ask"}}, "no rule 'limit': one of predicted_error, limits, disagreement"),
        ({"limits": [{"field": "x"}]}, "the limit on x has neither min, max nor one_of"),
        ({"agreement": 1.5}, "agreement"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        settings(**fields)


def test_a_call_that_cannot_be_rehearsed_is_asked_about() -> None:
    verdict = Guard(Dictated(fails="no server")).examine(Pending(CALL))
    assert (verdict.decision, verdict.rule, verdict.reason) == ("ask", "unrehearsed", "no server")
    verdict = Guard(Dictated(None, None)).examine(Pending(CALL))
    assert (verdict.decision, verdict.reason) == ("ask", "none of 2 rehearsals is legible")


def test_a_verdict_holds_the_predictions_and_their_cost() -> None:
    rehearser = Dictated('{"ok":1}', '{"ok":1}', None)
    verdict = Guard(rehearser, times=3).examine(Pending(CALL))
    assert (verdict.decision, verdict.rule, verdict.tokens) == ("allow", "passed", 7)
    assert verdict.predictions == ('{"ok":1}', '{"ok":1}', None) and rehearser.asked == [3]
    with pytest.raises(ValidationError):
        verdict.decision = "deny"  # type: ignore[misc]


def test_lines_of_many_guards_never_mix_in_one_log(tmp_path: Path) -> None:
    log = tmp_path / "sub" / "guard.jsonl"
    guards = [Guard(Dictated('{"x":"\ud800"}' * 3), log=log) for _ in range(4)]
    long = ToolCall(name="pay", arguments={"text": "é" * 20_000})

    def write(guard: Guard) -> None:
        for _ in range(10):
            guard.record(long, guard.examine(Pending(long)), "accept")

    threads = [threading.Thread(target=write, args=(guard,)) for guard in guards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 40 and {line["arguments"]["text"] for line in lines} == {"é" * 20_000}
    assert lines[0].keys() == {
        "time", "tool", "arguments", "decision", "rule", "reason", "predictions", "tokens", "answer"
    }  # fmt: skip


def test_a_log_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(EnvaceError, match="cannot write"):
        Guard(Dictated(), log=tmp_path)
