"""The inbox: what is taken, what is refused and why, and that no row and no file is lost."""

import json
from pathlib import Path

import pytest

from envace.errors import EnvaceError
from envace.leakage import EvalItem
from envace.params import FilterParams
from envace.trajectory import Message, Quarantined, Trajectory, iter_records, read_trajectories, write_records
from flows.inbox import Received, put_away, receive, refuse, waiting

SECRET = "which of the seven lighthouses on the northern coast was built before the great storm of 1703"
ITEMS = [EvalItem(benchmark="bench", id="7", split="", text=SECRET)]
LOOSE = FilterParams(rules={"roles": {}, "empty": {}, "duplicates": {}}, max_loss=0.5)


def trajectory(id: str, question: str) -> Trajectory:
    said = (
        Message(role="user", content=question),
        Message(role="assistant", content=f"I do not know {question}", author="recorded"),
    )
    return Trajectory(id=id, source="log", messages=said)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def received(path: Path, inbox: Path, filtering: FilterParams = LOOSE) -> Received:
    return receive(path, inbox, inbox.parent / "accepted", filtering, ITEMS)


def dropped_in(path: Path, rows: list[Trajectory], *broken: str) -> Path:
    write_records(path, rows)
    with path.open("a") as handle:
        handle.writelines(line + "\n" for line in broken)
    return path


def test_files_and_folders_of_formats_are_taken_in_order_and_nothing_else(inbox: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".half.jsonl", "openai-messages/c.jsonl", "toucan/d.parquet"):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_text("x")
    for folder in ("refused", "used", "other"):
        (inbox / folder).mkdir()
        (inbox / folder / "e.jsonl").write_text("x")
    found = [path.relative_to(inbox).as_posix() for path in waiting(inbox)]
    assert found == ["a.jsonl", "b.jsonl", "openai-messages/c.jsonl", "toucan/d.parquet"]
    with pytest.raises(EnvaceError, match="no such folder"):
        waiting(inbox / "absent")


def test_a_good_file_is_named_by_its_content(inbox: Path) -> None:
    rows = [trajectory(str(i), f"question {i}") for i in range(3)]
    one = received(dropped_in(inbox / "one.jsonl", rows), inbox)
    two = received(dropped_in(inbox / "two.jsonl", rows), inbox)
    other = received(dropped_in(inbox / "other.jsonl", rows[:2]), inbox)
    assert (one.rows, one.leaked, one.dropped, one.reason) == (3, 0, 0, "")
    assert one.accepted and one.accepted == two.accepted != other.accepted
    assert read_trajectories(one.accepted) == rows
    assert not (inbox / "refused").exists()


def test_logs_in_another_format_are_imported(inbox: Path) -> None:
    (inbox / "openai-messages").mkdir()
    path = inbox / "openai-messages" / "log.jsonl"
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    path.write_text(json.dumps({"messages": messages}) + "\n" + json.dumps({"messages": 3}) + "\n")
    found = received(path, inbox)
    assert found.accepted and (found.rows, found.dropped) == (1, 1)
    assert read_trajectories(found.accepted)[0].source == "openai_messages"
    assert (inbox / "refused/openai-messages/log.jsonl.rows.jsonl").is_file()


def test_a_file_of_which_too_much_is_lost_is_refused_with_the_first_reason(inbox: Path) -> None:
    path = dropped_in(inbox / "bad.jsonl", [trajectory("a", "x")], "{broken", "{}")
    found = received(path, inbox)
    assert found.accepted is None
    assert found.reason.startswith("2 of 3 rows cannot be used, first line 2: ")
    assert len(list(iter_records(inbox / "refused/bad.jsonl.rows.jsonl", Quarantined))) == 2
    assert not (inbox.parent / "accepted").exists()
    strict = FilterParams(rules=LOOSE.rules, max_loss=0.7)
    assert received(path, inbox, strict).rows == 1


@pytest.mark.parametrize(("content", "reason"), [(b"", "no rows"), (b"\xff\xfe\n", "not UTF-8")])
def test_what_cannot_be_read_is_refused(inbox: Path, content: bytes, reason: str) -> None:
    (inbox / "x.jsonl").write_bytes(content)
    found = received(inbox / "x.jsonl", inbox)
    assert found.accepted is None and reason in found.reason


def test_rows_that_match_a_benchmark_are_left_out_and_counted(inbox: Path) -> None:
    rows = [trajectory("fair", "what is new"), trajectory("leak", f"please tell me {SECRET}")]
    found = received(dropped_in(inbox / "mixed.jsonl", rows), inbox)
    assert found.accepted and (found.rows, found.leaked) == (1, 1)
    assert [t.id for t in read_trajectories(found.accepted)] == ["fair"]
    [aside] = iter_records(inbox / "refused/mixed.jsonl.rows.jsonl", Quarantined)
    assert json.loads(aside.record)["id"] == "leak"


def test_a_file_of_leaks_alone_is_refused(inbox: Path) -> None:
    found = received(dropped_in(inbox / "leak.jsonl", [trajectory("leak", SECRET)]), inbox)
    assert found.accepted is None
    assert found.reason.startswith("all 1 rows match a benchmark, first: leak holds bench 7 (")


def test_files_are_moved_aside_never_over_each_other(inbox: Path) -> None:
    for turn in range(2):
        path = dropped_in(inbox / "a.jsonl", [trajectory("a", str(turn))])
        refuse(received(path, inbox), inbox, "all of it is wrong")
    put_away(received(dropped_in(inbox / "a.jsonl", [trajectory("a", "x")]), inbox), inbox)
    assert waiting(inbox) == []
    moved = sorted(path.relative_to(inbox).as_posix() for path in inbox.rglob("*") if path.is_file())
    assert moved == [
        "refused/a.2.jsonl", "refused/a.2.jsonl.reason.txt", "refused/a.jsonl", "refused/a.jsonl.reason.txt",
        "used/a.jsonl",
    ]  # fmt: skip
    assert (inbox / "refused/a.jsonl.reason.txt").read_text() == "all of it is wrong\n"
