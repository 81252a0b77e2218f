"""BFCL through its own environment: gold, spoiled, silent, hostile and dying models."""

import csv
import json
import subprocess
from collections import Counter

import pytest
from rule_backend import RuleBackend

from envace.benchmarks import check, harness
from envace.benchmarks.bfcl import CATEGORIES, Bfcl
from envace.benchmarks.bfcl_score import LIVE, OFFLINE, measures
from envace.benchmarks.inside import bfcl_gold
from envace.benchmarks.stats import stratified_sample
from envace.errors import EnvaceError
from envace.serve import ContextTooLongError
from envace.serve.runner import served
from envace.trajectory.records import Message, ToolCall

MARKER = "MARKER"


@pytest.fixture(scope="module")
def bfcl(bfcl_root):
    return Bfcl(bfcl_root)


def say(text):
    return Message(role="assistant", content=text)


def call(*calls):
    return Message(role="assistant", tool_calls=tuple(ToolCall(name=n, arguments=a) for n, a in calls))


def test_gold_and_floor_on_every_default_entry(bfcl):
    assert {c: len(ids) for c, ids in bfcl.ids().items()} == {
        "simple_python": 400,
        "multiple": 200,
        "irrelevance": 240,
        "multi_turn_base": 200,
    }
    assert bfcl.means("gold") == dict.fromkeys((*CATEGORIES, "all"), 1.0)
    assert bfcl.floor() == dict.fromkeys(CATEGORIES, 0.0) | {"irrelevance": 1.0, "all": 0.25}


@pytest.mark.slow
def test_every_offline_category_takes_gold_and_refuses_spoiled_and_silent_answers(bfcl):
    everything = Bfcl(bfcl.root, ["offline"])
    counts = {category: len(ids) for category, ids in everything.ids().items()}
    assert len(counts) == 19 and sum(counts.values()) == 1390 + 2251 + 800 + 2 * 155
    assert {category: counts[category] for category in LIVE} == LIVE
    modes = check("bfcl", bfcl.root)["bfcl_v4"]
    assert modes["gold"] == dict.fromkeys((*OFFLINE, "all"), 1.0)
    assert set(modes["spoiled"].values()) == {0.0}
    right = {category for category, score in modes["nothing"].items() if score == 1.0}
    assert right == {"irrelevance", "live_irrelevance"}
    # Nothing is left out of the proof but what the data make impossible.
    rows = everything.replay("gold", everything.ids())
    assert {row["id"] for row in rows if row["success"] is None} == set(bfcl_gold.UNANSWERABLE)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gold", "nothing"])
def test_the_overall_is_the_official_one(bfcl, tmp_path, mode):
    ids = Bfcl(bfcl.root, ["offline"]).ids()
    (tmp_path / "job.json").write_text(json.dumps({"mode": mode, "ids": ids}))
    script = harness.HERE / "inside" / "bfcl_run.py"
    command = [
        harness.python_of("bfcl", bfcl.root),
        "-E",
        "-s",
        "-B",
        "-X",
        "utf8",
        script,
        "job.json",
        "said.json",
    ]
    environment = {"BFCL_PROJECT_ROOT": str(tmp_path), "OPENAI_API_KEY": "none"}
    subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment, check=True, capture_output=True)
    rows = json.loads((tmp_path / "said.json").read_text())["tasks"]
    right = Counter(
        row["category"] for row in rows if row["success"] and row["id"] not in bfcl_gold.UNANSWERABLE
    )
    found = measures({category: right[category] / len(chosen) for category, chosen in ids.items()})
    with (tmp_path / "score" / "data_overall.csv").open() as handle:
        (official,) = csv.DictReader(handle)
    for name, column in (
        ("overall_partial", "Overall Acc"),
        ("non_live", "Non-Live AST Acc"),
        ("live", "Live Acc"),
        ("multi_turn", "Multi Turn Acc"),
        ("irrelevance_both", "Irrelevance Detection"),
    ):
        assert found[name] == pytest.approx(float(official[column].rstrip("%")) / 100, abs=1e-4), name


