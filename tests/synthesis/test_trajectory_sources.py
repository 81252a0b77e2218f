"""Sources: one protocol, mixed by count or weight, the same seed the same bytes."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp_script import answer, written
from scripted_server import serving

from envace.chat import TokenRole
from envace.compose import compose
from envace.errors import EnvaceError
from envace.models.build import save
from envace.options import parse_options
from envace.params import Params
from envace.rehearsal.base import Policy
from envace.synthesis.rollouts import SEEDS, Rollouts, training_tasks
from envace.synthesis.sources import SOURCES, make_source, mixed_in, write_source
from envace.synthesis.worlds import SHARES
from envace.trajectory import Quarantined, Task, Trajectory, compact, read_trajectories
from envace.trajectory.records import weights_sum_to_one
from envace.worlds import WORLDS
from envace.worlds.tasks import pose, rebuild, verify

CONF = Path(__file__).parents[2] / "conf"


def test_options_are_read_from_the_command_line() -> None:
    words = ["model=m", "endpoints=[http://a/v1, http://b/v1]", "turns=3", "empty="]
    assert parse_options(words) == {
        "model": "m", "endpoints": ["http://a/v1", "http://b/v1"], "turns": 3, "empty": None,
    }  # fmt: skip
    for wrong in ("model", "=x", "a=[1"):
        with pytest.raises(EnvaceError, match="cannot be read"):
            parse_options([wrong])


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("web", {}, "unknown source 'web' .choose from worlds, tau2, mcp, rollouts, files"),
        ("worlds", {"colour": 1}, "source worlds: .*colour"),
        ("tau2", {"domains": ["mock"]}, "'mock' has no training split"),
        ("rollouts", {"modle": "x"}, "source rollouts: .*modle"),
    ],
)
def test_a_wrong_source_is_one_line(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(EnvaceError, match=text) as caught:
        make_source(name, options)
    assert caught.value.mend and "\n" not in str(caught.value)


def test_the_worlds_scale_to_a_count(tmp_path: Path) -> None:
    assert set(SOURCES) == {"worlds", "tau2", "mcp", "rollouts", "files"}
    share = write_source("worlds", {"worlds": ["files", "ferry"]}, 90, 3, tmp_path / "a.jsonl")
    made = read_trajectories(tmp_path / "a.jsonl")
    assert share.trajectories == len(made) == 90 and share.quarantined == []
    # 800 : 800 : 150 : 50, rounded down, and what is left over to the drills
    assert Counter(t.source for t in made) == {"demonstration": 40, "drill": 41, "memory": 7, "commit": 2}
    assert {t.world for t in made} == {"files", "ferry"}
    write_source("worlds", {"worlds": ["files", "ferry"]}, 90, 3, tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    for total in (0, 1, 7, 1800, 12345):
        scaled = SHARES.scaled(total)
        assert scaled.demonstrations + scaled.drills + scaled.memories + scaled.commits == total


def test_sources_are_mixed_by_count_and_by_weight(tmp_path: Path) -> None:
    servers = written(tmp_path)
    shares: dict[str, Any] = {}
    with serving(answer) as server:
        own = {"servers": str(servers), "endpoints": [server.url], "model": "m"}
        sources = {"mcp": {**own, "weight": 0.04}, "worlds": {"count": 30, "worlds": ["files"]}}
        made = list(mixed_in(sources, 100, 1, tmp_path / "scratch", shares))
    assert Counter(t.source for t in made)["mcp"] == 4 and len(made) == 34
    assert [t.source for t in made[:4]] == ["mcp"] * 4
    assert {name: share.trajectories for name, share in shares.items()} == {"mcp": 4, "worlds": 30}
    assert shares["mcp"].metrics()["requests"] == len(server.bodies)
    for wrong in ({"count": 1, "weight": 1}, {}):
        with pytest.raises(EnvaceError, match="count or weight"):
            list(mixed_in({"worlds": wrong}, 1, 1, tmp_path, {}))


def test_the_stage_adds_the_sources_behind_the_worlds(tmp_path: Path, monkeypatch: Any) -> None:
    from stages.synthesize import main

    servers = written(tmp_path)
    composed = yaml.safe_load(compose(["profile=smoke"], CONF))
    numbers = {"demonstrations": 30, "drills": 30, "memories": 5, "commits": 5}
    composed["synthesize"] |= {**numbers, "held_out_per_template": 1, "held_out_commits": 2}
    monkeypatch.chdir(tmp_path)
    main(Params.model_validate(composed))
    alone = Path("data/synthetic/trajectories.jsonl").read_bytes()
    assert sorted(p.name for p in Path("data/synthetic").iterdir()) == [
        "dev_tasks.jsonl", "held_out.jsonl", "trajectories.jsonl",
    ]  # fmt: skip
    assert "sources" not in json.loads(Path("metrics/synthesize.json").read_text())

    with serving(answer) as server:
        mcp = {"servers": str(servers), "endpoints": [server.url], "model": "m", "count": 3}
        composed["synthesize"] |= {"sources": {"mcp": mcp}, "held_out_worlds": ["files"]}
        main(Params.model_validate(composed))
    mixed = Path("data/synthetic/trajectories.jsonl").read_bytes()
    assert mixed.startswith(alone) and mixed[len(alone) :].count(b"\n") == 3
    metrics = json.loads(Path("metrics/synthesize.json").read_text())
    assert metrics["sources"]["mcp"]["trajectories"] == 3
    assert Path("data/synthetic/quarantine_mcp.jsonl").read_bytes() == b""
    assert Path(".scratch/synthesize/mcp.jsonl").is_file()
    held_out = Path("data/synthetic/held_out.jsonl").read_text().splitlines()
    assert sum('"world":"files"' in line for line in held_out) == len(WORLDS["files"].templates)
    assert b'"world":"files"' not in mixed


def test_roll_outs_draw_training_tasks_only() -> None:
    tasks = training_tasks(("store", "files"), 200, 1)
    assert tasks == training_tasks(("store", "files"), 200, 1) != training_tasks(("store", "files"), 200, 2)
    assert [t.world for t in tasks[:4]] == ["store", "files", "store", "files"]
    assert {t.names for t in tasks} == {"train"} and all(t.seed in SEEDS for t in tasks)
    splits = {WORLDS[t.world].templates[t.template] for t in tasks}
    assert splits == {"demonstrated", "practiced"}


def play(writer: Any, scripted: Any, tasks: list[Task], wrong: dict[int, str]) -> list[Any]:
    """Roll tasks out with a policy that writes the expert's turns, but for the answers in `wrong`."""
    streams = []
    for index, task in enumerate(tasks):
        expert = writer.expert(task)
        episode = expert
        if index in wrong:
            from envace.worlds.tasks import solve

            episode = writer.episode(task, solve(task)[0], wrong[index])
        streams.append(list(episode.prompt + episode.sampled))

    def script(prompt: list[int], sample: int) -> list[int]:
        return next(ids[len(prompt) :] for ids in streams if ids[: len(prompt)] == prompt)

    policy = Policy(scripted(script), writer.template)
    return list(Rollouts(turn_tokens=96).played(policy, tasks, 1))


