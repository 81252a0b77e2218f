"""Planted leaks are found, located and removed; what cannot be found is said."""

import json

import pytest

from envace.errors import EnvaceError
from envace.leakage import METHODS, EvalItem, LeakageFiles, canonical_calls, check, check_files
from envace.trajectory import Message, Quarantined, Tool, ToolCall, Trajectory, iter_records, write_records

QUESTION = "Which of my two savings accounts paid more interest in the third quarter of last year?"
LEAK = QUESTION.rstrip("?")
CHINESE = "请帮我查询一下中证红利指数基金最近一年的收益率和最大回撤"
HARMLESS = "I would like to book a table for four people near the harbor on Sunday evening."


def said(
    text: str, id_: str = "t", calls: tuple[ToolCall, ...] = (), tools: tuple[Tool, ...] = ()
) -> Trajectory:
    turns = (Message(role="user", content=text), Message(role="assistant", content="ok", tool_calls=calls))
    return Trajectory(id=id_, source="world", tools=tools, messages=turns)


def item(text: str, id_: str = "q", **fields) -> EvalItem:
    return EvalItem(benchmark="bench", id=id_, text=text, **fields)


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
def test_a_planted_leak_is_found_located_and_removed(question, training, leak) -> None:
    train = [said(HARMLESS, "good"), said(training, "bad")]
    result = check(train, [item(question)], "remove")
    (match,) = [match for match in result.matches if match.method == "ngram8"]
    assert (match.train_id, match.item_id, match.score, match.others) == ("bad", "q", 1.0, 0)
    assert match.span_text == leak
    assert (match.item_text, match.train_text) == (question, training)
    start, end = match.item_span or (0, 0)
    assert start == 0 and end - start == (
        match.train_span[1] - match.train_span[0] if match.train_span else 0
    )
    assert [trajectory.id for trajectory in result.clean] == ["good"]
    (removed,) = result.removed
    assert removed.line == 2
    assert removed.reason == "leaks bench q"
    assert Trajectory.model_validate_json(removed.record) == train[1]
    assert check(result.clean, [item(question)], "fail").leaking == 0


def test_a_paraphrase_is_not_found_and_that_is_said() -> None:
    paraphrase = "Last year between July and September, did account one or account two earn me more?"
    result = check([said(paraphrase)], [item(QUESTION)], "remove")
    assert result.matches == []
    assert len(result.clean) == 1
    assert result.notes[0].startswith("not checked: paraphrases")


def test_policies() -> None:
    train = [said(HARMLESS, "good"), said(QUESTION, "bad")]
    report = check(train, [item(QUESTION)], "report")
    assert (report.clean, report.removed, report.leaking) == (train, [], 1)
    with pytest.raises(
        EnvaceError, match=r"1 training trajectories leak .* first: bad holds bench q \(exact, 100%\)"
    ):
        check(train, [item(QUESTION)], "fail")
    assert check(train, [item(QUESTION)], "report", methods=["calls"]).leaking == 0
    with pytest.raises(EnvaceError, match=r"unknown leakage method bert .*choose from exact"):
        check(train, [], methods=["bert"])


def test_a_set_is_contaminated_above_two_percent() -> None:
    items = [
        item(f"unrelated question number {i} about w{i} and v{i} and nothing else", f"i{i}")
        for i in range(99)
    ]
    one = check([said(QUESTION)], [*items, item(QUESTION)])
    (row,) = one.table
    assert (row.items, row.leaked, row.contaminated) == (100, 1, False)
    assert row.matched == {"exact": 1, "ngram8": 1, "ngram13": 1, "minhash": 1, "calls": 0, "schema": 0}
    three = check([said(QUESTION), said(items[0].text), said(items[1].text)], [*items, item(QUESTION)])
    assert (three.table[0].leaked, three.table[0].contaminated) == (3, True)


def test_every_trajectory_of_a_leak_is_removed_and_counted() -> None:
    train = [said(QUESTION, "a"), said(QUESTION, "b"), said(embed(LEAK), "c"), said(HARMLESS, "d")]
    result = check(train, [item(QUESTION)], "remove")
    assert [trajectory.id for trajectory in result.clean] == ["d"]
    match = next(match for match in result.matches if match.method == "ngram8")
    assert (match.train_id, match.others) == ("a", 2)


