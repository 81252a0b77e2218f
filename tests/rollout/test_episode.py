"""Parsing of sampled episodes, well-formed and not."""

from typing import Any

import pytest

from envace.chat import CompactTemplate, TokenRole
from envace.chat.tokenizer import ACT, END, ENV
from envace.engines import Completion
from envace.rollout.episode import Episode, parse_episode
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose

TASK = pose("store", "order", 0, "train")
LOOK = ToolCall(name="get_item", arguments={"item": "bobo"})
BUY = ToolCall(name="order", arguments={"id": "h1", "qty": 2})


def parse(template: CompactTemplate, *parts: str | int) -> Episode:
    ids: list[int] = []
    for part in parts:
        ids += [part] if isinstance(part, int) else template.encode(part)
    prompt = template.render(TASK.messages, TASK.tools).ids
    return parse_episode(template, TASK, (), prompt, Completion(ids, [-0.1] * len(ids), True))


def test_a_whole_episode(template: CompactTemplate) -> None:
    episode = parse(template, LOOK.text(), ENV, '{"bobo":[]}', ACT, BUY.text(), ENV, "{}", ACT, "left 1", END)
    assert (episode.calls, episode.responses) == ((LOOK, BUY), ('{"bobo":[]}', "{}"))
    assert episode.answer == "left 1"
    stream = episode.stream()
    assert tuple(stream.ids) == episode.prompt + episode.sampled
    start = len(episode.prompt)
    assert set(stream.roles[:start]) == {int(TokenRole.CONTEXT)}
    assert [span.role.name for span in episode.spans] == ["ACT", "ENV", "ACT", "ENV", "ACT"]


def test_parallel_calls_take_one_response_each(template: CompactTemplate) -> None:
    both = f"{LOOK.text()}\n{BUY.text()}"
    episode = parse(template, both, ENV, "{}", ENV, "[]", ACT, "done", END)
    assert (episode.calls, episode.responses, episode.answer) == ((LOOK, BUY), ("{}", "[]"), "done")


@pytest.mark.parametrize("text", ["{}\n{}", "\n", "\n\n[1,\n2]\n", "a\r\nb\u2028c", ""])
def test_a_response_is_one_response_whatever_stands_in_it(template: CompactTemplate, text: str) -> None:
    episode = parse(template, LOOK.text(), ENV, text, ACT, "done", END)
    assert (episode.responses, episode.answer, episode.cut) == ((text,), "done", None)
    both = f"{LOOK.text()}\n{BUY.text()}"
    episode = parse(template, both, ENV, text, ENV, text, ACT, "done", END)
    assert (episode.responses, episode.answer) == ((text, text), "done")


@pytest.mark.parametrize(
    ("parts", "calls", "responses"),
    [
        (("left",), (), ()),  # cut in the answer
        ((LOOK.text(),), (), ()),  # cut in the call
        ((LOOK.text(), ENV, "{}"), (LOOK,), ()),  # cut in the response
        ((LOOK.text(), ENV, "{}", ACT, "left"), (LOOK,), ("{}",)),
        (("left 1", ACT, "left 1", END), (), ()),  # the act role handed over to itself
        ((LOOK.text(), ENV, "{}", END), (LOOK,), ()),  # the environment ended the episode
        ((LOOK.text(), ENV, "{}", ENV, "{}", ACT, "done", END), (LOOK,), ()),  # one too many
        ((f"{LOOK.text()}\n{BUY.text()}", ENV, "{}", ACT, "done", END), (LOOK, BUY), ()),  # one too few
        (('{"name":"order"', ENV, "{}", ACT, "done", END), (), ()),  # no call before the call marker
        ((LOOK.text(), ENV, "{}", ACT, "hm", ENV, "{}", ACT, "done", END), (LOOK,), ("{}",)),
        ((ENV, ACT, END), (), ()),
        ((), (), ()),
    ],
)
def test_anything_malformed_has_no_answer(
    template: CompactTemplate, parts: Any, calls: tuple[ToolCall, ...], responses: tuple[str, ...]
) -> None:
    episode = parse(template, *parts)
    assert episode.answer is None
    assert (episode.calls, episode.responses) == (calls, responses)


def test_an_empty_answer_is_an_answer(template: CompactTemplate) -> None:
    assert parse(template, END).answer == ""
