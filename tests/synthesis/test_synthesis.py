"""Synthetic trajectories: reproducible, true to the worlds, and silent about what must stay hidden."""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from envace.chat import TokenRole
from envace.compose import compose
from envace.errors import EnvaceError
from envace.params import Params
from envace.synthesis.corpus import tokenizer_corpus
from envace.synthesis.worlds import Mixture, held_out_tasks, synthesize
from envace.trajectory import Task, Trajectory, compact
from envace.trajectory.records import weights_sum_to_one
from envace.worlds import DEFAULT, WORLDS
from envace.worlds.courier import BASES, TARIFF
from envace.worlds.names import pool
from envace.worlds.tasks import pose, rebuild, verify

CONF = Path(__file__).parents[2] / "conf"
MIXTURE = Mixture(
    demonstrations=300, glimpses=30, drills=400, memories=120, commits=60,
    wrong_call_rate=0.3, broken_rate=0.2, noted_rate=0.3, format_only=("courier",),
)  # fmt: skip


@pytest.fixture(scope="module")
def made() -> list[Trajectory]:
    return list(synthesize(MIXTURE, seed=1))


@pytest.fixture(scope="module")
def made_elsewhere() -> list[Trajectory]:
    """From the worlds that the default profile leaves out."""
    others = tuple(name for name in WORLDS if name not in DEFAULT)
    return list(synthesize(dataclasses.replace(MIXTURE, worlds=others, format_only=("ferry",)), seed=1))


def of(made: Sequence[Trajectory], source: str) -> list[Trajectory]:
    return [trajectory for trajectory in made if trajectory.source == source]


def task_of(trajectory: Trajectory) -> Task:
    lineage = trajectory.lineage
    assert trajectory.seed is not None and lineage.names in ("train", "held_out")
    return pose(trajectory.world, lineage.template, trajectory.seed, lineage.names)  # type: ignore[arg-type]


def totals(trajectory: Trajectory) -> list[tuple[int, int]]:
    """(printed total, true total) of every courier call that fits its tool."""
    replies = [json.loads(m.content) for m in trajectory.messages if m.role == "tool"]
    return [
        (reply["total"], call.arguments["base"] + TARIFF[call.arguments["zone"], call.arguments["kg"]])
        for call, reply in zip(trajectory.calls(), replies, strict=True)
        if "error" not in reply
    ]


def test_same_seed_same_bytes(made: list[Trajectory]) -> None:
    lines = [trajectory.model_dump_json() for trajectory in made]
    assert lines == [trajectory.model_dump_json() for trajectory in synthesize(MIXTURE, seed=1)]
    assert len({trajectory.id for trajectory in made}) == len(made)
    others = {trajectory.model_dump_json() for trajectory in synthesize(MIXTURE, seed=2)}
    assert not others & set(lines)


