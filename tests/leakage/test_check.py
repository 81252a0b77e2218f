"""Planted leaks are found, located and removed; what cannot be found is said."""

import json

import pytest
from leakage_samples import item, said

from envace.errors import EnvaceError
from envace.leakage import METHODS, Leak, LeakageFiles, canonical_calls, check, check_files
from envace.leakage.workers import CHUNK
from envace.trajectory import Quarantined, Tool, ToolCall, Trajectory, iter_records, write_records

QUESTION = "Which of my two savings accounts paid more interest in the third quarter of last year?"
LEAK = QUESTION.rstrip("?")
CHINESE = "请帮我查询一下中证红利指数基金最近一年的收益率和最大回撤"
HARMLESS = "I would like to book a table for four people near the harbor on Sunday evening."


def embed(text: str) -> str:
    return f"Hello there, I am new here and have a small question. {text}, if you can see it? Thanks a lot!"


REWRAPPED = LEAK.replace(" ", "\n   ")


@pytest.mark.parametrize(
    ("question", "training", "leak"),
    [
        (QUESTION, QUESTION, LEAK),
        (QUESTION, QUESTION.upper(), LEAK.upper()),
        (QUESTION, REWRAPPED, REWRAPPED),
        (QUESTION, embed(LEAK), LEAK),
        (QUESTION, embed(REWRAPPED.title()), REWRAPPED.title()),
        (CHINESE, CHINESE + "。", CHINESE),
        (CHINESE, f"你好，{CHINESE}，谢谢你的耐心解答！", CHINESE),
        (CHINESE, "\n".join(CHINESE), "\n".join(CHINESE)),
    ],
    ids=[
        "verbatim",
        "re-cased",
        "re-wrapped",
        "embedded",
        "all three",
        "chinese",
        "embedded chinese",
        "wrapped chinese",
    ],
)
def test_a_planted_leak_is_found_and_located(question, training, leak) -> None:
    train = [said(HARMLESS, id_="good"), said(training, id_="bad")]
    result, leaks = check(train, [item(question)])
    assert leaks[0] is None and leaks[1] is not None and leaks[1].item_id == "q"
    assert result.leaking == 1
    (match,) = [match for match in result.matches if match.method == "ngram8"]
    assert (match.train_id, match.item_id, match.score, match.others) == ("bad", "q", 1.0, 0)
    assert match.span_text == leak
    assert (match.item_text, match.train_text) == (question, training)
    assert match.item_span and match.train_span and match.item_span[0] == 0
    assert match.item_span[1] == match.train_span[1] - match.train_span[0]


def test_a_paraphrase_is_not_found_and_that_is_said() -> None:
    paraphrase = "Last year between July and September, did account one or account two earn me more?"
    result, leaks = check([said(paraphrase)], [item(QUESTION)])
    assert (result.matches, leaks) == ([], [None])
    assert result.notes[0].startswith("not checked: paraphrases")
    assert any("assistants, tools and system prompts" in note for note in result.notes)


def test_methods_are_chosen_with_their_options() -> None:
    train = [said(QUESTION)]
    assert check(train, [item(QUESTION)], {"calls": None})[1] == [None]
    assert check(train, [item(QUESTION)], {"minhash": {"threshold": 0.5}})[1] == [
        Leak("minhash", "bench", "q")
    ]
    with pytest.raises(EnvaceError, match=r"unknown leakage method bert .*choose from exact"):
        check(train, [], {"bert": None})
    with pytest.raises(EnvaceError, match=r"leakage method exact: .*threshold"):
        check(train, [], {"exact": {"threshold": 1}})


def test_a_set_is_contaminated_above_two_percent() -> None:
    items = [
        item(f"unrelated question number {i} about w{i} and v{i} and nothing else", f"i{i}")
        for i in range(99)
    ]
    (row,) = check([said(QUESTION)], [*items, item(QUESTION)])[0].table
    assert (row.items, row.leaked, row.contaminated) == (100, 1, False)
    assert row.matched == {"exact": 1, "ngram8": 1, "ngram13": 1, "minhash": 1, "calls": 0, "schema": 0}
    train = [said(QUESTION), said(items[0].text), said(items[1].text)]
    (row,) = check(train, [*items, item(QUESTION)])[0].table
    assert (row.leaked, row.contaminated) == (3, True)


