"""The quality gate on planted rows: exact shares, lines, counts, and what a fault must not hide."""

import socket
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outputs import rows
from pydantic import ValidationError

from envace.errors import EnvaceError
from envace.quality import QualityResult, RehearsedOutput, Thresholds, check, gate, rehearsed_output
from envace.quality.check import agreement, table
from envace.quality.measures import MEASURES
from envace.quality.suite import Requirement, requirements
from envace.quality.validation import validate
from envace.trajectory import Task, Tool, ToolCall

THRESHOLDS = Thresholds(worlds=("agenda",), tools={"agenda": ("list", "move"), "shop": ("quote",)})


def good() -> list[RehearsedOutput]:
    """Rows that pass: move 9/10, list 8/10, and a shop that is not gated at 1/10."""
    return [*rows("agenda", "move", 9, 1), *rows("agenda", "list", 8, 2), *rows("shop", "quote", 1, 9)]


def test_good_rows_pass_and_every_expectation_is_evaluated(tmp_path: Path) -> None:
    result = check(good(), THRESHOLDS, tmp_path / "docs")
    # 4 on all rows, 1 on gated worlds, 1 gated world, 3 core counts, 3 schemas, 2 gated tools.
    assert (result.expected, result.evaluated) == (14, 14)
    assert result.failures == () and result.passed
    gate(result)
    assert result.agreement.overall.share == pytest.approx(17 / 20)
    assert result.agreement.overall.n == 20
    assert result.agreement.worlds["shop"].share == pytest.approx(0.1)
    assert result.agreement.tools["agenda.move"].share == pytest.approx(0.9)
    assert result.agreement.errors.share is None
    assert QualityResult.model_validate_json(result.model_dump_json()) == result


def test_a_weak_tool_is_named_first_with_observed_and_required(tmp_path: Path) -> None:
    bad = [*rows("agenda", "move", 38, 23), *rows("agenda", "list", 10, 0), *rows("shop", "quote", 5, 0)]
    result = check(bad, THRESHOLDS, tmp_path / "docs")
    assert result.failures == (
        "agenda.move: agreement 0.62 < 0.80 (n=61)",
        "gated worlds: agreement 0.67 < 0.80 (n=71)",
        "agenda: agreement 0.67 < 0.80 (n=71)",
    )
    with pytest.raises(EnvaceError, match=r"agenda\.move: agreement 0\.62 < 0\.80 \(n=61\), and 2 more"):
        gate(result)


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        (rows("agenda", "move", 7, 0, parses=False), "all: parses 0.81 < 0.95 (n=37)"),
        (rows("agenda", "move", 7, 0, terminated=False), "all: terminated 0.81 < 0.95 (n=37)"),
        (rows("agenda", "move", 7, 0, predicted=" \n"), "all: non-empty 0.81 < 1.00 (n=37)"),
        (rows("agenda", "invented", 1, 0), "all: known tools 0.96 < 1.00 (n=31)"),
        (rows("shop", "move", 1, 0), "all: known tools 0.96 < 1.00 (n=31)"),
        (rows("shop", "quote", 10, 0, valid=False), "shop.quote: valid 0.50 < 0.90 (n=20)"),
        (
            rows("agenda", "move", 2, 3, error=True),
            "gated worlds: error agreement 0.40 < 0.50 (n=5)",
        ),
    ],
)
def test_each_planted_fault_gives_exactly_its_line(
    tmp_path: Path, extra: list[RehearsedOutput], line: str
) -> None:
    result = check([*good(), *extra], THRESHOLDS, tmp_path / "docs")
    assert result.failures == (line,)
    assert result.evaluated == result.expected


@pytest.mark.parametrize("measure", ["own_role", "adds_up"])
def test_a_planted_breach_of_a_measure_stops_the_check_and_names_the_tool(
    tmp_path: Path, measure: str
) -> None:
    keeps = rows("shop", "quote", 30, 0, checks={measure: True})
    breaks = rows("shop", "quote", 20, 0, checks={measure: False})
    others = [row.model_copy(update={"checks": {measure: True}}) for row in good()]
    result = check([*others, *keeps, *breaks], THRESHOLDS, tmp_path / "docs")
    least = MEASURES[measure].least
    name = measure.replace("_", " ")
    assert result.failures == (f"shop.quote: {name} 0.66 < {least:.2f} (n=60)",)
    assert (result.expected, result.evaluated) == (17, 17)
    assert result.measures[measure]["shop.quote"].n == 60
    with pytest.raises(EnvaceError, match=rf"shop\.quote: {name}"):
        gate(result)


