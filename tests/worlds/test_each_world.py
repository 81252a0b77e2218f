"""What is peculiar to a world: chance in the ferry, questions in messages, namesakes in files."""

from collections import Counter
from typing import Any

import pytest

from envace.trajectory import Task, ToolCall
from envace.trajectory.records import weights_sum_to_one
from envace.worlds import WORLDS
from envace.worlds.base import World
from envace.worlds.ferry import BASES, DELAYS, HOURS, LINES, WATERS, Ferry
from envace.worlds.files import Files
from envace.worlds.messages import Messages
from envace.worlds.tasks import pose, rebuild, solve, verify


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def calls_of(task: Task) -> list[ToolCall]:
    return [step.call for step in solve(task)[0]]


def start(task: Task, kind: type[World]) -> Any:
    instance, _ = rebuild(task)
    assert isinstance(instance, kind)
    return instance


def test_every_task_has_a_checklist_whose_weights_sum_to_one() -> None:
    tasks = [pose(name, t, 0, "train") for name, world in WORLDS.items() for t in world.templates]
    assert all(task.checklist and weights_sum_to_one(task.checklist) for task in tasks)


def test_the_waters_are_frozen() -> None:
    # Every policy trained on the ferry depends on them.
    assert {line: "".join(WATERS[line, hour][0] for hour in HOURS) for line in LINES} == {
        "K": "fcccccrr",
        "L": "crrrrfff",
        "M": "rcccffff",
        "P": "fccccrrr",
    }
    assert DELAYS == {"calm": (1, 2, 2, 2, 3), "fair": (2, 4, 4, 4, 6), "rough": (3, 6, 6, 6, 9)}


def test_ferry_draws_follow_the_kind_of_water_and_repeat_with_the_task() -> None:
    drawn: dict[str, Counter[int]] = {kind: Counter() for kind in DELAYS}
    differ = 0
    for seed in range(600):
        task = pose("ferry", "sail", seed, "train")
        for offer in start(task, Ferry).commit_arguments():
            # From the start state, as rehearsals are held against it: the same draw every time.
            sailed, again = (rebuild(task)[0].call(call("sail", **offer)) for _ in range(2))
            assert sailed == again
            watched = rebuild(task)[0].call(call("watch", **offer))
            differ += sailed != watched
            drawn[WATERS[offer["line"], offer["hour"]]][sailed["total"] - offer["base"]] += 1
    assert 0.4 < differ / 2400 < 0.75  # two of five draws are the rare ones: 0.56 on average
    for kind, counts in drawn.items():
        assert set(counts) == set(DELAYS[kind])
        assert counts[DELAYS[kind][1]] / counts.total() == pytest.approx(0.6, abs=0.06)


def test_in_the_ferry_the_best_on_average_counts_and_not_the_luckiest() -> None:
    luckier = 0
    for seed in range(200):
        task = pose("ferry", "sail", seed, "held_out")
        ferry = start(task, Ferry)
        (best,) = calls_of(task)
        expected = {
            o["offer"]: o["base"] + {"calm": 2, "fair": 4, "rough": 6}[WATERS[o["line"], o["hour"]]]
            for o in ferry.commit_arguments()
        }
        assert best.arguments["offer"] == min(expected, key=lambda offer: expected[offer])
        assert all(o["base"] in BASES for o in ferry.commit_arguments())
        lucky = min(ferry.today, key=lambda offer: ferry.today[offer])
        other = next(o for o in ferry.commit_arguments() if o["offer"] == lucky)
        luckier += lucky != best.arguments["offer"]
        assert verify(task, [call("sail", **other)], "done").success is (lucky == best.arguments["offer"])
    assert 10 < luckier < 100


def test_a_ferry_grants_one_look_and_one_crossing() -> None:
    ferry = start(pose("ferry", "sail", 3, "train"), Ferry)
    first, second = ferry.commit_arguments()[:2]
    assert "total" in ferry.call(call("watch", **first))
    assert ferry.call(call("watch", **second)) == {"error": "quota"}
    assert ferry.call(call("sail", **second | {"base": second["base"] + 1})) == {"error": "offer"}
    assert "total" in ferry.call(call("sail", **second))
    assert ferry.call(call("sail", **first)) == {"error": "sailed"}


@pytest.mark.parametrize("template", ["send_team", "forward_team"])
def test_where_two_may_be_meant_the_user_has_to_be_asked(template: str) -> None:
    asked = 0
    for seed in range(60):
        task = pose("messages", template, seed, "train")
        calls, answer = calls_of(task), solve(task)[1]
        team = calls[0].arguments["team"]
        crowded = len(start(task, Messages).teams[team]) > 1
        assert ("ask" in [c.name for c in calls]) is crowded
        if not crowded:
            # There is nothing to ask: the question is refused and does no harm.
            needless = call("ask", team=team)
            assert start(task, Messages).call(needless) == {"error": "clear"}
            assert verify(task, [needless, *calls], answer).success
            continue
        asked += 1
        guess = [c for c in calls if c.name != "ask"]
        assert not verify(task, guess, answer).success  # right by luck is not right
        assert verify(task, [calls[0], calls[1], *calls[1:]], answer).success  # asking twice is no harm
    assert 15 < asked < 45


def test_a_message_cannot_be_taken_back_and_a_member_needs_no_copy() -> None:
    task = pose("messages", "last", 0, "train")
    world = start(task, Messages)
    thread = next(iter(world.threads_by_id))
    member = world.threads_by_id[thread][0][0]
    assert world.call(call("forward", thread=thread, person=member)) == {"error": "member"}
    assert world.call(call("reply", thread=thread, text="k1")) == {"replied": thread}
    assert world.call(call("read", thread=thread))[thread][-1] == ["me", "k1"]
    assert {t.name for t in world.tools if t.irreversible} == {"send", "reply", "forward"}


def test_namesakes_clash_and_deletions_may_come_in_any_order() -> None:
    clashes = several = 0
    for seed in range(40):
        task = pose("files", "move", seed, "train")
        responses = [step.response for step in solve(task)[0]]
        clashes += responses == ['{"error":"taken"}']
        assert solve(task)[1] == ("taken" if "error" in responses[0] else "done")

        task = pose("files", "delete_everywhere", seed, "train")
        find, *deletions = calls_of(task)
        several += len(deletions) == 2
        assert verify(task, [find, *reversed(deletions)], "done").success
    assert 10 < clashes < 30 and 15 < several < 38


def test_what_was_deleted_is_gone_and_writing_it_anew_is_not_the_same() -> None:
    task = pose("files", "read", 1, "train")
    world = start(task, Files)
    where = calls_of(task)[0].arguments
    before = world.copy().state()
    text = world.call(call("read", **where))[where["name"]]
    assert world.call(call("delete", **where)) == {"deleted": where["name"]}
    assert world.call(call("read", **where)) == {"error": "name"}
    assert world.call(call("write", **where, text=text)) == {"written": where["name"]}
    assert world.state() != before  # the tree is the same again, but not what was done
