"""Observation: only true responses teach, the surprising ones more often."""

import random
from typing import Any

import pytest
import torch

from envace.chat import TokenRole, TokenStream
from envace.rewards.replay import revealed_streams, score
from envace.rl.batch import collate
from envace.rl.experience import collect
from envace.rl.loss import token_logprobs
from envace.rl.observe import KNOWN, LIMIT, UNSEEN, Observer, Transcript, mean_by_world
from envace.worlds.tasks import pose

ENV = int(TokenRole.ENV)


def revealed(writer: Any, seed: int) -> TokenStream:
    task = pose("store", "order", seed, "train")
    return revealed_streams(task, score(writer.expert(task)).verdict.steps, writer.template)[0]


def tokens(stream: TokenStream) -> int:
    return len(stream) - stream.roles.count(int(TokenRole.CONTEXT))


def env_loss(model: Any, stream: TokenStream) -> float:
    batch = collate([stream])
    with torch.no_grad():
        logprobs, _ = token_logprobs(model, batch, batch.roles[:, 1:] == ENV)
    return float(-logprobs.mean())


def test_one_batch_loss_is_the_mean_over_environment_tokens(tiny: Any, writer: Any) -> None:
    stream = revealed(writer, 0)
    model = tiny.fresh()
    expected = env_loss(model, stream)
    observer = Observer(model, [], rate=0.01, rows=3)
    observer.add([Transcript("store", stream)])
    # The only transcript, drawn three times; micro-batches of one row each.
    assert observer.learn(random.Random(0), 1.0, token_budget=1) == pytest.approx(expected, rel=0.02)


def test_learning_lowers_the_loss_and_a_zero_factor_changes_nothing(tiny: Any, writer: Any) -> None:
    stream = revealed(writer, 0)
    model = tiny.fresh()
    observer = Observer(model, [], rate=0.01, rows=2)
    observer.add([Transcript("store", stream)])
    before = env_loss(model, stream)
    observer.learn(random.Random(0), 0.0, 4000)
    assert env_loss(model, stream) == before
    for step in range(8):
        observer.learn(random.Random(step), 1.0, 4000)
    assert env_loss(model, stream) < before - 0.1


def test_half_a_batch_anchors_both_roles_on_the_logs(tiny: Any, writer: Any) -> None:
    expert = writer.expert(pose("store", "order", 1, "train")).stream()
    model = tiny.fresh()
    batch = collate([expert])
    with torch.no_grad():
        logprobs, _ = token_logprobs(model, batch, batch.roles[:, 1:] != int(TokenRole.CONTEXT))
    observer = Observer(model, [expert, expert], rate=0.01, rows=4)
    # Nothing revealed yet: the two logged rows alone, act and environment tokens together.
    loss = observer.learn(random.Random(0), 0.0, 4000)
    assert loss == pytest.approx(float(-logprobs.mean()), rel=0.02)


def test_logged_rows_take_their_share_of_a_batch(tiny: Any, writer: Any) -> None:
    expert, stream = writer.expert(pose("store", "order", 1, "train")).stream(), revealed(writer, 0)
    for share, logged in ((0.75, 3), (0.5, 2), (0.0, 0)):
        observer = Observer(tiny.fresh(), [expert] * 4, rate=0.01, rows=4, share=share)
        observer.add([Transcript("courier", stream)])
        observer.learn(random.Random(0), 0.0, 4000)
        assert observer.trained_tokens == logged * tokens(expert) + (4 - logged) * tokens(stream)


def test_a_transcript_comes_up_as_often_as_it_surprises(tiny: Any, writer: Any) -> None:
    streams = [revealed(writer, 0), writer.expert(pose("store", "order", 1, "train")).stream()]
    observer = Observer(tiny.fresh(), [], rate=0.01, rows=40, share=0.0)
    observer.add([Transcript("store", stream) for stream in streams])
    observer.surprise = [0.0, 4 * KNOWN]
    observer.learn(random.Random(0), 0.0, 4000)
    # One part in six, and five in six.
    drawn = random.Random(0).choices(range(2), [1, 5], k=40)
    assert observer.trained_tokens == sum(tokens(streams[index]) for index in drawn)
    assert 0 < drawn.count(0) < 15


def test_surprise_is_the_loss_when_last_seen(tiny: Any, writer: Any) -> None:
    streams = [revealed(writer, seed) for seed in range(3)]
    model = tiny.fresh()
    observer = Observer(model, [streams[0]], rate=0.01, rows=9, share=0.2)
    observer.add([Transcript("store", stream) for stream in streams])
    assert observer.surprise == [UNSEEN] * 3
    # One logged row, eight replayed ones in passes of one row each; the policy stays as it is.
    observer.learn(random.Random(3), 0.0, token_budget=1)
    environment = [stream.roles.count(ENV) for stream in streams]
    expected = [env_loss(model, stream) * count for stream, count in zip(streams, environment, strict=True)]
    assert observer.surprise == pytest.approx(expected, rel=0.02)
    # What the same world reveals next is expected to surprise as much.
    observer.add([Transcript("store", streams[0]), Transcript("agenda", streams[1])])
    assert observer.surprise[3:] == [pytest.approx(sum(expected) / 3, rel=0.02), UNSEEN]


def test_mean_surprise_by_world(writer: Any) -> None:
    stream = revealed(writer, 0)
    replay = [Transcript("store", stream), Transcript("courier", stream), Transcript("store", stream)]
    assert mean_by_world(replay, [1.0, 5.0, 2.0]) == {"store": 1.5, "courier": 5.0}


def test_the_replay_forgets_the_oldest(tiny: Any, writer: Any) -> None:
    stream = revealed(writer, 0)
    observer = Observer(tiny.fresh(), [], rate=0.01, rows=2)
    observer.add([Transcript("store", stream)])
    observer.add([Transcript("courier", stream)] * LIMIT)
    assert len(observer.replay) == len(observer.surprise) == LIMIT
    assert {transcript.world for transcript in observer.replay} == {"courier"}


def test_commits_of_one_task_are_revealed_together_and_only_once(writer: Any, scripted: Any) -> None:
    task = pose("courier", "ship", 5, "train")
    template = writer.template
    from envace.trajectory import ToolCall
    from envace.worlds.tasks import rebuild

    world, _ = rebuild(task)
    calls = [ToolCall(name="ship", arguments=arguments).text() for arguments in world.commit_arguments()[:2]]
    count = 0

    def script(prompt: Any, sample: int) -> list[int]:
        nonlocal count
        count += 1
        text = calls[count % 2]
        response = [*template.encode('{"total":1}'), template.response_end]
        return [
            *template.encode(text),
            template.call_end,
            *response,
            *template.encode("done"),
            *template.end_ids,
        ]

    found = collect(scripted(script), template, [task], 4, 2, 40, 0)
    assert len(found.revealed) == 1
    text = template.decode(found.revealed[0].stream.ids)
    assert all(text.count(call) == 1 for call in calls)
