"""Hostile and degenerate input, each of a kind that once broke a run."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from jsonschema import Draft202012Validator

from envace.chat import TokenStream
from envace.chat.compact import parse_call, parse_calls
from envace.engines import Sampling
from envace.engines.hf import HFEngine
from envace.errors import EnvaceError
from envace.files import digest
from envace.params import load_params
from envace.rehearsal.memory import Rehearsed, memory_message, rank
from envace.rl.advantage import advantages
from envace.rl.batch import collate
from envace.rl.experience import collect
from envace.rl.loss import token_logprobs
from envace.rollout.answered import answered_episodes
from envace.rollout.responders import WorldResponder
from envace.synthesis.worlds import SHARES, synthesize
from envace.trajectory import Outcome, ToolCall
from envace.worlds.courier import Courier
from envace.worlds.tasks import pose, rebuild, solve, verify


def test_a_junk_call_does_not_ground_an_answer_read_off_the_prompt():
    task = pose("store", "price", 0, "held_out")
    assert not verify(task, [ToolCall(name="nonsense")], solve(task)[1]).success


SURROGATE = '{"name":"add","arguments":{"title":"\\ud800","day":"mon","hour":8}}'


def test_2a_a_lone_surrogate_in_a_call_does_not_kill_the_evaluation(writer, scripted):
    task = pose("agenda", "when", 0, "train")
    engine = scripted(lambda prompt, sample: [*writer.template.encode(SURROGATE), writer.template.call_end])
    world = WorldResponder([task])
    answered_episodes(engine, writer.template, [(task, ())], Sampling(), world)


def test_2b_nor_the_training_step(template, scripted):
    ids = [
        *template.encode(SURROGATE),
        template.call_end,
        *template.encode("{}"),
        template.response_end,
        *template.encode("done"),
        *template.end_ids,
    ]
    collect(scripted(lambda p, s: ids), template, [pose("agenda", "when", 0, "train")], 2, 2, 99, 0)


def test_an_empty_training_set_is_an_error_not_an_endless_loop():
    code = (
        "from envace.rl.warmup import schedule; from envace.params import load_params\n"
        "schedule([], load_params().warmup, 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert "no training trajectories" in done.stderr


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_separators_inside_an_argument_survive(separator):
    call = ToolCall(name="find", arguments={"title": f"a{separator}b"})
    assert parse_calls(call.text()) == ((call,), "")


@pytest.mark.parametrize("number", ["NaN", "9" * 400, "Infinity"])
def test_5a_a_number_that_cannot_be_compared_is_not_usable(number):
    assert rank(f'{{"total":{number}}}', Outcome(field="total"))[0] > 0


def test_5b_nan_is_never_recommended():
    a, b = (ToolCall(name="ship", arguments={"carrier": c}) for c in "ab")
    memory = memory_message([Rehearsed(a, '{"total":NaN}'), Rehearsed(b, '{"total":3}')], Courier.tools)
    assert memory.best == b


@pytest.mark.parametrize("read", [parse_call, lambda text: rank(text, None)])
def test_5c_deep_nesting_is_garbage_not_a_crash(read):
    read('{"name":"x","arguments":{"a":' + "[" * 50_000)


def test_a_kill_while_a_folder_is_replaced_leaves_one_of_both(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("a", "b"):
        (tmp_path / "out" / name).write_text("old")
    code = """
import os, shutil, signal, sys
from pathlib import Path
import envace.files as files
path = Path(sys.argv[1])
rmtree = shutil.rmtree
def slow(target, **kw):
    if Path(target) == path:                       # killed half-way through deleting the old folder
        (path / "a").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    rmtree(target, **kw)
