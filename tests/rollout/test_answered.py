"""Episodes in which somebody else answers, driven by scripts."""

from dataclasses import replace
from typing import Any

import pytest

from envace.chat import TokenRole
from envace.engines import Sampling
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Limits
from envace.rollout.responders import SimulatorResponder, WorldResponder
from envace.trajectory import Message, Task, ToolCall
from envace.worlds import WORLDS
from envace.worlds.tasks import pose, solve, verify

TASKS = [pose(name, t, 7, "held_out") for name, world in WORLDS.items() for t in world.templates]
CONTEXT, ENV = TokenRole.CONTEXT, TokenRole.ENV
NOTE = Message(role="system", name="memory", content="a note")


def continuations(writer: Any, tasks: list[Task], notes: Any = ()) -> Any:
    """A script that knows the expert's token stream and continues it from any prefix."""
    whole = [writer.expert(task, notes) for task in tasks]
    known = [list(episode.prompt + episode.sampled) for episode in whole]

    def script(prompt: list[int], sample: int) -> list[int]:
        # Fails when what the loop built is not, token for token, what was written.
        (rest,) = [ids[len(prompt) :] for ids in known if ids[: len(prompt)] == prompt]
        return rest

    return script, whole


@pytest.mark.parametrize("notes", [(), (NOTE,)])
def test_the_experts_transcript_succeeds_in_real_worlds(writer: Any, scripted: Any, notes: Any) -> None:
    script, whole = continuations(writer, TASKS, notes)
    engine, world = scripted(script), WorldResponder(TASKS)
    prompts = [(task, notes) for task in TASKS]
    episodes = answered_episodes(engine, writer.template, prompts, Sampling(0.0, 96), world)
    for task, episode, expert in zip(TASKS, episodes, whole, strict=True):
        assert verify(task, list(episode.calls), episode.answer).success
        assert episode.responses == tuple(step.response for step in solve(task)[0])
        # What the world wrote is context: token for token the same, but never trained.
        mine = [replace(span, role=CONTEXT) if span.role is ENV else span for span in expert.spans]
        assert (episode.sampled, list(episode.spans)) == (expert.sampled, mine)
        assert len(episode.logprobs) == len(episode.sampled)
        # Only the act role's tokens were sampled; the world wrote the rest.
        for span in episode.spans:
            sampled = set(episode.logprobs[span.start : span.stop])
            assert sampled == ({-0.5} if span.role is TokenRole.ACT else {0.0})
    acted = sum(episode.stream().roles.count(int(TokenRole.ACT)) for episode in episodes)
    assert engine.generated_tokens == acted


def test_worlds_are_not_mixed_up_when_episodes_end_at_different_turns(writer: Any, scripted: Any) -> None:
    # Short and long tasks interleaved: those that go on must keep their own world.
    tasks = [pose("store", t, seed, "train") for seed in range(3) for t in ("price", "order_cancel", "order")]
    script, _ = continuations(writer, tasks)
    world = WorldResponder(tasks)
    episodes = answered_episodes(
        scripted(script), writer.template, [(task, ()) for task in tasks], Sampling(), world
    )
    assert all(verify(t, list(e.calls), e.answer).success for t, e in zip(tasks, episodes, strict=True))


def test_a_policy_that_never_answers_is_stopped(writer: Any, scripted: Any) -> None:
    task = pose("store", "price", 1, "train")
    call = ToolCall(name="get_item", arguments={"item": "nobody"})
    ids = [*writer.template.encode(call.text()), writer.template.call_end]
    engine = scripted(lambda prompt, sample: ids)
    world = WorldResponder([task])
    (episode,) = answered_episodes(engine, writer.template, [(task, ())], Sampling(), world)
    assert len(engine.samplings) == Limits().turns
    assert episode.answer is None
    assert episode.calls == (call,) * Limits().turns
    assert episode.responses == ('{"error":"item"}',) * Limits().turns


@pytest.mark.parametrize("text", ["no call", '{"name":"get_item"', ""])
def test_a_malformed_call_ends_the_episode_without_an_answer(writer: Any, scripted: Any, text: str) -> None:
    task = pose("store", "price", 1, "train")
    engine = scripted(lambda prompt, sample: [*writer.template.encode(text), writer.template.call_end])
    world = WorldResponder([task])
    (episode,) = answered_episodes(engine, writer.template, [(task, ())], Sampling(), world)
    assert (episode.calls, episode.answer, len(engine.samplings)) == ((), None, 1)


def test_a_simulator_answers_and_a_broken_one_ends_the_episode(
    writer: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = pose("store", "order", 3, "train")
    script, (expert,) = continuations(writer, [task])
    # The simulator is the only source of responses: no world is touched.
    monkeypatch.delattr("envace.worlds.base.World.call")
    simulator = SimulatorResponder(scripted(script), writer.template, Sampling(0.0, 60))
    (episode,) = answered_episodes(scripted(script), writer.template, [(task, ())], Sampling(), simulator)
    assert (episode.sampled, episode.answer) == (expert.sampled, expert.answer)

    cut = SimulatorResponder(scripted(script), writer.template, Sampling(0.0, 2))
    (episode,) = answered_episodes(scripted(script), writer.template, [(task, ())], Sampling(), cut)
    assert episode.answer is None and len(episode.calls) == 1 and episode.responses == ()