@pytest.mark.slow
def test_memory_is_written_before_it_is_asked_for(bfcl, tmp_path):
    """The model notes what a customer says, and finds its own notes in front of the questions."""

    def rule(request):
        last = request.messages[-1]
        if last.role == "tool":
            return say("Noted.")
        seen = "".join(m.content for m in request.messages if m.role == "system")
        if "Michael" in seen:
            return say("{'answer': 'Michael', 'context': 'core memory'}")
        return call(("core_memory_add", {"key": "name", "value": "Michael"}))

    memory = Bfcl(bfcl.root, ["memory_kv"])
    backend = RuleBackend(rule)
    with served(backend) as url:
        rows = list(
            memory.outcomes(
                {"memory_kv": ["memory_kv_0-customer-0", "memory_kv_1-customer-1"]}, url, "rule_model/1", 1
            )
        )
    assert [(row["id"].split("_")[-1], row["success"]) for row in rows] == [
        ("0-customer-0", 1),
        ("1-customer-1", 0),
    ]
    assert len(backend.requests) > 2 + len(rows)


class GoldModel:
    """Knows every answer by the user's words; does what is right step by step."""

    def __init__(self, bfcl):
        self.single, self.multi = {}, {}
        for category in CATEGORIES:
            rows = (bfcl.data() / f"BFCL_v4_{category}.json").read_text().splitlines()
            answers = bfcl.data() / "possible_answer" / f"BFCL_v4_{category}.json"
            gold = answers.read_text().splitlines() if answers.exists() else ["{}"] * len(rows)
            for row, truth in zip(map(json.loads, rows), map(json.loads, gold), strict=True):
                first = row["question"][0][-1]["content"]
                known = self.multi if "multi_turn" in category else self.single
                known[first] = truth.get("ground_truth")

    def __call__(self, request):
        users = [m.content for m in request.messages if m.role == "user"]
        if users[0] in self.single:
            gold = self.single[users[0]]
            if gold is None:
                return say("None of these tools can do that.")
            return call(*((bfcl_gold.wire_name(n), a) for n, a in bfcl_gold.single_turn_calls(gold)))
        if request.messages[-1].role == "tool":
            return say("Done.")
        functions = [{"name": t.name, "parameters": t.parameters} for t in request.tools]
        turn = self.multi[users[0]][len(users) - 1]
        return call(*(bfcl_gold.parse_call(text, functions) for text in turn)) if turn else say("Done.")


