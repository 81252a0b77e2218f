"""The current policy's own roll-outs, executed for real: what it gets right, and what comes of its errors.

In a success both roles are worth learning. In a failure the calls are not, but the responses to them
are true all the same, and they answer just those calls that this policy makes.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envace.errors import EnvaceError
from envace.progress import track
from envace.synthesis.base import Made
from envace.trajectory import Lineage, Message, Quarantined, Task, Trajectory
from envace.worlds import DEFAULT, world
from envace.worlds.tasks import Verdict, pose, templates, verify

if TYPE_CHECKING:
    from envace.rehearsal.base import Policy
    from envace.rollout.episode import Episode

TOGETHER = 64
"""Episodes of one batch."""
SEEDS = range(2 * 10**9, 3 * 10**9)
"""Seeds of the tasks; neither demonstrations nor training draw from them."""


class Rollouts:
    """Episodes of a policy on training tasks of executable worlds."""

    def __init__(
        self,
        model: str = "models/trained",
        worlds: Sequence[str] = DEFAULT,
        temperature: float = 1.0,
        turn_tokens: int = 64,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        """Choose policy and tasks; nothing is loaded yet.

        Args:
            model: Folder of the policy.
            worlds: Worlds, by turns; held-out templates are left out. The responses of a world whose
                rules warm-up must not show are true here as everywhere else.
            temperature: Of the act role.
            turn_tokens: Tokens at most in one act turn.
            device: What it runs on.
            dtype: What its weights are held in.
        """
        self.model, self.worlds = Path(model), tuple(worlds)
        self.temperature, self.turn_tokens = temperature, turn_tokens
        self.device, self.dtype = device, dtype
        self._succeeded = 0

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Made]:
        """See `Source.generate`."""
        from envace.rehearsal.base import load_policy

        if count is None:
            raise EnvaceError("roll-outs have no end", "say how many with count")
        if not (self.model / "config.json").is_file():
            raise EnvaceError(f"{self.model}: no policy there", "name the folder of a trained model")
        policy = load_policy(self.model, self.device, self.dtype)
        yield from self.played(policy, training_tasks(self.worlds, count, seed), seed)

    def played(self, policy: "Policy", tasks: Sequence[Task], seed: int) -> Iterator[Made]:
        """One episode a task, in order."""
        from envace.engines import Sampling
        from envace.rollout.answered import answered_episodes
        from envace.rollout.responders import WorldResponder

        for start in track(range(0, len(tasks), TOGETHER), f"roll-outs, {TOGETHER} at a time"):
            batch = tasks[start : start + TOGETHER]
            sampling = Sampling(self.temperature, self.turn_tokens, seed=seed * 1_000_000 + start)
            prompts = [(task, ()) for task in batch]
            episodes = answered_episodes(
                policy.engine, policy.template, prompts, sampling, WorldResponder(batch)
            )
            for episode in episodes:
                verdict = verify(episode.task, list(episode.calls), episode.answer)
                self._succeeded += verdict.success
                yield recorded(episode, verdict, str(self.model))

    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {"succeeded": self._succeeded}


def training_tasks(worlds: Sequence[str], count: int, seed: int) -> list[Task]:
    """Tasks of the worlds by turns, on training names and templates that are not held out."""
    rng = random.Random(f"rollouts/{seed}")
    kinds = [world(name).name for name in worlds]
    tasks = []
    for index in range(count):
        name = kinds[index % len(kinds)]
        template = rng.choice(templates(name, "demonstrated", "practiced"))
        tasks.append(pose(name, template, rng.choice(SEEDS), "train"))
    return tasks


def recorded(episode: "Episode", verdict: Verdict, origin: str) -> Made:
    """An executed episode as a trajectory; one without an answer is set aside, since nothing ends it.

    Args:
        episode: The roll-out, whose responses the world gave.
        verdict: What the world says about it.
        origin: The policy, for the lineage.
    """
    task = episode.task
    messages = list(task.messages)
    for call, response in zip(episode.calls, episode.responses, strict=False):
        messages.append(
            Message(role="assistant", tool_calls=(call,), author="policy", trainable=verdict.success)
        )
        messages.append(Message(role="tool", name=call.name, content=response, author="world"))
    answer = episode.answer or ""
    messages.append(Message(role="assistant", content=answer, author="policy", trainable=verdict.success))
    made = Trajectory(
        id=f"rollout/{task.id}",
        source="rollout",
        world=task.world,
        tools=task.tools,
        messages=tuple(messages),
        seed=task.seed,
        reward={
            "success": float(verdict.success),
            "state": float(verdict.state_reached),
            "answer": float(verdict.answer_right),
            "grounded": float(verdict.grounded),
        },
        checklist=task.checklist,
        lineage=Lineage(task_id=task.id, template=task.template, names=task.names, origin=origin),
    )
    if episode.answer is None or not answer.strip():
        return Quarantined(
            file=origin, line=0, rule="rollouts", reason=episode.fault or "an empty answer",
            record=made.model_dump_json(exclude_defaults=True),
        )  # fmt: skip
    return made
