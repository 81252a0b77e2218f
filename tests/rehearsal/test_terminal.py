"""`envace rehearse`: what it prints, reads and refuses."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from envace.cli import main
from envace.errors import EnvaceError
from envace.rehearsal.terminal import read_conversation, show
from envace.rehearsal.trace import Branch, Imagined, Trace
from envace.trajectory import Message, ToolCall, write_records
from envace.worlds.tasks import pose

TASKS = [pose("courier", "ship", seed, "train") for seed in range(3)]
A, B = (ToolCall(name="ship", arguments={"offer": offer}) for offer in "AB")


def printed(trace: Trace, committed: Message) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    show(trace, committed, console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_alike_branches_share_the_tree_and_odd_ones_are_shown() -> None:
    def branch(call: ToolCall, response: str | None, **more: Any) -> Branch:
        return Branch(steps=(Imagined(call=call, response=response),), **more)

    branches = (
        branch(A, '{"total":9}'),
        branch(B, '{"total":3}', answer="done"),
        branch(A, '{"total":9}'),
        branch(A, '{"total":8}'),
        branch(B, None, thought="[bold]why\x1b not"),
        Branch(sampled='{"nam'),
    )
    tokens: Any = {"act": 40, "environment": 21}
    trace = Trace(strategy="parallel-6", branches=branches, memory="first\nsecond", tokens=tokens)
    assert printed(trace, Message(role="assistant", tool_calls=(B,))) == [
        "parallel-6: 6 rehearsals, 61 private tokens, 0 environment calls",
        '├── → ship(offer="A")  ×3',
        '│   ├── {"total":9}  ×2',
        '│   └── {"total":8}',
        '├── → ship(offer="B")  ×2',
        '│   ├── {"total":3}',
        "│   │   └── answer: done",
        "│   └── [bold]why␛ not",
        '├── illegible: {"nam',
        "├── memory",
        "│   ├── first",
        "│   └── second",
        "├── commits",
        '│   └── → ship(offer="B")',
        "└── tokens: act 40, environment 21",
    ]


def test_acting_at_once_shows_the_answer_alone() -> None:
    assert printed(Trace(), Message(role="assistant", content="done")) == [
        "none: 0 rehearsals, 0 private tokens, 0 environment calls",
        "└── commits",
        "    └── done",
    ]


def test_a_task_is_found_in_json_and_in_json_lines(tmp_path: Path) -> None:
    write_records(tmp_path / "many.jsonl", TASKS)
    (tmp_path / "one.json").write_text(TASKS[1].model_dump_json(indent=2), encoding="utf-8")
    lines, one = tmp_path / "many.jsonl", tmp_path / "one.json"
    assert read_conversation(lines, "2").messages == TASKS[2].messages
    assert read_conversation(lines, TASKS[1].id).tools == TASKS[1].tools
    assert read_conversation(one) == read_conversation(lines, "1")


WRONG = {
    "absent": ("", "0", "no such file"),
    "index": ('{"messages":[{"role":"user"}]}', "1", "no task 1 among 1 (give an id or an index from 0)"),
    "id": ('{"messages":[{"role":"user"}]}', "x", "no task x among 1"),
    "empty": ('{"messages":[]}', "0", "messages: "),
    "list": ("[]", "0", "(give `messages` and `tools` as in a task)"),
    "line": ('{"messages":[{"role":"user"}]}\n{', "0", "task.json:2: "),
    "over": ('{"messages":[{"role":"assistant"}]}', "0", "ends with an assistant turn"),
}


@pytest.mark.parametrize(("text", "which", "said"), WRONG.values(), ids=WRONG)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, which: str, said: str) -> None:
    path = tmp_path / "task.json"
    if text:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(EnvaceError) as caught:
        read_conversation(path, which)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_command_rehearses_prints_and_keeps_the_trace(
    tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from envace.models.build import save

    write_records(tmp_path / "tasks.jsonl", TASKS)
    out, folder = tmp_path / "trace.json", tmp_path / "policy"
    save(tiny.model, tiny.folder, folder)
    command = ["rehearse", str(tmp_path / "tasks.jsonl"), "1", "--model", str(folder), "--tokens", "12"]
    main([*command, "--strategy", "parallel-3", "--trace", str(out)])
    lines = capsys.readouterr().out.splitlines()
    trace = Trace.model_validate(json.loads(out.read_text(encoding="utf-8")))
    spent = sum(trace.tokens.values())
    assert len(trace.branches) == 3 and 0 < spent <= 36
    assert lines[0].startswith(f"parallel-3: 3 rehearsals, {spent} private tokens, ")
    assert "├── commits" in lines
    main([*command, "--strategy", "none"])
    assert capsys.readouterr().out.splitlines()[0].startswith("none: 0 rehearsals, 0 private tokens, 0 env")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "guess-4"], "error: no rehearsal strategy 'guess-4' (one of none, parallel, "),
        (["--model", "gone"], "error: gone"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    write_records(tmp_path / "tasks.jsonl", TASKS)
    with pytest.raises(SystemExit) as caught:
        main(["rehearse", str(tmp_path / "tasks.jsonl"), *arguments])
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)
