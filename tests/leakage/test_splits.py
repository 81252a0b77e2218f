"""Nothing that a split claims to hold out is on both sides; every planted crossing is named."""

import pytest

from envace.leakage.splits import Crossing, crossings
from envace.synthesis.worlds import Mixture, held_out_tasks, synthesize
from envace.trajectory import Lineage, Message, Task, Trajectory
from envace.worlds import DEFAULT
from envace.worlds.names import pool
from envace.worlds.tasks import pose, templates

MIXTURE = Mixture(
    demonstrations=60, glimpses=12, drills=60, memories=20, commits=20,
    wrong_call_rate=0.3, broken_rate=0.1, noted_rate=0.3, format_only=("courier",),
)  # fmt: skip


@pytest.fixture(scope="module")
def train() -> list[Trajectory]:
    return list(synthesize(MIXTURE, seed=3))


@pytest.fixture(scope="module")
def held_out() -> list[Task]:
    return held_out_tasks(per_template=2, commits=2, seed=3)


def trajectory(task: Task, **changes) -> Trajectory:
    lineage = Lineage(task_id=task.id, template=task.template)
    fields = {"id": "planted", "source": "world", "world": task.world, "lineage": lineage}
    return Trajectory(**(fields | {"tools": task.tools, "messages": task.messages} | changes))


def test_the_own_splits_hold_what_they_claim(train, held_out) -> None:
    assert {t.world for t in train} == set(DEFAULT)
    assert crossings(train, held_out) == []


def test_a_task_and_its_names_on_both_sides(train, held_out) -> None:
    task = held_out[0]
    found = crossings([*train, trajectory(task)], held_out)
    assert Crossing(kind="task", what=task.id, train_id="planted") in found
    used = {c.what for c in found if c.kind == "entity"}
    assert used and used <= set(pool("held_out").names)


def test_a_held_out_template_with_training_names(train, held_out) -> None:
    world, template = next((w, t) for w in DEFAULT for t in templates(w, "held_out"))
    found = crossings([*train, trajectory(pose(world, template, 12_345, "train"))], held_out)
    assert found == [Crossing(kind="template", what=f"{world}/{template}", train_id="planted")]


def test_a_held_out_name_in_a_response(train, held_out) -> None:
    name = pool("held_out").names[7]
    messages = (Message(role="tool", content=f'{{"owner":"{name}"}}'),)
    planted = train[0].model_copy(update={"id": "planted", "messages": messages})
    assert crossings([*train, planted], held_out) == [Crossing(kind="entity", what=name, train_id="planted")]
    # Outside of the worlds it is a word like any other.
    assert crossings([*train, planted.model_copy(update={"world": "tau2/retail"})], held_out) == []


def test_the_tools_of_a_world_that_is_not_in_training(train, held_out) -> None:
    others = [t for t in train if t.world != "store"]
    assert crossings(others, held_out) == []  # a world held out whole, as it should be
    task = next(task for task in held_out if task.world == "store")
    disguised = others[0].model_copy(update={"id": "planted", "tools": task.tools[:1]})
    found = crossings([*others, disguised], held_out)
    assert found == [Crossing(kind="schema", what=f"store.{task.tools[0].name}", train_id="planted")]
