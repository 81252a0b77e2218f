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
from envace.rl.observe import KNOWN_PRIORITY, LIMIT, Observer, Transcript, priorities
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
    observer.add([Transcript("store", stream, True)])
    # The only transcript, drawn three times; micro-batches of one row each.
    assert observer.learn(random.Random(0), 1.0, token_budget=1) == pytest.approx(expected, rel=0.02)


def test_learning_lowers_the_loss_and_a_zero_factor_changes_nothing(tiny: Any, writer: Any) -> None:
    stream = revealed(writer, 0)
    model = tiny.fresh()
    observer = Observer(model, [], rate=0.01, rows=2)
    observer.add([Transcript("store", stream, True)])
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
        observer.add([Transcript("courier", stream, True)])
        observer.learn(random.Random(0), 0.0, 4000)
        assert observer.trained_tokens == logged * tokens(expert) + (4 - logged) * tokens(stream)


def test_surprise_decides_the_share_of_a_world_and_of_a_transcript(writer: Any) -> None:
    stream = revealed(writer, 0)
    # Two worlds of very different size: one surprises always, the other in one of four.
    replay = [Transcript("courier", stream, True)] * 2
    replay += [Transcript("store", stream, index == 0) for index in range(4)]
    weights = priorities(replay)
    share = sum(weights[:2]) / sum(weights)
    mean = (1 + 3 * KNOWN_PRIORITY) / 4
    assert share == pytest.approx(1 / (1 + mean))
    assert weights[2] / weights[3] == pytest.approx(1 / KNOWN_PRIORITY)


def test_the_replay_forgets_the_oldest(tiny: Any, writer: Any) -> None:
    stream = revealed(writer, 0)
    observer = Observer(tiny.fresh(), [], rate=0.01, rows=2)
    observer.add([Transcript("store", stream, True)])
    observer.add([Transcript("store", stream, False)] * LIMIT)
    assert len(observer.replay) == LIMIT and not any(t.surprising for t in observer.replay)


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
    assert len(found.revealed) == 1 and found.revealed[0].surprising
    text = template.decode(found.revealed[0].stream.ids)
    assert all(text.count(call) == 1 for call in calls)