def test_a_role_leak_in_one_response_of_twenty_is_enough(tmp_path: Path) -> None:
    task = Task(id="t-1", world="shop", template="t", seed=1, tools=(), messages=())
    call, tool = ToolCall(name="quote"), Tool(name="quote")
    leaked = rehearsed_output(
        "warmup", task, tool, call, '{"ok":true}<|act|>ok', '{"ok":true}', terminated=True
    )
    sound = rehearsed_output("warmup", task, tool, call, '{"ok":true}', '{"ok":true}', terminated=True)
    result = check([*good(), *[sound] * 39, leaked], THRESHOLDS, tmp_path / "docs")
    assert result.failures[0] == "shop.quote: own role 0.97 < 0.99 (n=40)"


def test_a_measure_that_is_only_reported_stops_nothing_and_the_docs_say_so(tmp_path: Path) -> None:
    bad = [*good(), *rows("shop", "quote", 6, 0, checks={"echo": False, "granted": True})]
    thresholds = THRESHOLDS.model_copy(update={"reported": ("echo",)})
    result = check(bad, thresholds, tmp_path / "docs")
    assert (result.passed, result.failures) == (True, ())
    assert result.warnings == ("shop.quote: echo 0.00 < 0.80 (n=6)",)
    gate(result)
    (suite,) = (tmp_path / "docs/expectations").glob("*.html")
    assert "echo at least 0.8 (reported only: it stops nothing)" in suite.read_text(encoding="utf-8")
    (validation,) = (tmp_path / "docs/validations").rglob("*.html")
    told = "Quality gate: passed</strong><ul><li>shop.quote: echo 0.00 &lt; 0.80 (n=6), reported only</li>"
    assert told in validation.read_text(encoding="utf-8")


def test_a_measure_is_required_where_it_applies_often_enough(tmp_path: Path) -> None:
    few = [*good(), *rows("shop", "quote", THRESHOLDS.min_rows - 1, 0, checks={"echo": False})]
    assert check(few, THRESHOLDS, tmp_path / "docs").passed
    enough = [*few, few[-1]]
    assert not check(enough, THRESHOLDS, tmp_path / "docs").passed
    lower = THRESHOLDS.model_copy(update={"measures": {"echo": 0.0}})
    assert check(enough, lower, tmp_path / "docs").passed


def test_drift_against_the_accepted_run(tmp_path: Path) -> None:
    longer = [row.model_copy(update={"predicted": row.predicted + " " * 30}) for row in good()]
    result = check(good(), THRESHOLDS, tmp_path / "docs", accepted=good())
    assert result.passed and result.expected == 17 and set(result.drift.values()) == {0.0}
    result = check(longer, THRESHOLDS, tmp_path / "docs", accepted=good())
    assert result.evaluated == result.expected == 17
    (line,) = result.failures
    assert line.startswith("all: drift of response length (PSI) ") and line.endswith(" > 0.25 (n=30)")
    reported = THRESHOLDS.model_copy(update={"reported": ("drift",)})
    assert check(longer, reported, tmp_path / "docs", accepted=good()).warnings == (line,)


def test_an_unknown_measure_is_refused() -> None:
    for field in ({"measures": {"eco": 0.5}}, {"reported": ("eco",)}):
        with pytest.raises(ValidationError, match=r"no measure eco: one of own_role, "):
            Thresholds(worlds=(), tools={}, **field)


def test_a_tool_with_error_rows_only_does_not_pass_for_want_of_core_rows(tmp_path: Path) -> None:
    only_errors = [r for r in good() if r.tool != "list"] + rows("agenda", "list", 20, 0, error=True)
    result = check(only_errors, THRESHOLDS, tmp_path / "docs")
    assert set(result.failures) == {
        "agenda.list: core responses 0 < 5",
        "agenda.list: agreement 0.00 < 0.80 (n=0)",
    }


def test_a_hair_below_the_threshold_does_not_read_as_equal() -> None:
    assert Requirement("agreement", "a.b", {}, 0.8, "agrees").line(0.79999, 9) == (
        "a.b: agreement 0.79 < 0.80 (n=9)"
    )
    assert Requirement("agreement", "a.b", {}, 0.975, "agrees").line(0.9749, 9) == (
        "a.b: agreement 0.974 < 0.975 (n=9)"
    )


def test_an_expectation_that_raises_is_counted_and_fails_the_check(tmp_path: Path) -> None:
    built = requirements(good(), THRESHOLDS)
    frame = table(good(), THRESHOLDS).drop(columns="valid")
    verdicts = validate(frame, built, tmp_path / "docs", "warmup")
    silent = [v for v in verdicts if v.error]
    assert {v.requirement.measure for v in silent} == {"valid"} and len(silent) == 3
    assert all(not v.met for v in silent)
    assert "could not be evaluated" in silent[0].line