def test_the_closest_and_earliest_trajectory_is_named_whatever_the_chunk_it_is_in() -> None:
    half = " ".join(QUESTION.split()[:10])
    crowd = [said(f"{HARMLESS} {number}", id_=str(number)) for number in range(CHUNK)]
    train = [said(half, id_="a"), *crowd, said(QUESTION, id_="b"), *crowd, said(QUESTION, id_="c")]
    result, leaks = check(train, [item(QUESTION)])
    assert [at for at, leak in enumerate(leaks) if leak] == [0, CHUNK + 1, 2 * CHUNK + 2]
    matches = {match.method: match for match in result.matches}
    assert (matches["ngram8"].train_id, matches["ngram8"].others) == ("b", 2)
    assert (matches["exact"].train_id, matches["exact"].others) == ("b", 1)
    assert check(train[:1], [item(QUESTION)])[0].matches[0].score == 10 / 16


def test_templates_with_fresh_names_are_not_equal() -> None:
    train = [said(f"order 3 {name} then cancel it", id_=name) for name in ("badoki", "ludesa", "pimora")]
    assert check(train, [item("order 3 badokine then cancel it")])[0].matches == []


def test_a_thirteen_gram_is_reported_but_is_no_leak() -> None:
    shared = " ".join(f"w{i}" for i in range(13))
    long = shared + " " + " ".join(f"v{i}" for i in range(30))
    result, leaks = check([said(shared)], [item(long)])
    assert [(match.method, match.kind) for match in result.matches] == [("ngram13", "hint")]
    assert result.matches[0].score == pytest.approx(13 / 43)
    assert leaks == [None]


def test_reference_calls_are_found_under_another_wording_and_spelling() -> None:
    calls = (ToolCall(name="bank.pay", arguments={"to": "Ada", "amount": 3}), ToolCall(name="balance"))
    gold = canonical_calls(calls)
    assert (
        gold == '[{"arguments":{"amount":3,"to":"Ada"},"name":"bank.pay"},{"arguments":{},"name":"balance"}]'
    )
    made = (ToolCall(name="bank_pay", arguments={"amount": 3, "to": "Ada"}), calls[1])
    train = [said("send three to ada", id_="bad", calls=made), said("pay", id_="good", calls=calls[:1])]
    result, leaks = check(train, [item(QUESTION, gold_calls=json.dumps(json.loads(gold), indent=2))])
    (match,) = result.matches
    assert (match.method, match.train_id, match.detail) == ("calls", "bad", canonical_calls(made))
    assert leaks == [Leak("calls", "bench", "q"), None]


def test_reference_calls_that_say_nothing_or_cannot_be_read_are_left_out() -> None:
    idle = (ToolCall(name="list"),)
    items = [item(QUESTION, "1", gold_calls=canonical_calls(idle)), item(QUESTION, "2", gold_calls="list()")]
    result, _ = check([said("what is there", calls=idle)], items)
    assert result.matches == []
    assert "not checked by calls: 1 item(s) whose gold_calls are not a JSON list of calls" in result.notes


def test_an_item_without_words_is_said_not_to_be_checked() -> None:
    result, _ = check([said("!?")], [item("…")])
    assert result.matches == []
    assert "not checked by text: 1 item(s) without any word" in result.notes


def test_nothing_at_all_is_no_error() -> None:
    assert check([], [item(QUESTION)])[0].matches == []
    assert check([said(QUESTION)], [])[0].table == []
    assert check([said("")], [item("")])[0].matches == []


@pytest.fixture
def files(tmp_path) -> LeakageFiles:
    names = ("clean.jsonl", "bad.jsonl", "matches.jsonl", "metrics.json")
    return LeakageFiles(*(tmp_path / name for name in names))