def test_templates_with_fresh_names_are_not_equal() -> None:
    train = [said(f"order 3 {name} then cancel it", name) for name in ("badoki", "ludesa", "pimora")]
    result = check(train, [item("order 3 badokine then cancel it")], "remove")
    assert result.matches == []


def test_a_thirteen_gram_is_reported_but_not_removed() -> None:
    shared = " ".join(f"w{i}" for i in range(13))
    long = shared + " " + " ".join(f"v{i}" for i in range(30))
    result = check([said(shared)], [item(long)], "remove")
    assert [(match.method, match.kind) for match in result.matches] == [("ngram13", "hint")]
    assert result.matches[0].score == pytest.approx(13 / 43)
    assert len(result.clean) == 1


def test_reference_calls_are_found_under_another_wording() -> None:
    calls = (ToolCall(name="pay", arguments={"to": "Ada", "amount": 3}), ToolCall(name="balance"))
    gold = canonical_calls(calls)
    assert gold == '[{"arguments":{"amount":3,"to":"Ada"},"name":"pay"},{"arguments":{},"name":"balance"}]'
    reordered = (ToolCall(name="pay", arguments={"amount": 3, "to": "Ada"}), calls[1])
    train = [said("send three to ada", "bad", reordered), said("pay", "good", calls[:1])]
    result = check(train, [item(QUESTION, gold_calls=json.dumps(json.loads(gold), indent=2))], "remove")
    (match,) = result.matches
    assert (match.method, match.train_id, match.detail) == ("calls", "bad", gold)
    assert [trajectory.id for trajectory in result.clean] == ["good"]


def test_reference_calls_that_say_nothing_or_cannot_be_read_are_left_out() -> None:
    idle = (ToolCall(name="list"),)
    items = [item(QUESTION, "1", gold_calls=canonical_calls(idle)), item(QUESTION, "2", gold_calls="list()")]
    result = check([said("what is there", calls=idle)], items)
    assert result.matches == []
    assert result.notes[1] == "not checked by calls: 1 item(s) whose gold_calls are not a JSON list of calls"


def test_shared_tools_are_named_and_kept() -> None:
    properties = {"to": {}, "amount": {}, "currency": {}}
    tools = (Tool(name="Pay"), Tool(name="transfer", parameters={"type": "object", "properties": properties}))
    schemas = {"pay": ("to",), "send_money": ("amount", "currency", "to"), "fly": ("where",)}
    asked = item(QUESTION, tools=("pay", "send_money", "fly"), schemas=schemas)
    result = check([said(HARMLESS, "first", tools=tools)], [asked], "remove")
    (match,) = result.matches
    assert (match.kind, match.train_id, match.detail) == (
        "same_domain",
        "first",
        "pay (name), send_money (parameters)",
    )
    assert match.score == pytest.approx(2 / 3)
    assert len(result.clean) == 1


def test_an_item_without_words_is_said_not_to_be_checked() -> None:
    result = check([said("!?")], [item("…")])
    assert result.matches == []
    assert "not checked by text: 1 item(s) without any word" in result.notes


def test_files(tmp_path) -> None:
    train, items = tmp_path / "train.jsonl", tmp_path / "items.jsonl"
    write_records(train, [said(HARMLESS, "good"), said(QUESTION, "bad")])
    write_records(items, [item(QUESTION)])
    files = LeakageFiles(
        *(tmp_path / name for name in ("clean.jsonl", "bad.jsonl", "matches.jsonl", "metrics.json"))
    )
    with pytest.raises(EnvaceError, match="leak evaluation items"):
        check_files(train, [items], files, "fail")
    assert not files.clean.exists()
    assert json.loads(files.metrics.read_text(encoding="utf-8"))["leaking"] == 1

    check_files(train, [items], files, "remove")
    assert [trajectory.id for trajectory in iter_records(files.clean, Trajectory)] == ["good"]
    (removed,) = iter_records(files.quarantine, Quarantined)
    assert (removed.file, removed.line, removed.rule) == (str(train), 2, "leakage:exact")
    assert json.loads(files.metrics.read_text(encoding="utf-8"))["removed"] == 1


def test_the_registry_says_which_methods_count() -> None:
    assert {name for name, method in METHODS.items() if method.kind == "leak"} == {
        "exact",
        "ngram8",
        "minhash",
        "calls",
    }
