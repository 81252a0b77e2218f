"""The process part, counted by hand."""

import dataclasses
from collections.abc import Sequence

import pytest
from judging import episode, find, task

from envace.chat import CompactTemplate
from envace.errors import EnvaceError
from envace.filters.calls import SchemaCache
from envace.rewards import REWARDS, Scored, make_reward
from envace.rewards.process import Process, good_form
from envace.rollout.episode import Episode
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose


@dataclasses.dataclass
class Fixed:
    """An outcome that is known."""

    values: Sequence[float | None]

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        return [Scored(e, value, {"own": 1.0}) for e, value in zip(episodes, self.values, strict=True)]


GOOD = (find(n=1), "{}")
CASES = [
    ([GOOD, (find(n=2), "[]")], 6),
    ([GOOD, GOOD], 5),  # repeated
    ([(find(n=1), "{}"), (find(n=1.0), "{}"), (find(n="1"), "{}")], 8),  # 1.0 is an integer too, "1" is none
    ([(ToolCall(name="unknown"), "{}")], 2),
    ([(find(), "{}")], 2),  # a required argument is missing
    ([(find(n=1), "some prose")], 2),
    ([(find(n=1), '"text"')], 2),
    ([(find(n="x"), ""), (find(n="x"), "")], 1),
]


@pytest.mark.parametrize(("steps", "points"), CASES)
def test_three_points_a_call(
    template: CompactTemplate, steps: list[tuple[ToolCall, str]], points: int
) -> None:
    done = episode(template, task(), steps, "done")
    assert good_form(done, SchemaCache()) == pytest.approx(points / (3 * len(steps)))


def test_no_call_no_process_and_no_response_no_point(template: CompactTemplate) -> None:
    assert good_form(episode(template, task(), [], "done"), SchemaCache()) == 0.0
    whole = episode(template, task(), [GOOD], None)
    cut = dataclasses.replace(whole, responses=())
    assert good_form(cut, SchemaCache()) == pytest.approx(2 / 3)


def test_it_is_added_with_its_weight_and_the_unjudged_stays_so(template: CompactTemplate) -> None:
    episodes = [episode(template, task(), steps, "done") for steps in ([GOOD], [GOOD, GOOD], [])]
    scored = Process(Fixed([1.0, 0.25, None]), weight=0.3).score(episodes)
    assert [s.reward for s in scored] == [pytest.approx(1.3), pytest.approx(0.25 + 0.3 * 5 / 6), None]
    assert dict(scored[0].parts) == {"own": 1.0, "outcome": 1.0, "process": 1.0}


def test_rewards_are_made_by_name_and_nested_ones_first(template: CompactTemplate) -> None:
    assert set(REWARDS) == {"replay", "checklist", "judge", "process"}
    judge = {"name": "judge", "endpoints": ["http://127.0.0.1:9/v1"], "model": "m", "client": {"attempts": 1}}
    outcome = {"name": "checklist", "judge": judge | {"window": 3}}
    made = make_reward({"name": "process", "weight": 0.5, "outcome": outcome})
    assert made.weight == 0.5 and made.outcome.judge.client.attempts == 1  # type: ignore[attr-defined]
    for options, says in (
        ({"name": "luck"}, "unknown reward 'luck'"),
        ({"name": "replay", "luck": 1}, "reward replay: .*no arguments"),
        ({"name": "process"}, "reward process: .*outcome"),
        ({"name": "process", "outcome": {"name": "luck"}}, "unknown reward 'luck'"),
    ):
        with pytest.raises(EnvaceError, match=says):
            make_reward(options)
    with pytest.raises(EnvaceError, match="task t: no executable world 'elsewhere'"):
        make_reward({"name": "replay"}).score([episode(template, task(), [], "x")])


def test_replay_says_what_held(writer: object) -> None:
    done = writer.expert(pose("store", "price", 1, "train"))  # type: ignore[attr-defined]
    (scored,) = make_reward({"name": "replay"}).score([done])
    assert (scored.reward, dict(scored.parts)) == (1.0, {"state": 1.0, "answer": 1.0, "grounded": 1.0})
