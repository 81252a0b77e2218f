"""Episodes answered by a model behind a real server on loopback."""

from contextlib import closing
from typing import Any

import pytest
from fastapi.responses import JSONResponse, Response
from scripted_server import Clock, completion, dead_url, serving

from envace.chat import TokenRole
from envace.chat.prompted import CONTRACT, PromptedLayout
from envace.engines import Sampling
from envace.engines.openai import ChatClient, ChatError
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Cut, Episode
from envace.rollout.remote import RemoteSimulator, evened
from envace.trajectory import Task
from envace.worlds.tasks import pose, solve

TASKS = [pose("store", "order_cancel", seed, "train") for seed in range(4)]


def expert(writer: Any, tasks: list[Task]) -> Any:
    """A script that continues the expert's token stream from any prefix of it."""
    whole = [writer.expert(task) for task in tasks]
    known = [list(episode.prompt + episode.sampled) for episode in whole]

    def script(prompt: list[int], sample: int) -> list[int]:
        (rest,) = [ids[len(prompt) :] for ids in known if ids[: len(prompt)] == prompt]
        return rest

    return script


def truth(body: dict[str, Any]) -> str:
    """What the world returns for the call a request asks about."""
    text = body["messages"][1]["content"]
    steps = [step for task in TASKS for step in solve(task)[0] if task.messages[0].content in text]
    call = text.rpartition("# call\n")[2]
    return next(step.response for step in steps if step.call.text() == call)


def run(writer: Any, scripted: Any, url: str, tasks: list[Task], **options: Any) -> list[Episode]:
    clock = Clock()
    engine = scripted(expert(writer, tasks))
    with closing(ChatClient([url], "sim", attempts=2, clock=clock, sleep=clock.sleep)) as client:
        simulator = RemoteSimulator(client, writer.template, **options)
        prompts = [(task, ()) for task in tasks]
        return answered_episodes(engine, writer.template, prompts, Sampling(0.0, 96), simulator)


def test_a_true_simulator_lets_the_expert_succeed_and_its_tokens_are_context(
    writer: Any, scripted: Any
) -> None:
    with serving(lambda body, _: "<think>hm</think>\n```json\n" + truth(body) + "\n```") as server:
        episodes = run(writer, scripted, server.url, TASKS, seed=7)
    for task, episode in zip(TASKS, episodes, strict=True):
        steps, answer, _ = solve(task)
        assert (episode.answer, episode.cut) == (answer, None)
        assert episode.responses == tuple(step.response for step in steps)
        (row,) = episode.rows()
        assert int(TokenRole.ENV) not in row.stream.roles
    assert len(server.bodies) == sum(len(solve(task)[0]) for task in TASKS)
    assert sorted(body["seed"] for body in server.bodies) == list(range(7, 7 + len(server.bodies)))
    assert server.most_in_flight > 1
    system, user = server.bodies[0]["messages"]
    assert system["content"] == CONTRACT
    assert "get_item" in user["content"] and "# history" in user["content"]


def test_the_layout_decides_what_is_shown(writer: Any, scripted: Any) -> None:
    layout = PromptedLayout(tools=False, history=False, caller=False, schema=False)
    recorded = {TASKS[0].id: [(step.call, step.response) for step in solve(TASKS[0])[0][:1]]}
    with serving(lambda body, _: truth(body)) as server:
        run(writer, scripted, server.url, TASKS[:1], layout=layout, references=recorded)
    heads = {line for body in server.bodies for line in body["messages"][1]["content"].split("\n")}
    assert {line for line in heads if line.startswith("# ")} == {
        "# state",
        "# recorded calls",
        "# call",
    }


@pytest.mark.parametrize(
    ("content", "finish", "cut"), [("", "stop", None), (None, "stop", None), ('{"a":', "length", Cut.TOKENS)]
)
def test_a_response_that_is_none_ends_its_episode(
    writer: Any, scripted: Any, content: str | None, finish: str, cut: Cut | None
) -> None:
    body = completion(content)
    body["choices"][0]["finish_reason"] = finish
    with serving(lambda *_: JSONResponse(body)) as server:
        (episode,) = run(writer, scripted, server.url, TASKS[:1])
    assert (episode.answer, len(episode.calls), episode.responses, episode.cut) == (None, 1, (), cut)


def test_an_outage_ends_the_rollout_and_is_no_failure_of_the_policy(writer: Any, scripted: Any) -> None:
    with pytest.raises(ChatError, match="no usable reply in 2 attempts"):
        run(writer, scripted, dead_url(), TASKS)
    broken = lambda body, number: Response("", 500) if number % 5 > 2 else truth(body)  # noqa: E731
    with serving(broken) as server, pytest.raises(ChatError, match="500"):
        run(writer, scripted, server.url, TASKS)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (' {"a": [1, 2]}\n', '{"a":[1,2]}'),
        ('```json\n{"a": 1}\n```', '{"a":1}'),
        ("```\n[]\n```", "[]"),
        ("<think>{}</think> [1]", "[1]"),
        (" not JSON ", "not JSON"),
        ("", ""),
    ],
)
def test_responses_are_evened(text: str, want: str) -> None:
    assert evened(text) == want
