"""A rule on tasks that are solved always or never: they have nothing to teach a group-relative update."""

from collections import defaultdict

from envace.trajectory import Trajectory


class Difficulty:
    """Refuses the attempts at a task whose pass rate lies outside of a range.

    The pass rate is taken over all attempts in the data, those included that other rules refuse.

    Args:
        at_least: Least pass rate; the default leaves out tasks that are never solved.
        at_most: Greatest; the default leaves out tasks that are always solved.
        part: The reward part that says whether an attempt passed: its mean is the rate.
        attempts: A task with fewer passes: one attempt says nothing about its difficulty.
    """

    def __init__(
        self, at_least: float = 0.01, at_most: float = 0.99, part: str = "success", attempts: int = 2
    ) -> None:
        self._range = at_least, at_most
        self._part = part
        self._attempts = attempts
        self._rewards: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))

    def survey(self, trajectory: Trajectory) -> None:
        """Count an attempt."""
        if self._part in trajectory.reward and trajectory.lineage.task_id:
            count, total = self._rewards[trajectory.lineage.task_id]
            self._rewards[trajectory.lineage.task_id] = count + 1, total + trajectory.reward[self._part]

    def __call__(self, trajectory: Trajectory) -> str | None:
        count, total = self._rewards.get(trajectory.lineage.task_id, (0, 0.0))
        at_least, at_most = self._range
        if count < self._attempts or at_least <= total / count <= at_most:
            return None
        return (
            f"task {trajectory.lineage.task_id} has a pass rate of {total / count:g} in {count} attempts, "
            f"allowed {at_least:g} to {at_most:g}"
        )
