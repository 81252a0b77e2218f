"""Each measure on a sound response and on planted faults, and where it has nothing to say."""

import json
import random
from collections.abc import Iterator

import pytest

from envace.quality import RehearsedOutput, rehearsed_output
from envace.quality.measures import MEASURES, measured
from envace.quality.rehearsal import Rehearsal
from envace.synthesis.worlds import random_call
from envace.trajectory.records import Message, Task, Tool, ToolCall, compact
from envace.worlds import WORLDS
from envace.worlds.tasks import pose, rebuild, solve, templates

STATE = '{"lamp":["j0",57,5],"rope":["q4",20,2]}'
BOOKED = {"type": "object", "properties": {"booked": {"type": "string"}}, "required": ["booked"],
          "additionalProperties": False}  # fmt: skip


BOOK = ToolCall(name="book", arguments={"id": "j0", "nights": 3})


def rehearsal(
    predicted: str,
    actual: str,
    call: ToolCall = BOOK,
    world: str = "inn",
    earlier: tuple[Message, ...] = (),
) -> Rehearsal:
    prompt = (Message(role="system", content=STATE), Message(role="user", content="book the lamp"))
    return Rehearsal(
        world, Tool(name=call.name, returns=BOOKED), call, (*prompt, *earlier), predicted, actual
    )


GOOD, REFUSED = '{"booked":"j0"}', '{"error":"id"}'


@pytest.mark.parametrize(
    ("measure", "predicted", "actual", "verdict"),
    [
        ("own_role", GOOD, GOOD, True),
        ("own_role", '{"booked":"j0"}<|act|>', GOOD, False),
        ("own_role", "<tool_call>", GOOD, False),
        ("own_role", '{"name": "book", "arguments": {"id": "j0"}}', GOOD, False),
        ("own_role", '{"log":"<|act|>"}', '{"log":"<|act|>"}', True),
        ("error_contract", GOOD, REFUSED, None),
        ("error_contract", REFUSED, GOOD, True),
        ("error_contract", '{"error":"stock","left":2}', REFUSED, True),
        ("error_contract", '{"error":{"code":"id"}}', REFUSED, False),
        ("error_contract", '{"error":" "}', REFUSED, False),
        ("error_contract", '{"error":"id","trace":["a"]}', REFUSED, False),
        ("error_contract", '{"error":', REFUSED, None),
        ("length", "x" * 40, GOOD, True),
        ("length", "x" * 61, GOOD, False),
        ("length", "x" * 400, "y" * 100, True),
        ("granted", REFUSED, GOOD, False),
        ("granted", "broken", GOOD, True),
        ("granted", REFUSED, REFUSED, None),
        ("echo", GOOD, GOOD, True),
        ("echo", '{"booked":"q4"}', GOOD, False),
        ("echo", '{"done":true}', '{"done":true}', None),
        ("echo", '{"j0 lamp":[]}', '{"j0 lamp":[]}', True),
        ("echo", REFUSED, GOOD, None),
        ("known_ids", GOOD, GOOD, True),
        ("known_ids", '{"booked":"q4"}', '{"lamp":"j0"}', False),
        ("known_ids", '{"lamp":"q4"}', '{"lamp":"j0"}', True),
        ("known_ids", '{"order":"o7"}', '{"order":"o1"}', True),
        ("known_ids", '{"order":"o7","of":"z9"}', '{"order":"o1"}', False),
        ("known_ids", '{"note":"a text of many new words"}', '{"lamp":"j0"}', False),
        ("known_ids", '{"lamp":"a text of many new words"}', '{"lamp":"j0"}', True),
        ("not_copied", GOOD, GOOD, None),
        ("adds_up", GOOD, GOOD, None),
    ],
)
def test_one_response(measure: str, predicted: str, actual: str, verdict: bool | None) -> None:
    assert MEASURES[measure].holds(rehearsal(predicted, actual)) is verdict


