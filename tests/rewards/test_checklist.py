"""Checklist values worked out by hand, and the bounds of any checklist."""

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import episode, find, grades, task
from scripted_server import Clock, serving

from envace.chat import CompactTemplate
from envace.engines.openai import ChatClient
from envace.errors import EnvaceError
from envace.rewards.checklist import Checklist
from envace.rewards.judge import Judge
from envace.rewards.turns import UserTurn, user_turns, weighted
from envace.trajectory import ChecklistItem, Message
from envace.worlds.tasks import Step, pose, solve


def item(kind: str, weight: float = 1.0, turn: int = 0, passes: str = "", name: str = "") -> ChecklistItem:
    fields = {"id": name or f"{kind}{turn}", "kind": kind, "weight": weight, "turn": turn}
    return ChecklistItem.model_validate(fields | {"question": "?", "pass_condition": passes})


CALL_3 = '{"name":"find","arguments":{"n":3}}'


def test_a_worlds_own_checklist_gives_partial_credit(writer: Any) -> None:
    world_task = pose("store", "order_cancel", 4, "train")  # state .4, answer .4, grounded .2
    steps, answer, _ = solve(world_task)
    wanted = {
        1.0: writer.expert(world_task),
        0.6: writer.episode(world_task, steps, "nonsense"),
        0.4: writer.episode(world_task, (), answer),  # an answer read off the prompt
        0.2: writer.episode(world_task, steps[:1], None),
        0.0: writer.episode(world_task, (), None),
    }
    for value, scored in zip(wanted, Checklist().score(list(wanted.values())), strict=True):
        assert scored.reward == pytest.approx(value)
        assert scored.verdict is not None and len(scored.revealed) == len(scored.episode.calls)
    dreamed = [Step(step.call, '{"error":"dream"}') for step in steps]
    (scored,) = Checklist().score([writer.episode(world_task, dreamed, answer)])
    assert (scored.reward, scored.agreement()) == (pytest.approx(1.0), [False] * len(steps))
    assert dict(scored.parts) == {"state": 1.0, "answer": 1.0, "grounded": 1.0}


def test_calls_and_answers_are_checked_by_rule_where_there_is_no_world(template: CompactTemplate) -> None:
    checklist = (item("call", 0.7, passes=CALL_3), item("answer", 0.3, passes="It is  RED"))
    posed = task(*checklist)
    cases = [
        ([(find(n=3, more=[]), "{}")], "well, it\nis red.", 1.0),
        ([(find(n=1), "{}"), (find(n=3), "{}")], "blue", 0.7),
        ([(find(n="3"), "{}"), (find(n=3.5), "{}")], "it is red", 0.3),
        ([(find(n=3), "{}")], None, 0.7),
        ([], None, 0.0),
    ]
    episodes = [episode(template, posed, steps, answer) for steps, answer, _ in cases]
    scored = Checklist().score(episodes)
    assert [s.reward for s in scored] == pytest.approx([value for *_, value in cases])
    assert (scored[1].verdict, scored[1].revealed, scored[1].agreement()) == (None, (), [])
    assert dict(scored[1].parts) == {"call0": 1.0, "answer0": 0.0}


def test_true_is_not_one(template: CompactTemplate) -> None:
    posed = task(item("call", passes='{"name":"find","arguments":{"n":1}}'))
    assert Checklist().score([episode(template, posed, [(find(n=True), "{}")], "")])[0].reward == 0.0


def test_turns_weigh_the_same_and_one_not_reached_counts_zero(template: CompactTemplate) -> None:
    # The prompt answers turn 0 with `noted`; the episode is turn 1; nobody got to turn 2.
    checklist = (
        item("answer", 0.25, 0, "noted", "a"),
        item("answer", 0.75, 0, "never said", "b"),
        item("call", 0.5, 1, CALL_3, "c"),
        item("answer", 0.5, 1, "done", "d"),
        item("answer", 1.0, 2, "", "e").model_copy(update={"pass_condition": " "}),  # in any text
    )
    (scored,) = Checklist().score([episode(template, task(*checklist, turns=2), [(find(n=3), "{}")], "done")])
    assert scored.reward == pytest.approx((0.25 + 1.0 + 0.0) / 3)
    assert dict(scored.parts) == {"a": 1, "b": 0, "c": 1, "d": 1, "e": 0}


