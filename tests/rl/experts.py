"""A random policy never succeeds: roll-outs in which something is to be learned all the same."""

import dataclasses
from typing import Any

from envace.rewards.replay import revealed_streams, score
from envace.rl.experience import Experience
from envace.rl.observe import Transcript


def with_experts(found: Experience, writer: Any, group: int) -> Experience:
    """The same roll-outs, but the first of every task is right."""
    scored = [
        score(writer.expert(item.episode.task, item.episode.notes)) if index % group == 0 else item
        for index, item in enumerate(found.scored)
    ]
    told = [
        Transcript(
            item.episode.task.world,
            revealed_streams(item.episode.task, item.verdict.steps, writer.template)[0],
        )
        for item in scored[::group]
    ]
    return dataclasses.replace(found, scored=scored, revealed=[*found.revealed, *told])