def test_an_error_that_is_a_result_as_well_breaks_the_contract() -> None:
    row = rehearsal('{"error":"id"}', GOOD)
    loose = row.tool.model_copy(update={"returns": {"type": "object"}})
    assert MEASURES["error_contract"].holds(row)
    assert not MEASURES["error_contract"].holds(Rehearsal("inn", loose, row.call, (), row.predicted, GOOD))


def test_an_earlier_response_is_copied_only_where_it_is_wrong() -> None:
    earlier = (Message(role="tool", content='{"booked":"q4"}'),)
    holds = MEASURES["not_copied"].holds
    assert holds(rehearsal('{"booked":"q4"} ', GOOD, earlier=earlier)) is False
    assert holds(rehearsal(GOOD, GOOD, earlier=earlier)) is True
    assert holds(rehearsal('{"booked":"q4"}', '{"booked":"q4"}', earlier=earlier)) is True


def order(id: str, qty: object) -> ToolCall:
    return ToolCall(name="order", arguments={"id": id, "qty": qty})


def said(call: ToolCall, response: str) -> tuple[Message, Message]:
    return Message(role="assistant", tool_calls=(call,)), Message(role="tool", content=response)


LOOKED = said(ToolCall(name="get_item", arguments={"item": "lamp"}), '{"lamp":["j0",57,5]}')
MOVED = said(order("j0", 1), '{"order":"o1","left":4}')
AGAIN = said(ToolCall(name="get_item", arguments={"item": "lamp"}), '{"lamp":["j0",57,4]}')
CANCELED = said(ToolCall(name="cancel", arguments={"order": "o1"}), '{"canceled":"o1"}')


@pytest.mark.parametrize(
    ("left", "earlier", "verdict"),
    [
        (2, (), True),
        (3, (), False),
        ("2", (), False),
        (2, LOOKED, True),
        (1, MOVED, None),
        (1, (*MOVED, *AGAIN), True),
        (2, (*MOVED, *AGAIN), False),
        (2, (*MOVED, *AGAIN, *CANCELED), None),
        (2, said(order("q4", 1), '{"order":"o1","left":1}'), True),
    ],
)
def test_what_an_order_leaves(left: object, earlier: tuple[Message, ...], verdict: bool | None) -> None:
    predicted = json.dumps({"order": "o9", "left": left})
    row = rehearsal(predicted, '{"order":"o1","left":0}', order("j0", 3), "store", earlier)
    assert MEASURES["adds_up"].holds(row) is verdict


def test_an_order_nobody_can_check() -> None:
    for call in (order("zz", 1), order("j0", "3")):
        row = rehearsal('{"order":"o1","left":0}', '{"order":"o1","left":0}', call, "store")
        assert MEASURES["adds_up"].holds(row) is None


@pytest.mark.parametrize("world", WORLDS)
def test_what_the_worlds_answer_keeps_every_measure(world: str) -> None:
    judged: dict[str, int] = dict.fromkeys(MEASURES, 0)
    for split in ("demonstrated", "practiced", "held_out"):
        for template in templates(world, split):
            for seed in range(6):
                for row in truths(pose(world, template, seed, "train"), random.Random(seed)):
                    assert all(row.checks.values()), (row.call, row.actual, row.checks)
                    for name in row.checks:
                        judged[name] += 1
    assert judged["own_role"] == judged["length"] > 0
    assert judged["adds_up"] or world != "store"


def truths(task: Task, rng: random.Random) -> Iterator[RehearsedOutput]:
    """Rows whose predictions are the world's own responses."""
    tools = {tool.name: tool for tool in task.tools}
    extra = random_call(rebuild(task)[0], rng, task.names)
    steps = [((), extra, compact(rebuild(task)[0].call(extra)))]
    history = task.messages
    for step in solve(task)[0]:
        steps.append((history, step.call, step.response))
        history = (*history, *said(step.call, step.response))
    for before, call, response in steps:
        tool = tools[call.name]
        yield rehearsed_output("warmup", task, tool, call, response, response, True, before)


def test_measures_of_broken_json_say_nothing_more_than_they_know() -> None:
    assert measured(rehearsal("{oops", GOOD)) == {"own_role": True, "length": True, "granted": True}