def test_a_call_of_another_turn_does_not_count(template: CompactTemplate) -> None:
    posed = task(item("call", 1.0, 0, CALL_3), turns=2)
    assert Checklist().score([episode(template, posed, [(find(n=3), "{}")], "")])[0].reward == 0.0


def test_a_turn_is_what_stands_between_two_user_messages() -> None:
    call = find(n=1)
    messages = [
        Message(role="system", content="state"),
        Message(role="assistant", content="hello"),  # of no turn
        Message(role="user", content="one"),
        Message(role="assistant", content="let me see", tool_calls=(call,)),
        Message(role="tool", content="{}"),
        Message(role="assistant", content="first"),
        Message(role="assistant", tool_calls=(call, call)),
        Message(role="user", content="two"),
    ]
    assert user_turns(messages) == [UserTurn((call, call, call), "first"), UserTurn()]


def test_the_private_memory_is_no_part_of_the_conversation(writer: Any) -> None:
    world_task = pose("store", "price", 1, "train")
    listed = world_task.model_copy(update={"checklist": (item("answer", passes="secret"),)})
    note = Message(role="system", name="memory", content="secret")
    steps, answer, _ = solve(listed)
    assert Checklist().score([writer.episode(listed, steps, answer, notes=(note,))])[0].reward == 0.0


def test_judged_items_go_to_the_judge_and_the_rest_does_not(template: CompactTemplate) -> None:
    posed = task(
        item("judge", 0.5, name="first"), item("answer", 0.2, passes="x"), item("judge", 0.3, name="last")
    )
    plain = task(item("answer", passes="x"))
    episodes = [episode(template, each, [], "x") for each in (posed, plain)]
    clock = Clock()
    with (
        serving(lambda *_: grades(False, True)) as server,
        closing(ChatClient([server.url], "m", clock=clock, sleep=clock.sleep)) as client,
    ):
        both = Checklist(Judge(client)).score(episodes)
        assert [scored.reward for scored in both] == pytest.approx([0.5, 1.0])
        assert dict(both[0].parts) == {"first": 0, "answer0": 1, "last": 1}
        assert len(server.bodies) == 1  # nothing to ask about the second


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (item("judge", name="C7"), "task t: checklist item C7 needs a judge"),
        (item("goal_state", name="C7"), r"task t: checklist item C7 \(goal_state\) is for a world"),
        (item("answer", name="C7"), r"task t: checklist item C7 \(answer\) is for a world"),
        (item("call", name="C7", turn=5), r"task t: checklist item C7 \(call\) is for a world"),
        (item("call", name="C7", passes="calls find with 3"), "task t: .*C7 is no call"),
    ],
)
def test_an_item_nobody_can_check_is_named(
    template: CompactTemplate, wrong: ChecklistItem, says: str
) -> None:
    with pytest.raises(EnvaceError, match=says):
        Checklist().score([episode(template, task(wrong), [], "x")])


def test_a_task_without_a_checklist_is_refused(template: CompactTemplate) -> None:
    with pytest.raises(EnvaceError, match="task t: no checklist"):
        Checklist().score([episode(template, task(), [], "x")])


@st.composite
def checklists(draw: st.DrawFn) -> tuple[list[ChecklistItem], list[bool]]:
    """Turns with items whose weights sum to 1, and any pattern of passes."""
    items, passed = [], []
    for turn in draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)):
        shares = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=5))
        items += [item("judge", share / sum(shares), turn) for share in shares]
        passed += [draw(st.booleans()) for _ in shares]
    return items, passed


@given(checklists())
def test_a_reward_is_between_zero_and_one_and_never_falls_with_a_pass(
    drawn: tuple[list[ChecklistItem], list[bool]],
) -> None:
    items, passed = drawn
    value = weighted(items, passed)
    assert 0.0 <= value <= 1.0
    turns = {each.turn for each in items}
    by_turn = [
        sum(i.weight for i, held in zip(items, passed, strict=True) if held and i.turn == turn)
        for turn in turns
    ]
    assert value == pytest.approx(sum(by_turn) / len(turns))
    assert weighted(items, [True] * len(items)) == 1.0
    assert weighted(items, [False] * len(items)) == 0.0
    for index in range(len(items)):
        assert weighted(items, [*passed[:index], True, *passed[index + 1 :]]) >= value