@pytest.mark.slow
def test_a_perfect_model_behind_the_server_scores_all_and_twice_the_same_bytes(bfcl, tmp_path):
    backend = RuleBackend(GoldModel(bfcl))
    with served(backend) as url:
        result = bfcl.run(url, 3, 7, tmp_path / "a", strategy="parallel")
        bfcl.run(url, 3, 7, tmp_path / "b", strategy="parallel")
        asked = len(backend.requests)
        at_once = Bfcl(bfcl.root, threads=4).run(url, 3, 7, tmp_path / "c", strategy="parallel")
    assert at_once.tasks == result.tasks and len(backend.requests) == 1.5 * asked
    assert {name: group.mean for name, group in result.groups.items()} == dict.fromkeys(
        (*CATEGORIES, "all"), 1.0
    )
    assert {name: group.floor for name, group in result.groups.items()} == {
        "simple_python": 0,
        "multiple": 0,
        "irrelevance": 1,
        "multi_turn_base": 0,
        "all": 0.25,
    }
    assert len(result.tasks) == 12 and not result.official and result.model == "rule_model/1"
    assert sum(t.steps for t in result.tasks) == asked / 2
    assert all(t.act_tokens == 2 * t.steps and t.rehearsal_tokens == 5 * t.steps for t in result.tasks)
    assert {r.seed for r in backend.requests} == {7}
    for name in ("result.json", "answers.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


HOSTILE = [
    ("__import__('pathlib').Path('MARKER').touch", {}),
    ("__import__", {"name": "os"}),
    ("eval", {"source": "open('MARKER','w')"}),
    ("exec", {"source": "open('MARKER','w')"}),
    ("open", {"file": "MARKER", "mode": "w"}),
    ("open('MARKER','w').write", {"s": "x"}),
    ("compile", {"source": "1", "filename": "x", "mode": "exec"}),
    ("breakpoint", {}),
    ("input", {}),
    ("globals", {}),
    ("setattr", {"o": 1}),
    ("().__class__.__base__.__subclasses__", {}),
    ("ls.__globals__['__builtins__']['open']", {"file": "MARKER", "mode": "w"}),
    ("[open('MARKER','w') for _ in [0]] or ls", {}),
    ("(lambda: open('MARKER','w'))", {}),
    ("execute_multi_turn_func_call", {"func_call_list": ["open('MARKER','w')"], "initial_config": {}}),
    ("importlib.import_module", {"name": "os"}),
    ("inspect.os.system", {"command": "touch MARKER"}),
    ("json.__builtins__['open']", {"file": "MARKER", "mode": "w"}),
    ("_load_scenario", {"scenario": {}}),
    ("ls", {"a=open('MARKER','w'),b": 1}),
    ("ls", {"a": 1, "x": 2, "**{'b':open('MARKER','w')},c": 3}),
    ("cd", {"folder=[open('MARKER','w')][0],b": 1}),
    ("echo", {"content": "x", "file_name) or open('MARKER','w') or dict(a": 1}),
    ("ls", {"_raw": "{\"a\": __import__('os').system('touch MARKER')}"}),
    ("ls", {"_raw": "open('MARKER','w')"}),
    ("ls(a=open('MARKER','w'));ls", {}),
    ("ls\nopen", {"file": "MARKER", "mode": "w"}),
    ("pathlib.Path('MARKER').write_text", {"data": "x"}),
    ("os.system", {"command": "touch MARKER"}),
    ("shutil.copyfile", {"src": "/etc/hostname", "dst": "MARKER"}),
    ("__builtins__.__import__", {"name": "os"}),
    ("sys.modules['os'].system", {"command": "touch MARKER"}),
    ("ls.__class__.__mro__[-1].__subclasses__", {}),
    ("cd.__func__.__globals__['os'].system", {"command": "touch MARKER"}),
    ("(x:=open('MARKER','w')).write", {"s": "x"}),
    ("ls() if open('MARKER','w') else ls", {}),
    ("ls[open('MARKER','w')]", {}),
    ("*[open('MARKER','w')]", {}),
    ("ls(a=1)#", {"b": 1}),
    ("print(open('MARKER','w'))", {}),
    ("ls", {"_raw": "{'a': f\"{open('MARKER','w')}\"}"}),
    ("ls", {"_raw": "[" * 50_000}),
    ("ls", {"_raw": '{"a":' * 3_000 + "1" + "}" * 3_000}),
    ("ls", {"_raw": '{"a": ' + "9" * 5_000 + "}"}),
    ("ls", {"_raw": '{"a": NaN}'}),
    ("ls", {"_raw": '{"a": "\\ud800"}'}),
    ("ls", {"a": "A" * 300_000}),
    ("power", {"base": 10, "exponent": 10**9}),
    ("\uff4c\uff53", {}),  # full-width ls, which Python folds to ls
    ("l\u200bs", {}),
    ("\u202els", {}),
    ("\u0441d", {"folder": "x"}),  # a Cyrillic c
    ("\U0001d41e\U0001d42f\U0001d41a\U0001d425", {"source": "open('MARKER','w')"}),  # bold eval
    ("ls\x00", {}),
]


def test_the_trap_is_real(bfcl, bfcl_root, tmp_path):
    """Unguarded, the harness does run what a model writes: what follows would be seen if it happened."""
    marker = tmp_path / MARKER
    code = (
        "from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils as m\n"
        f"call = \"absolute_value(number=open('{marker}','w'))\"\n"
        "m.execute_multi_turn_func_call([call], {}, ['MathAPI'], 'm', 'x')"
    )
    python = harness.python_of("bfcl", bfcl_root)
    subprocess.run([str(python), "-c", code], check=True, env={"BFCL_PROJECT_ROOT": str(tmp_path)})
    assert marker.exists()


def place(value, marker):
    return json.loads(json.dumps(value).replace(MARKER, str(marker)))


@pytest.mark.slow
def test_hostile_answers_do_nothing_and_score_nothing(bfcl, tmp_path):
    marker = tmp_path / MARKER
    hostile = [place(entry, marker) for entry in HOSTILE]
    turn = iter(range(10**6))

    def rule(request):
        return call(hostile[next(turn) % len(hostile)])

    backend = RuleBackend(rule)
    with served(backend) as url:
        result = Bfcl(bfcl.root, ["default", "memory_kv"]).run(url, len(hostile), 0, tmp_path / "out")
    assert not marker.exists()
    assert len(backend.requests) >= (len(CATEGORIES) + 1) * len(hostile)
    assert len(hostile) >= 50
    assert {t.success for t in result.tasks} == {0}
    refused = [t for t in result.tasks if t.error.startswith("refused: ")]
    # Some are plain calls with odd arguments of a function that multi-turn entries have: run, and useless.
    assert {t.category for t in result.tasks if t not in refused} <= {"multi_turn_base"}
    assert len(refused) > 0.9 * len(result.tasks)


@pytest.mark.slow
def test_hostile_calls_spoil_an_otherwise_right_answer(bfcl, tmp_path):
    marker = tmp_path / MARKER
    ids = stratified_sample(bfcl.ids(), len(HOSTILE), 1)["multi_turn_base"]
    right = {row["id"]: row["answer"] for row in bfcl.replay("gold", {"multi_turn_base": ids})}
    answers = {}
    for i, (name, arguments) in zip(ids, place(HOSTILE, marker), strict=True):
        raw = arguments.get("_raw", json.dumps(arguments))
        answers[i] = [[*right[i][0], [{name: raw}]], *right[i][1:]]
    rows = bfcl.replay("gold", {"multi_turn_base": ids}, answers=answers)
    assert not marker.exists()
    assert [row["success"] for row in rows] == [0] * len(HOSTILE)


def test_a_dead_endpoint_fails_at_once_and_leaves_nothing(bfcl, tmp_path):
    with pytest.raises(EnvaceError, match="no model at"):
        bfcl.run("http://127.0.0.1:9/v1", 1, 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_endpoint_that_breaks_midway_fails_the_run(bfcl, tmp_path):
    answered = iter([say("I cannot.")] * 2)

    def rule(request):
        return next(answered)

    with served(RuleBackend(rule)) as url, pytest.raises(EnvaceError, match="the endpoint failed"):
        bfcl.run(url, 2, 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_context_too_long_is_the_models_failure_even_on_irrelevance(bfcl, tmp_path):
    def rule(request):
        raise ContextTooLongError(900, 512)

    with served(RuleBackend(rule)) as url:
        result = bfcl.run(url, 1, 0, tmp_path / "out")
    assert [(t.success, t.error) for t in result.tasks] == [(0, "context_length_exceeded")] * len(CATEGORIES)


def test_items_cover_all_of_bfcl(bfcl):
    items = bfcl.items()
    assert len(items) == len({item.id for item in items}) == 5106
    by_id = {item.id: item for item in items}
    first = by_id["simple_python_1"]
    assert first.text == "Calculate the factorial of 5 using math functions."
    assert first.schemas == {"math.factorial": ("number",)}
    assert json.loads(first.gold_calls) == [{"name": "math.factorial", "arguments": {"number": 5}}]
    assert by_id["multi_turn_base_0"].gold_calls.startswith(
        '[{"arguments":{"folder":"document"},"name":"cd"}'
    )
    assert by_id["irrelevance_0"].gold_calls == ""
    assert all(item.text for item in items)
