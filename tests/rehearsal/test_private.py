"""Private rehearsal: grouping, what is remembered, and that no world is ever reached."""

from typing import Any

import pytest

from envace.chat.tokenizer import END, ENV
from envace.engines import Sampling
from envace.engines.hf import HFEngine
from envace.rehearsal.base import Policy, conversations
from envace.rehearsal.parallel import rehearse_next_call
from envace.rehearsal.strategies import strategy
from envace.rollout.rehearse import rehearse_episodes
from envace.trajectory import ToolCall
from envace.worlds.base import World
from envace.worlds.courier import Courier
from envace.worlds.tasks import pose, rebuild

TASKS = [pose("courier", "ship", seed, "train") for seed in range(3)]


@pytest.fixture
def no_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any contact with a world fails the test."""

    def touched(*_: Any) -> Any:
        raise AssertionError("a rehearsal touched a world")

    monkeypatch.setattr(World, "call", touched)
    monkeypatch.setattr(Courier, "__init__", touched)


def offers(index: int) -> list[ToolCall]:
    instance, _ = rebuild(TASKS[index])
    return [ToolCall(name="ship", arguments=arguments) for arguments in instance.commit_arguments()]


def branch(template: Any, call: ToolCall, response: str) -> list[int]:
    return [*template.encode(call.text()), ENV, *template.encode(response), template.response_end]


def test_rehearsals_are_grouped_by_task_and_repeat(
    template: Any, scripted: Any, request: pytest.FixtureRequest
) -> None:
    calls = [offers(index) for index in range(3)]
    starts = [template.render(task.messages, task.tools).ids for task in TASKS]
    request.getfixturevalue("no_world")

    def script(prompt: list[int], sample: int) -> list[int]:
        call = calls[starts.index(prompt)][sample % 4]
        return branch(template, call, f'{{"total":{sample + 2}}}') + template.encode("never read")

    engine = scripted(script)
    rehearsals = rehearse_next_call(engine, template, TASKS, branches=2, repeats=2, seed=9)
    assert engine.seen == starts  # one prefill a task
    assert len(rehearsals) == 6
    for index, rehearsal in enumerate(rehearsals):
        task, repeat = divmod(index, 2)
        pair = calls[task][2 * repeat : 2 * repeat + 2]
        assert [b.calls for b in rehearsal.branches] == [(pair[0],), (pair[1],)]
        assert rehearsal.memory.best == pair[0]
        assert rehearsal.memory.predictions == {
            pair[0].text(): f'{{"total":{2 * repeat + 2}}}',
            pair[1].text(): f'{{"total":{2 * repeat + 3}}}',
        }


def test_malformed_branches_are_kept_but_not_remembered(
    template: Any, scripted: Any, request: pytest.FixtureRequest
) -> None:
    call = offers(0)[0]
    request.getfixturevalue("no_world")
    texts = [
        branch(template, call, '{"total":5}'),
        branch(template, call, '{"total":6}')[:-1],  # cut in the response
        [*template.encode("done"), END],  # no call at all
        [*template.encode(call.text()), ENV, *template.encode("{}"), END],  # ended by the wrong role
    ]
    engine = scripted(lambda prompt, sample: texts[sample])
    (rehearsal,) = rehearse_next_call(engine, template, TASKS[:1], branches=4)
    assert len(rehearsal.branches) == 4
    assert rehearsal.memory.predictions == {call.text(): '{"total":5}'}

    parallel = strategy("parallel-4")
    (prepared,) = parallel.prepare(Policy(engine, template), conversations(TASKS[:1]), 0)
    assert prepared.recommended == call
    assert prepared.notes == (rehearsal.memory.message,)
    assert prepared.tokens == sum(map(len, texts))
    silent = scripted(lambda prompt, sample: [END])
    (prepared,) = parallel.prepare(Policy(silent, template), conversations(TASKS[:1]), 0)
    assert (prepared.notes, prepared.recommended, prepared.tokens) == ((), None, 4)


def test_a_real_policy_rehearses_without_a_world(tiny: Any, no_world: None) -> None:
    engine = HFEngine(tiny.model, tiny.vocabulary)
    rehearsals = rehearse_next_call(engine, tiny.template, TASKS, branches=3, repeats=2, seed=1)
    assert [len(rehearsal.branches) for rehearsal in rehearsals] == [3] * 6
    spent = sum(len(branch.sampled) for rehearsal in rehearsals for branch in rehearsal.branches)
    assert engine.generated_tokens == spent
    episodes = rehearse_episodes(engine, tiny.template, [(task, ()) for task in TASKS], Sampling(1.0, 20), 2)
    assert [episode.task.id for episode in episodes] == [task.id for task in TASKS for _ in range(2)]
    # Nothing ran past its end, and no role wrote a marker that is not its to write.
    for episode in episodes:
        assert not tiny.template.forbidden_ids & set(episode.sampled)
        assert END not in episode.sampled[:-1]