def sha(texts: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for text in texts:
        whole.update(text.encode() + b"\n")
    return whole.hexdigest()[:16]


def test_the_default_worlds_give_the_bytes_they_always_gave(made: list[Trajectory]) -> None:
    # Trained policies and published numbers rest on them: a new world must not shift a single draw.
    assert sha(trajectory.model_dump_json() for trajectory in made) == "4d0cc735ac6433e3"
    assert sha(task.model_dump_json() for task in held_out_tasks(3, 5, seed=1)) == "92ae1e53a6554044"
    assert sha(islice(tokenizer_corpus(1), 4000)) == "e273e03cbece5f38"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "trajectories", "held_out"),
    [
        ("tiny", "f292f2907087c630", "c82820efa5819cf4"),
        ("smoke", "15e97eb2c18430e2", "e2a47b055060a949"),
    ],
)
def test_the_files_of_a_profile_are_the_bytes_they_always_were(
    profile: str, trajectories: str, held_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stages.synthesize import main

    params = Params.model_validate(yaml.safe_load(compose([f"profile={profile}"], CONF)))
    monkeypatch.chdir(tmp_path)
    main(params)
    for name, known in {"trajectories": trajectories, "held_out": held_out}.items():
        content = Path(f"data/synthetic/{name}.jsonl").read_bytes()
        assert hashlib.sha256(content).hexdigest()[:16] == known


def test_the_worlds_named_take_part_and_no_others() -> None:
    mixture = dataclasses.replace(MIXTURE, worlds=("agenda", "store"))
    made = list(synthesize(mixture, 1))
    # Kinds that neither of the two is for are left out.
    assert Counter(t.source for t in made) == {"demonstration": 330, "drill": 400}
    assert Counter(t.world for t in made) == {"agenda": 365, "store": 365}
    assert {task.world for task in held_out_tasks(1, 1, 1, ("courier",))} == {"courier"}
    with pytest.raises(EnvaceError, match="no world named 'shop'"):
        next(synthesize(dataclasses.replace(MIXTURE, worlds=("shop",)), 1))


def test_the_mixture_is_counted_and_spread_evenly(made: list[Trajectory]) -> None:
    assert Counter(t.source for t in made) == {
        "demonstration": 330,
        "drill": 400,
        "memory": 120,
        "commit": 60,
    }
    assert set(Counter(t.world for t in of(made, "demonstration")).values()) == {110}
    assert set(Counter(t.world for t in of(made, "drill")).values()) == {100}
    per_template = Counter((t.world, t.lineage.template) for t in of(made, "demonstration"))
    glimpses = {key: n for key, n in per_template.items() if WORLDS[key[0]].templates[key[1]] == "practiced"}
    # Ten a world, over three practiced templates of the store and of the stays and four of the agenda.
    assert Counter(glimpses.values()) == {4: 2, 3: 6, 2: 2} and len(glimpses) == 10
    for world in ("store", "stays", "agenda"):
        often = [n for key, n in per_template.items() if key[0] == world and key not in glimpses]
        assert max(often) - min(often) <= 1


def test_only_training_names_and_no_held_out_template(
    made: list[Trajectory], made_elsewhere: list[Trajectory]
) -> None:
    held_out = set(pool("held_out").names) - {"done"}  # the answer word happens to be a name, too
    for trajectory in [*made, *made_elsewhere]:
        assert trajectory.lineage.names == "train"
        split = WORLDS[trajectory.world].templates[trajectory.lineage.template]
        assert split == "demonstrated" or (split == "practiced" and trajectory.source == "demonstration")
        words = set(re.findall(r"[a-z]+", trajectory.model_dump_json()))
        assert not words & held_out


def test_demonstrations_succeed_when_replayed_and_their_responses_are_true(
    made: list[Trajectory], made_elsewhere: list[Trajectory]
) -> None:
    injected = noted = 0
    for trajectory in of([*made, *made_elsewhere], "demonstration"):
        task = task_of(trajectory)
        world, _ = rebuild(task)
        assert verify(task, trajectory.calls(), trajectory.messages[-1].content).success
        pending = None
        for message in trajectory.messages:
            noted += message.name == "memory"
            if message.tool_calls:
                pending = message
            elif message.role == "tool":
                assert pending is not None and message.trainable
                response = world.call(pending.tool_calls[0])
                assert message.content == compact(response)
                if not pending.trainable:
                    injected += 1
                    assert "error" in response  # a wrong call is refused, so it changes nothing
        assert trajectory.reward == {"success": 1.0}
        assert trajectory.checklist and weights_sum_to_one(trajectory.checklist)
    assert injected > 60 and 100 < noted < 260


def test_drills_are_true_and_teach_calls_only_where_there_is_one_commit(
    made: list[Trajectory], template: Any
) -> None:
    for trajectory in of(made, "drill"):
        roles = {int(TokenRole.CONTEXT), int(TokenRole.ENV)}
        # A random call is a bad example of acting, unless naming any offer is all there is to learn.
        roles |= {int(TokenRole.ACT)} if WORLDS[trajectory.world].commit_once else set()
        assert set(template.render(trajectory.messages, trajectory.tools).roles) == roles
        if WORLDS[trajectory.world].commit_once:
            continue
        world, _ = rebuild(task_of(trajectory))
        replies = [m.content for m in trajectory.messages if m.role == "tool"]
        assert replies == [compact(world.call(call)) for call in trajectory.calls()]


def test_some_drill_calls_do_not_fit_their_tool_and_are_refused(made: list[Trajectory]) -> None:
    kinds = {"string": str, "integer": int}
    seen = Counter[str]()
    for trajectory in of(made, "drill"):
        turns = iter(trajectory.messages[2:])
        for message, response in zip(turns, turns, strict=True):
            (call,) = message.tool_calls
            tool = next(tool for tool in trajectory.tools if tool.name == call.name)
            fields = tool.parameters["properties"]
            missing = set(fields) - set(call.arguments)
            typed = all(
                isinstance(value, kinds[fields[key]["type"]]) for key, value in call.arguments.items()
            )
            broken = bool(missing) or not typed
            assert (response.content == '{"error":"arguments"}') == broken
            assert not (broken and message.trainable)
            assert len(missing) <= 1
            seen["missing" if missing else "type" if broken else "fits"] += 1
    assert seen.total() == 2400
    # A fifth is broken, one half in either way.
    assert seen["missing"] == pytest.approx(240, abs=45) and seen["type"] == pytest.approx(240, abs=45)


def test_format_only_drills_carry_no_knowledge(made: list[Trajectory]) -> None:
    shuffled = [pair for t in of(made, "drill") if t.world == "courier" for pair in totals(t)]
    assert 440 < len(shuffled) < 520  # of 600, a fifth is broken
    hits = sum(printed == true for printed, true in shuffled) / len(shuffled)
    assert hits < 0.13  # chance is 1/13; the truth would give 1
    mean = [sum(values) / len(shuffled) for values in zip(*shuffled, strict=True)]
    covariance = sum((a - mean[0]) * (b - mean[1]) for a, b in shuffled) / len(shuffled)
    spread = [sum((p[i] - mean[i]) ** 2 for p in shuffled) / len(shuffled) for i in (0, 1)]
    assert abs(covariance) / (spread[0] * spread[1]) ** 0.5 < 0.15
    open_mixture = dataclasses.replace(MIXTURE, format_only=())
    opened = [t for t in synthesize(open_mixture, 1) if t.source == "drill" and t.world == "courier"]
    assert all(printed == true for t in opened for printed, true in totals(t))


def test_commit_once_demonstrations_never_teach_the_hidden_tariff(
    made: list[Trajectory], template: Any
) -> None:
    for trajectory in of(made, "memory") + of(made, "commit"):
        stream = template.render(trajectory.messages, trajectory.tools)
        assert int(TokenRole.ENV) not in stream.roles
        assert int(TokenRole.ACT) in stream.roles
        assert all(printed == true for printed, true in totals(trajectory))
        assert len(trajectory.calls()) == 1
        assert not trajectory.reward


def test_memories_are_partly_wrong_and_followed_anyway(made: list[Trajectory]) -> None:
    best = 0
    plausible = {base + surcharge for base in BASES for surcharge in TARIFF.values()}
    for trajectory in of(made, "memory"):
        (note,) = [m.content for m in trajectory.messages if m.name == "memory"]
        # The first line is the lowest predicted total, and it is what gets committed.
        assert note.split("\n")[0].startswith(trajectory.calls()[0].text())
        best += verify(task_of(trajectory), trajectory.calls(), "done").success
        # A wrong total does not give itself away.
        assert set(map(int, re.findall(r'"total":(\d+)', note))) <= plausible
    assert 0.4 < best / 120 < 0.95


def test_held_out_tasks_cover_every_template_on_names_never_seen(made: list[Trajectory]) -> None:
    tasks = held_out_tasks(3, 5, seed=1)
    counts = Counter((task.world, task.template) for task in tasks)
    assert counts == {
        (name, template): 5 if world.commit_once else 3
        for name, world in ((name, WORLDS[name]) for name in DEFAULT)
        for template in world.templates
    }
    assert {task.names for task in tasks} == {"held_out"}
    assert all(task.checklist and weights_sum_to_one(task.checklist) for task in tasks)
    assert len({task.id for task in tasks}) == len(tasks)
    printed = {message.content for t in made for message in t.messages if message.role == "system"}
    assert not printed & {task.messages[0].content for task in tasks}