def test_policies(tmp_path, files) -> None:
    train = tmp_path / "train.jsonl"
    bad = said(QUESTION, id_="bad")
    write_records(train, [said(HARMLESS, id_="good"), bad])
    before = train.read_text(encoding="utf-8")

    expected = r"1 training trajectories leak .* first: bad holds bench q \(exact, 100%\)"
    with pytest.raises(EnvaceError, match=expected):
        check_files(train, [item(QUESTION)], files, "fail")
    assert not files.clean.exists()
    assert json.loads(files.metrics.read_text(encoding="utf-8"))["leaking"] == 1

    assert check_files(train, [item(QUESTION)], files, "report").clean == 2
    assert files.clean.read_text(encoding="utf-8") == before
    assert files.quarantine.read_text(encoding="utf-8") == ""

    assert check_files(train, [item(QUESTION)], files, "remove").removed == 1
    assert files.clean.read_text(encoding="utf-8") == before.splitlines(keepends=True)[0]
    (removed,) = iter_records(files.quarantine, Quarantined)
    assert (removed.file, removed.line, removed.rule) == (str(train), 2, "leakage:exact")
    assert removed.reason == "leaks bench q"
    assert Trajectory.model_validate_json(removed.record) == bad
    metrics = json.loads(files.metrics.read_text(encoding="utf-8"))
    assert (metrics["clean"], metrics["removed"], metrics["leaking"]) == (1, 1, 1)
    assert check_files(files.clean, [item(QUESTION)], files, "fail").leaking == 0


def test_a_line_that_is_no_trajectory_is_set_aside_and_said(tmp_path, files) -> None:
    train = tmp_path / "train.jsonl"
    good = said(HARMLESS).model_dump_json()
    train.write_text(f"{good}\n{{oops\n{good}\n", encoding="utf-8")
    result = check_files(train, [item(QUESTION)], files, "report")
    assert (result.clean, result.removed, result.unreadable) == (2, 0, 1)
    (broken,) = iter_records(files.quarantine, Quarantined)
    assert (broken.line, broken.rule, broken.record) == (2, "json", "{oops")
    assert result.notes[-1] == "not checked: 1 line(s) that are no trajectory, set aside"


@pytest.mark.parametrize("policy", ["report", "remove"])
def test_several_processes_write_the_same_files(tmp_path, files, policy) -> None:
    train = tmp_path / "train.jsonl"
    tools = [(Tool(name=f"tool_{n % 7}"),) for n in range(1200)]
    texts = {5: embed(LEAK), 300: QUESTION, 700: QUESTION, 1199: QUESTION.upper()}
    log = [said(texts.get(n, f"{HARMLESS} {n}"), id_=str(n), tools=tools[n]) for n in range(1200)]
    train.write_text("".join(t.model_dump_json() + "\n" for t in log) + "{oops\n", encoding="utf-8")
    items = [item(QUESTION, tools=("Tool3", "tool_5", "fly"))]
    written = []
    for workers in (1, 2):
        result = check_files(train, items, files, policy, workers=workers)
        written.append(
            [file.read_bytes() for file in (files.clean, files.quarantine, files.matches, files.metrics)]
        )
    assert written[0] == written[1]
    assert (result.leaking, result.unreadable) == (4, 1)
    matches = {match.method: match for match in result.matches}
    assert (matches["exact"].train_id, matches["exact"].others) == ("300", 2)
    assert (matches["schema"].train_id, matches["schema"].detail) == ("3", "Tool3 (name), tool_5 (name)")


def test_every_trajectory_of_a_leak_is_removed(tmp_path, files) -> None:
    train = tmp_path / "train.jsonl"
    texts = {"a": QUESTION, "b": QUESTION, "c": embed(LEAK), "d": HARMLESS}
    write_records(train, [said(text, id_=id_) for id_, text in texts.items()])
    check_files(train, [item(QUESTION)], files, "remove")
    assert [trajectory.id for trajectory in iter_records(files.clean, Trajectory)] == ["d"]


def test_the_registry_says_which_methods_count() -> None:
    assert {name for name, method in METHODS.items() if method.kind == "leak"} == {
        "exact",
        "ngram8",
        "minhash",
        "calls",
    }