def test_an_expectation_dropped_from_the_suite_is_counted_and_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from great_expectations import ExpectationSuite

    whole = ExpectationSuite.add_expectation

    def lossy(self: ExpectationSuite, expectation: object) -> object:
        dropped = "agreement" in str(getattr(expectation, "notes", ""))
        return expectation if dropped else whole(self, expectation)  # type: ignore[arg-type]

    monkeypatch.setattr(ExpectationSuite, "add_expectation", lossy)
    result = check(good(), THRESHOLDS, tmp_path / "docs")
    assert not result.passed
    assert result.failures[0] == "only 10 of 14 expectations were evaluated"
    with pytest.raises(EnvaceError, match="only 10 of 14"):
        gate(result)


def test_names_with_quotes_select_their_own_rows(tmp_path: Path) -> None:
    odd = 'it\'s `odd` @x "q" and True'
    thresholds = Thresholds(worlds=("agenda",), tools={"agenda": (odd, "move")})
    result = check(
        [*rows("agenda", odd, 5, 5), *rows("agenda", "move", 30, 0)], thresholds, tmp_path / "docs"
    )
    assert result.failures == (f"agenda.{odd}: agreement 0.50 < 0.80 (n=10)",)


def test_docs_are_replaced_and_nothing_is_written_or_sent_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "tmp", "cwd"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(tmp_path / "cwd")

    def refuse(self: socket.socket, address: object) -> None:
        raise AssertionError(f"the check reached for the network: {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    for _ in range(2):
        result = check(good(), THRESHOLDS, "docs")
    assert result.docs == "docs/index.html"
    assert "Data Docs" in Path(result.docs).read_text(encoding="utf-8")
    pages = list(Path("docs/validations").rglob("*.html"))
    assert len(pages) == 1, "validations of an earlier check are pruned"
    (suite,) = Path("docs/expectations").glob("*.html")
    assert "agenda.move: agreement at least 0.8" in suite.read_text(encoding="utf-8")
    assert [path.name for path in Path().iterdir()] == ["docs"]
    assert not list((tmp_path / "home").iterdir()) and not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("bad", "thresholds", "message"),
    [
        ([], THRESHOLDS, "no rehearsed outputs"),
        (good() + rows("shop", "quote", 1, 0, policy="trained"), THRESHOLDS, "trained and warmup"),
        (good(), Thresholds(worlds=("mail",), tools={}), "gated world mail lists no tools"),
    ],
)
def test_unusable_input_is_a_one_line_error(
    tmp_path: Path, bad: list[RehearsedOutput], thresholds: Thresholds, message: str
) -> None:
    with pytest.raises(EnvaceError, match=message):
        check(bad, thresholds, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


outputs = st.builds(
    lambda world, tool, agrees, error: rows(world, tool, 1, 0, error=error, agrees=agrees)[0],
    st.sampled_from(["agenda", "shop"]),
    st.sampled_from(["move", "quote"]),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(outputs, max_size=40))
def test_shares_by_tool_add_up_to_shares_by_world(sample: list[RehearsedOutput]) -> None:
    found = agreement(sample, THRESHOLDS)
    hits = {name: round((s.share or 0) * s.n) for name, s in found.tools.items()}
    for world, share in found.worlds.items():
        of_world = [name for name in hits if name.startswith(f"{world}.")]
        assert share.n == sum(found.tools[name].n for name in of_world)
        assert round((share.share or 0) * share.n) == sum(hits[name] for name in of_world)
    gated = sum(r.agrees for r in sample if r.world == "agenda" and not r.is_error)
    assert round((found.overall.share or 0) * found.overall.n) == gated


def test_data_docs_can_be_read_without_a_network(tmp_path: Path) -> None:
    check(good(), THRESHOLDS, tmp_path / "docs")
    index = (tmp_path / "docs" / "index.html").read_text()
    pages = [page for page in (tmp_path / "docs").rglob("*.html") if page.parent != tmp_path / "docs"]
    assert len(pages) == 2  # the suite and its validation
    for page in pages:
        assert f'<a href="{page.relative_to(tmp_path / "docs").as_posix()}">' in index
        assert "<strong>Quality gate: passed</strong>" in page.read_text()
        style, web = (page.read_text().index(text) for text in ("<style>", 'href="https://'))
        assert style < web  # what comes from the web has the last word where it comes


def test_the_same_check_at_another_hour_writes_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = [*rows("agenda", "move", 20, 10), *rows("shop", "quote", 30, 0)]
    for zone in ("UTC0", "EST5"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        check(weak, THRESHOLDS, tmp_path / zone)
    monkeypatch.undo()
    time.tzset()
    pages = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "UTC0", tmp_path / "EST5")
    ]
    assert pages[0] == pages[1]