shutil.rmtree = slow
with files.atomic_folder(path) as folder:
    for name in ("a", "b"):
        (folder / name).write_text("new")
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")])
    found = {file.name: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert found in ({"a": "old", "b": "old"}, {"a": "new", "b": "new"})


def test_7a_names_and_bytes_are_told_apart(tmp_path):
    for folder, name, text in (("one", "ab", "c"), ("two", "a", "bc")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    assert digest(tmp_path / "one") != digest(tmp_path / "two")


def test_7b_names_of_subfolders_count(tmp_path):
    for folder, name in (("one", "train"), ("two", "test")):
        (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / name / "f").write_text("1")
    assert digest(tmp_path / "one") != digest(tmp_path / "two")


@pytest.mark.parametrize("content", [b"a: [\n", b"a: \xff\n"])
def test_a_broken_params_file_is_one_line(tmp_path, content):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(EnvaceError):
        load_params(tmp_path / "params.yaml")


def test_trainer_and_sampler_use_the_same_distribution(tiny):
    template = tiny.template
    prompt = [1, 20, 30, 4]
    sampling = Sampling(1.0, 30, template.end_ids, template.forbidden_ids)
    (done,) = HFEngine(tiny.model, tiny.vocabulary).generate([prompt], sampling)[0]
    ids = prompt + done.ids
    never = [*template.forbidden_ids, *range(tiny.vocabulary, tiny.model.config.vocab_size)]
    selected = torch.zeros(1, len(ids) - 1, dtype=torch.bool)
    selected[0, len(prompt) - 1 :] = True
    with torch.no_grad():
        got, _ = token_logprobs(
            tiny.model, collate([TokenStream(ids, [1] * len(ids))]), selected, False, never
        )
    torch.testing.assert_close(got, torch.tensor(done.logprobs), atol=1e-3, rtol=0)


def test_without_predictions_training_shows_no_memory_as_the_strategy_does(template, scripted):
    task = pose("courier", "ship", 0, "train")
    engine = scripted(lambda prompt, sample: [*template.encode("done"), *template.end_ids])
    collect(engine, template, [task], 2, 2, 20, 0)
    assert engine.seen[-1] == template.render(task.messages, task.tools).ids


def test_rehearsal_and_commitment_draw_different_random_numbers(template, scripted):
    engine = scripted(lambda prompt, sample: [*template.encode("done"), *template.end_ids])
    collect(engine, template, [pose("courier", "ship", 0, "train")], 2, 2, 20, 0)
    assert len({sampling.seed for sampling in engine.samplings}) == len(engine.samplings) == 2


def test_zero_spread_is_zero_without_a_floor_too():
    assert advantages([1, 1], ["g", "g"], [0, 1], std=True, std_floor=0.0) == [0.0, 0.0]


def test_format_only_keeps_the_format_of_any_world():
    mixture = replace(SHARES, demonstrations=0, drills=8, memories=0, commits=0, format_only=("store",))
    drills = [t for t in synthesize(mixture, 1) if t.world == "store"]
    for drill in drills:
        schemas = {tool.name: tool.returns for tool in drill.tools}
        for message in (m for m in drill.messages if m.role == "tool"):
            if "error" not in json.loads(message.content):
                Draft202012Validator(schemas[message.name]).validate(json.loads(message.content))


def test_the_rule_recommends_a_commit_not_a_quote():
    instance, _ = rebuild(pose("courier", "ship", 0, "train"))
    offer = instance.commit_arguments()[0]
    quote, ship = (ToolCall(name=name, arguments=offer) for name in ("quote", "ship"))
    memory = memory_message([Rehearsed(quote, '{"total":3}'), Rehearsed(ship, '{"total":3}')], instance.tools)
    assert memory.best == ship


def test_a_retrained_tokenizer_in_the_same_folder_is_read_again(tmp_path):
    from envace.chat import CompactTemplate
    from envace.models.build import build

    build(["aaaa"], 300, 64, 2, 64, 0, tmp_path)
    CompactTemplate(tmp_path)
    _, count = build(["aaaa bbbb cccc dddd " * 9], 320, 64, 2, 64, 0, tmp_path)
    assert CompactTemplate(tmp_path).vocabulary == count


@pytest.mark.parametrize(
    "change", ["steps: -1", "token_budget: 0", "checkpoint_every: 0", "max_new_tokens: 0"]
)
def test_impossible_numbers_are_refused(tmp_path, change):
    key = change.split(":")[0]
    lines = Path("params.yaml").read_text().split("\n")
    lines = [f"  {change}" if line.strip().startswith(f"{key}:") else line for line in lines]
    (tmp_path / "params.yaml").write_text("\n".join(lines))
    with pytest.raises(EnvaceError):
        load_params(tmp_path / "params.yaml")