def test_successes_teach_both_roles_and_failures_the_environment_alone(
    writer: Any, scripted: Any, template: Any
) -> None:
    tasks = [pose("store", "order", 7, "train"), pose("agenda", "bump", 3, "train")]
    good, bad = play(writer, scripted, tasks, {1: "never"})
    assert isinstance(good, Trajectory) and isinstance(bad, Trajectory)
    assert (good.reward["success"], bad.reward) == (
        1.0, {"success": 0.0, "state": 1.0, "answer": 0.0, "grounded": 1.0},
    )  # fmt: skip
    roles = [set(template.render(t.messages, t.tools).roles) for t in (good, bad)]
    act, env = int(TokenRole.ACT), int(TokenRole.ENV)
    assert act in roles[0] and env in roles[0]
    assert act not in roles[1] and env in roles[1]
    for trajectory, task in ((good, tasks[0]), (bad, tasks[1])):
        world, _ = rebuild(task)
        replies = [m.content for m in trajectory.messages if m.role == "tool"]
        assert replies == [compact(world.call(call)) for call in trajectory.calls()]
        assert {m.author for m in trajectory.messages if m.role == "tool"} == {"world"}
        assert weights_sum_to_one(trajectory.checklist) and trajectory.lineage.task_id == task.id
    assert verify(tasks[0], good.calls(), good.messages[-1].content).success


def test_an_episode_without_an_answer_is_set_aside(writer: Any, scripted: Any) -> None:
    task = pose("store", "price", 1, "train")
    policy = Policy(scripted(lambda prompt, sample: [writer.template.vocabulary - 1] * 200), writer.template)
    (made,) = Rollouts(turn_tokens=8).played(policy, [task], 1)
    assert isinstance(made, Quarantined) and made.reason == "tokens limit"
    assert Trajectory.model_validate_json(made.record).lineage.task_id == task.id


def test_a_real_policy_from_its_folder_twice_the_same_bytes(tiny: Any, tmp_path: Path) -> None:
    save(tiny.model, tiny.folder, tmp_path / "policy")
    own = {"model": str(tmp_path / "policy"), "worlds": ["store", "ferry"], "turn_tokens": 12}
    for name in ("a", "b"):
        share = write_source("rollouts", own, 6, 1, tmp_path / f"{name}.jsonl")
        assert share.trajectories + len(share.quarantined) == 6  # a random policy: mostly noise
        assert share.facts == {"succeeded": 0}
    for suffix in (".jsonl", ".quarantine.jsonl"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_roll_outs_need_a_policy_and_a_number(tmp_path: Path) -> None:
    for count, text in ((None, "no end"), (3, "no policy there")):
        with pytest.raises(EnvaceError, match=text):
            list(make_source("rollouts", {"model": str(tmp_path)}).generate(count, 0, tmp_path / "x"))


def test_a_mixture_names_its_fields() -> None:
    source = make_source("worlds", {"worlds": ["store"], "wrong_call_rate": 0.5})
    made = list(source.generate(20, 0, Path("x")))
    assert len(made) == 20
    assert dataclasses.replace(SHARES, worlds=("store",), wrong_call_rate=0.5) == source.mixture  # type: ignore[attr-defined]
