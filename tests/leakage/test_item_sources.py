"""Items of published files, of harnesses and of own files, each by one entry."""

import json
import os
from pathlib import Path

import pytest
from leakage_samples import item, said

from envace.errors import EnvaceError
from envace.leakage import check
from envace.leakage.sources import read_items, trajectory_item
from envace.trajectory import Tool, ToolCall, write_records

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("ENVACE_SHARED", ROOT / "../shared")) / "data"


def published(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"data/{name} is absent")
    return DATA / name


def test_vitabench_tasks_as_published() -> None:
    items = list(read_items(f"vitabench={published('vitabench/delivery_tasks_en.json')}"))
    assert len(items) == 100
    assert (items[0].benchmark, items[0].id, items[0].split) == ("vitabench", "delivery/10711001", "delivery")
    assert items[0].text.startswith("It's pouring rain outside")


def test_finmcp_samples_as_published() -> None:
    items = list(read_items(f"finmcp={published('finmcp_demo_infer.json')}"))
    assert len(items) == 6
    assert items[0].text.startswith("最近市场行情如何？") and items[0].tools == ("SearchFinancialNews",)
    assert items[0].gold_calls == '[{"arguments":{"keyword":"市场"},"name":"SearchFinancialNews"}]'


def test_own_items_and_trajectories(tmp_path) -> None:
    write_records(tmp_path / "items.jsonl", [item("one"), item("two")])
    assert [found.text for found in read_items(str(tmp_path / "items.jsonl"))] == ["one", "two"]
    log = {
        "id": "a",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}],
    }
    (tmp_path / "log.jsonl").write_text(json.dumps(log), encoding="utf-8")
    (found,) = read_items(f"openai_messages={tmp_path / 'log.jsonl'}")
    assert (found.benchmark, found.id, found.text, found.gold_calls) == ("openai_messages", "a", "hi", "")


def test_a_trajectory_leaks_itself_by_every_method() -> None:
    tool = Tool(name="pay", parameters={"type": "object", "properties": {"to": {"type": "string"}}})
    call = ToolCall(name="pay", arguments={"to": "Ada"})
    own = said("please send the rent for this month to my landlord Ada", calls=(call,), tools=(tool,))
    result, _ = check([own], [trajectory_item(own, "own")])
    assert [match.method for match in result.matches] == [
        "exact", "ngram8", "ngram13", "minhash", "calls", "schema",
    ]  # fmt: skip
    assert result.matches[-1].detail == "pay (name, parameters, schema)"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("vitabench", "vitabench is read from your own copy of it (run `envace harness install vitabench"),
        ("cm2", "cm2 is read from your own copy of it (write cm2=FILE)"),
        ("finmcp", "finmcp is read from your own copy of it (run `envace harness install finmcp --from"),
        ("gsm8k=x.json", "no reader for gsm8k (choose from vitabench, "),
        ("gone.jsonl", "gone.jsonl: no such file"),
        ("vitabench=gone.json", "gone.json: no such file"),
    ],
)
def test_an_entry_that_cannot_be_read_is_one_line(entry, said, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ENVACE_HARNESS", str(tmp_path))
    with pytest.raises(EnvaceError) as caught:
        list(read_items(entry))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ['[{"id": 1}]', "[3]", "[{]"])
def test_another_file_than_the_named_one_is_told_by_its_line(tmp_path, content) -> None:
    (tmp_path / "tasks.json").write_text(content, encoding="utf-8")
    with pytest.raises(EnvaceError, match=r"tasks\.json:1: "):
        list(read_items(f"vitabench={tmp_path / 'tasks.json'}"))
