"""What is logged of training: per step, and over the whole run."""

from collections.abc import Collection

from envace.chat import TokenRole
from envace.quality.collusion import collusion
from envace.rl.experience import Experience
from envace.rollout.episode import Episode, cut_counts
from envace.worlds import WORLDS


def measures(experience: Experience, environment_only: Collection[int] = ()) -> dict[str, float]:
    """What is logged of one step's roll-outs: success, agreement and the witness, by world.

    `rehearsed_success` is success as the policy saw it: an answer, and no rehearsed response that
    refuses a call. `drift` is its excess over real success.

    Args:
        experience: Roll-outs of one step.
        environment_only: Markers that only the environment role may write.
    """
    episodes = [scored.episode for scored in experience.scored]
    worlds = {episode.task.world for episode in episodes}
    rehearsed = sum(map(content, episodes)) / len(episodes)
    row = {
        "success": experience.success(),
        "rehearsed_success": rehearsed,
        "drift": rehearsed - experience.success(),
        "agreement": experience.agreement(),
        "rule_success": experience.rule_success(),
        "real_calls_per_rollout": experience.real_calls / len(episodes),
        "act_length": sum(e.tokens(TokenRole.ACT) for e in episodes) / len(episodes),
        "environment_length": sum(e.tokens(TokenRole.ENV) for e in episodes) / len(episodes),
        "role_leak": sum(leaks(e, environment_only) for e in episodes) / len(episodes),
        **cut_counts(episodes),
    }
    for name in WORLDS:
        if name in worlds:
            row[f"success_{name}"] = experience.success(name)
            row[f"agreement_{name}"] = experience.agreement(name)
    return row


def content(episode: Episode) -> bool:
    """Whether the policy had reason to think it succeeded."""
    return episode.answer is not None and not any(r.startswith('{"error"') for r in episode.responses)


def leaks(episode: Episode, environment_only: Collection[int]) -> bool:
    """Whether an act span holds a marker of the environment role."""
    return any(
        token in environment_only
        for span in episode.spans
        if span.role is TokenRole.ACT
        for token in episode.sampled[span.start : span.stop]
    )


def alarms(log: list[dict[str, float]], tolerance: float) -> dict[str, str]:
    """The collusion alarm of every world that raises it, as one line each."""
    raised = {}
    for name in WORLDS:
        rows = [row for row in log if f"success_{name}" in row]
        if not rows:
            continue
        success = [row[f"success_{name}"] for row in rows]
        agreement = [row[f"agreement_{name}"] for row in rows]
        report = collusion(success, agreement, tolerance)
        if report.alarm:
            raised[name] = report.line
    return raised


def summary(log: list[dict[str, float]]) -> dict[str, float]:
    """Means over the first and the last tenth of the run, and the cost in real calls."""
    tenth = max(1, len(log) // 10)
    values: dict[str, float] = {"steps": len(log)}
    for name in ("success", "agreement", "rule_success"):
        values[f"{name}_first"] = sum(row[name] for row in log[:tenth]) / tenth
        values[f"{name}_last"] = sum(row[name] for row in log[-tenth:]) / tenth
    values["trained_tokens"] = sum(row["trained_tokens"] for row in log)
    for name in ("real_calls_per_rollout", "informative"):
        values[name] = sum(row[name] for row in log) / max(1, len(log))
    return values
