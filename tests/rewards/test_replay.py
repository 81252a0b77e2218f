"""The replay reward, and what a replay reveals to the environment role."""

from typing import Any

from envace.chat import TokenRole
from envace.rewards.replay import revealed_streams, score
from envace.trajectory import Message, ToolCall
from envace.worlds.tasks import Step, pose, solve

TASK = pose("store", "order_cancel", 4, "train")


def test_reward_is_the_worlds_verdict_not_the_rehearsed_one(writer: Any) -> None:
    steps, answer, _ = solve(TASK)
    assert score(writer.expert(TASK)).reward == 1.0
    # False predictions do not matter to the reward, only to the agreement.
    dreamed = [Step(step.call, '{"error":"dream"}') for step in steps[:1]] + list(steps[1:])
    scored = score(writer.episode(TASK, dreamed, answer))
    assert (scored.reward, scored.agreement()) == (1.0, [False, True, True])
    # And a dreamed success is no success.
    unknown = ToolCall(name="order", arguments={"id": "h0", "qty": 99})
    scored = score(writer.episode(TASK, [steps[0], Step(unknown, '{"order":"o1","left":0}')], answer))
    assert not scored.verdict.steps[1].response.startswith('{"order"')
    assert scored.agreement() == [True, False]
    # Cut before the answer.
    assert score(writer.episode(TASK, steps, None)).reward == 0.0


def test_a_revealed_stream_teaches_exactly_the_true_responses(writer: Any) -> None:
    steps, answer, _ = solve(TASK)
    note = Message(role="system", name="memory", content="PRIVATE")
    dreamed = [Step(step.call, '{"error":"dream"}') for step in steps]
    episode = writer.episode(TASK, dreamed, answer, notes=(note,))
    stream = revealed_streams(TASK, score(episode).verdict.steps, writer.template)[0]
    assert stream.roles.count(int(TokenRole.ACT)) == 0
    taught: list[list[int]] = [[]]
    for token, role in zip(stream.ids, stream.roles, strict=True):
        if role == int(TokenRole.ENV):
            taught[-1].append(token)
            if token == writer.template.response_end:
                taught.append([])
    assert taught.pop() == []
    assert [writer.template.decode(ids) for ids in taught] == [step.response for step in steps]
    # The context is the one of prediction: no memory, no dream, and it begins as every prompt does.
    text = writer.template.decode(stream.ids)
    assert "PRIVATE" not in text and "dream" not in text
    prompt = writer.prompt(TASK)
    assert stream.ids[: len(prompt)] == prompt


def test_nothing_called_nothing_revealed(writer: Any) -> None:
    scored = score(writer.episode(TASK, (), "done"))
    assert (scored.verdict.steps, scored.agreement()) == ((), [])
    assert int(TokenRole.ENV) not in revealed_streams(TASK, scored.verdict.steps, writer.template)[0].roles
