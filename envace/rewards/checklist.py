"""Checklist reward: weighted conditions by user turn, checked by the world, by rule or by a judge.

An item's kind says who checks it. `goal_state` is the world's. `judge` goes to a judge, in words.
`answer` and `call` are the world's too where they have no `pass_condition`; with one,

- an `answer` holds when the turn's answer contains that text, whatever the case and spacing;
- a `call`, `{"name":…,"arguments":{…}}`, holds when some call of the turn has this name and at
  least these arguments.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from envace.chat.compact import parse_call
from envace.errors import EnvaceError
from envace.rewards.base import Scored, world_verdict
from envace.rewards.judge import Judge
from envace.rewards.turns import UserTurn, conversation, user_turns, weighted
from envace.rollout.episode import Episode
from envace.trajectory import ChecklistItem, Task
from envace.worlds.tasks import Verdict


class Checklist:
    """R = Σ weight · pass / turns over the task's checklist."""

    def __init__(self, judge: Judge | None = None) -> None:
        """Without a `judge`, a task with an item of kind `judge` is refused."""
        self.judge = judge

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Check every episode's list; `parts` holds 1 or 0 for each item id.

        Raises:
            EnvaceError: A task has no checklist, or an item that nobody here can check; or the
                judge is out of order.
        """
        wordy = [self._for_judge(episode.task) for episode in episodes]
        opinions: list[list[bool] | None] = [[] for _ in episodes]
        if self.judge is not None:
            opinions = self.judge.ask(list(zip(episodes, wordy, strict=True)))
        return [_scored(*pair) for pair in zip(episodes, opinions, strict=True)]

    def _for_judge(self, task: Task) -> list[ChecklistItem]:
        if not task.checklist:
            raise EnvaceError(f"task {task.id}: no checklist", "use the replay or the judge reward")
        items = [item for item in task.checklist if item.kind == "judge"]
        if items and self.judge is None:
            raise EnvaceError(
                f"task {task.id}: checklist item {items[0].id} needs a judge", "give the checklist a judge"
            )
        return items


def _scored(episode: Episode, opinions: Sequence[bool] | None) -> Scored:
    """One episode; `opinions` of the judge in the order of its items, None when it failed."""
    items, verdict = episode.task.checklist, world_verdict(episode)
    if opinions is None:
        return Scored(episode, None, {}, verdict)
    turns = user_turns(conversation(episode))
    judged = iter(opinions)
    try:
        passed = [
            next(judged) if item.kind == "judge" else item_holds(item, turns, verdict) for item in items
        ]
    except EnvaceError as error:
        raise EnvaceError(f"task {episode.task.id}: {error.message}", error.mend) from error
    parts = {item.id: float(held) for item, held in zip(items, passed, strict=True)}
    return Scored(episode, weighted(items, passed), parts, verdict)


def item_holds(item: ChecklistItem, turns: Sequence[UserTurn], verdict: Verdict | None) -> bool:
    """Whether a machine-checkable item holds; never in a turn that was not reached.

    Args:
        item: Of kind `goal_state`, `answer` or `call`.
        turns: The turns that were reached, from 0.
        verdict: The world's, where there is one.

    Raises:
        EnvaceError: Neither the world nor a `pass_condition` decides, or that of a call is no call.
    """
    reached = item.turn < len(turns)
    return CHECKS[item.kind](item, turns[item.turn] if reached else UserTurn(), verdict) and reached


def _state(item: ChecklistItem, turn: UserTurn, verdict: Verdict | None) -> bool:
    return _world(item, verdict).state_reached


def _answer(item: ChecklistItem, turn: UserTurn, verdict: Verdict | None) -> bool:
    if not item.pass_condition:
        return _world(item, verdict).answer_right
    return _plain(item.pass_condition) in _plain(turn.answer or "")


def _call(item: ChecklistItem, turn: UserTurn, verdict: Verdict | None) -> bool:
    if not item.pass_condition:
        return _world(item, verdict).grounded
    wanted = parse_call(item.pass_condition)
    if wanted is None:
        raise EnvaceError(
            f"the pass_condition of checklist item {item.id} is no call",
            'write {"name":…,"arguments":{…}}, or make the item a judge\'s',
        )
    return any(
        call.name == wanted.name
        and all(
            key in call.arguments and _same(call.arguments[key], value)
            for key, value in wanted.arguments.items()
        )
        for call in turn.calls
    )


CHECKS: dict[str, Callable[[ChecklistItem, UserTurn, Verdict | None], bool]] = {
    "goal_state": _state,
    "answer": _answer,
    "call": _call,
}
"""Who checks an item, by kind."""


def _world(item: ChecklistItem, verdict: Verdict | None) -> Verdict:
    if verdict is None:
        raise EnvaceError(
            f"checklist item {item.id} ({item.kind}) is for a world to check, and there is none",
            "make it a judge's, or an answer or call with a pass_condition",
        )
    return verdict


def _plain(text: str) -> str:
    """Case and spacing evened out."""
    return " ".join(text.casefold().split())


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: unlike in Python, 1 is not true."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
