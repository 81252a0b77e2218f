"""What a step's experience makes of rewards that are partial or missing."""

from collections.abc import Sequence
from typing import Any

import pytest

from envace.rewards import Scored
from envace.rl.experience import Experience, collect
from envace.rollout.episode import Episode
from envace.worlds.tasks import pose


class EveryOther:
    """Half a point to one episode, no verdict and no reward to the next."""

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        return [Scored(episode, None if at % 2 else 0.5) for at, episode in enumerate(episodes)]


def silent(scripted: Any, template: Any) -> Any:
    return scripted(lambda prompt, sample: [*template.encode("done"), *template.end_ids])


def test_any_reward_can_judge_and_the_unjudged_count_nowhere(template: Any, scripted: Any) -> None:
    tasks = [pose("store", "order", seed, "train") for seed in range(2)]
    engine = silent(scripted, template)
    experience = collect(engine, template, tasks, 2, 1, 20, 0, reward=EveryOther())
    assert [s.reward for s in experience.scored] == [0.5, None, 0.5, None]
    assert (experience.success(), experience.success("store"), experience.success("agenda")) == (0.5, 0.5, 0)
    # Without a world's verdict nothing was revealed.
    assert (experience.revealed, experience.real_calls, experience.agreement()) == ([], 0, 0.0)


def test_the_world_judges_unless_told_otherwise(template: Any, scripted: Any) -> None:
    task = pose("store", "order", 0, "train")
    experience = collect(silent(scripted, template), template, [task], 2, 1, 20, 0)
    assert [s.reward for s in experience.scored] == [0.0, 0.0]
    assert all(s.verdict is not None for s in experience.scored)


def test_partial_rewards_are_averaged(writer: Any) -> None:
    done = writer.expert(pose("store", "order", 0, "train"))
    scored = [Scored(done, value) for value in (0.2, 1.0, None)]
    assert Experience(scored, [None] * 3, [], 0).success() == pytest.approx(0.6)
