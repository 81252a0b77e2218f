"""The same recorded rows through TRL's GRPOTrainer: loss and every gradient are the same."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from slow import ACT, close, drawn_from, gradients, norm, policy_row

from envace.chat import TokenRole
from envace.rewards import Scored
from envace.rl.experience import Experience
from envace.rl.rows import PolicyRow, policy_rows
from envace.rl.settings import UpdateSettings
from envace.rl.update import backward
from envace.rollout.episode import Episode
from envace.worlds.tasks import Step, pose, solve

pytest.importorskip("trl", reason="TRL is a development dependency: pip install -e '.[dev]'")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers")

NOISE = (0.0, -0.5, 0.1, 0.4, -1.5, 0.05)
"""Off-policy by ratios of about 1, 1.65, 0.9, 0.67, 4.5 and 0.95: every clip has something to do."""
REWARDS = [[1.0, 0.0, 0.0], [0.25, 1.0, 0.5]]
LONGEST = 80


@pytest.fixture(scope="module")
def groups(tiny: Any, writer: Any) -> list[list[tuple[Episode, PolicyRow]]]:
    """Three recorded roll-outs of each of two tasks."""
    found = []
    for task in (pose("store", "order", 1, "train"), pose("agenda", "when", 2, "train")):
        steps, answer, _ = solve(task)
        episodes = [
            writer.episode(task, steps, answer),
            writer.episode(task, [Step(steps[0].call, '{"error":"item"}')], "done"),
            writer.episode(task, (), "no idea"),
        ]
        found.append([(e, drawn_from(tiny.model, policy_row(e, 0.0), NOISE)) for e in episodes])
    return found


def ours(
    tiny: Any, groups: Any, reference: Any = None, **changes: Any
) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of this project."""
    scored = [
        Scored(episode, reward)
        for group, rewards in zip(groups, REWARDS, strict=True)
        for (episode, _), reward in zip(group, rewards, strict=True)
    ]
    settings = UpdateSettings("none", std=False, bfloat16=False, max_length=LONGEST, **changes)
    chosen = policy_rows(Experience(scored, [None] * len(scored), [], 0), settings).rows
    assert [row.by_role[ACT] for row in chosen] == pytest.approx(
        [2 / 3, -1 / 3, -1 / 3, -1 / 3, 5 / 12, -1 / 12]
    )
    off_policy = [row for group in groups for _, row in group]
    rows = [PolicyRow(o.row, c.by_role) for o, c in zip(off_policy, chosen, strict=True)]
    model = tiny.fresh()
    log = backward(model, rows, settings, reference=reference)
    return log["policy_loss"], gradients(model)


def theirs(
    tiny: Any, groups: Any, folder: Path, reference: Path | None = None, **options: Any
) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of TRL."""
    from benchmarks.trl_replay import replay_trainer

    model = tiny.fresh()
    model.config._name_or_path = str(reference)
    recorded = [
        [(row.row, reward) for (_, row), reward in zip(group, rewards, strict=True)]
        for group, rewards in zip(groups, REWARDS, strict=True)
    ]
    trainer = replay_trainer(
        model, tiny.folder, recorded, folder, frozenset({TokenRole.ACT}),
        bf16=False, max_completion_length=LONGEST, **options,
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    batch = next(iter(trainer.get_train_dataloader()))
    loss = trainer.training_step(model, batch, None)
    return float(loss), gradients(model)


@pytest.mark.parametrize(
    ("loss_type", "aggregation"),
    [("dapo", "token_mean"), ("bnpo", "token_mean"), ("dr_grpo", "dr_grpo"), ("grpo", "row_mean")],
)
def test_loss_and_gradient_equal_trls(
    tiny: Any, groups: Any, tmp_path: Path, loss_type: str, aggregation: str
) -> None:
    loss, found = ours(tiny, groups, aggregation=aggregation)
    their_loss, expected = theirs(tiny, groups, tmp_path, loss_type=loss_type)
    assert loss == pytest.approx(their_loss, rel=1e-4)
    assert norm(found) == pytest.approx(norm(expected), rel=1e-4)
    close(found, expected)


def test_clip_ranges_equal_trls(tiny: Any, groups: Any, tmp_path: Path) -> None:
    loss, found = ours(tiny, groups, clip_low=0.1, clip_high=0.28, dual_clip=4.0)
    their_loss, expected = theirs(
        tiny, groups, tmp_path, loss_type="dapo", epsilon=0.1, epsilon_high=0.28, delta=4.0
    )
    assert loss == pytest.approx(their_loss, rel=1e-4)
    close(found, expected)
    assert not math.isclose(loss, ours(tiny, groups)[0], rel_tol=1e-3)


def test_kl_equals_trls(tiny: Any, groups: Any, tmp_path: Path) -> None:
    reference = tiny.fresh()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    reference.save_pretrained(tmp_path / "reference")
    loss, found = ours(tiny, groups, reference, kl=0.1)
    # The plain k3 of GRPO; TRL's default also multiplies it by the ratio (DeepSeek-V3.2).
    plain = {"loss_type": "dapo", "beta": 0.1, "use_bias_correction_kl": False}
    their_loss, expected = theirs(tiny, groups, tmp_path, tmp_path / "reference", **plain)
    assert loss == pytest.approx(their_loss, rel=1e-4)
    close(found, expected)
    assert not math.isclose(loss, ours(tiny, groups)[0], rel_tol=1e-2)
