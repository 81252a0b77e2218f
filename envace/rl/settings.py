"""Hyper-parameters of one policy update."""

import math
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, with_config

from envace.rl.advantage import Baseline

EnvironmentUpdate = Literal["grpo", "observe", "both", "none"]
Aggregation = Literal["token_mean", "row_mean", "dr_grpo"]
"""See `envace.rl.aggregate`."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class UpdateSettings:
    """Hyper-parameters of one update; the defaults are the paper's, but for `environment` and `std`."""

    environment: EnvironmentUpdate = "observe"
    """How the environment role learns; it has policy-gradient terms under `grpo` and `both`."""
    act_weight: float = 1.0
    """Weight of the act role's terms."""
    environment_weight: float = 1.0
    """λ: weight of the environment role's terms."""
    mask_untrue: bool = False
    """Leave roll-outs out whose rehearsed responses the world contradicted."""
    failed_kept: float = 1.0
    """Share of each task's zero-reward trajectories that carry loss, at least one unless it is 0;
    all of them count in the baseline, so a rare success keeps its advantage."""
    baseline: Baseline = "trajectory"
    """What counts once in a group's mean."""
    std: bool = True
    """Divide advantages by the group's spread."""
    aggregation: Aggregation = "token_mean"
    """How the tokens of one role make one loss."""
    max_length: int = 1024
    """Constant length of `dr_grpo`, in tokens."""
    clip_low: float = 0.2
    """The ratio of probabilities is clipped below at 1 − clip_low."""
    clip_high: float = 0.2
    """The ratio of probabilities is clipped above at 1 + clip_high."""
    dual_clip: float = 3.0
    """For negative advantages the objective is at least dual_clip · A."""
    kl: float = 0.0
    """Weight of the divergence from the reference model (k3); 0 needs no reference model."""
    entropy: float = 0.0
    """β: entropy bonus on act tokens, always their mean."""
    leak_penalty: float = 0.0
    """Weight of the unlikelihood of environment-only markers inside act spans, always a token mean."""
    temperature: float = 1.0
    """Temperature the roll-outs were sampled at: both sides must mean the same distribution."""
    max_sampler_gap: float = math.inf
    """Mean |log p − log p at sampling| above which an update refuses to start: the sampler had other
    weights, another temperature or a cut distribution (top-p)."""
    epochs: int = 1
    """Passes over the rows of one batch of roll-outs."""
    minibatches: int = 1
    """Optimizer steps in one pass."""
    token_budget: int = 6000
    """Tokens of one forward pass, padding included."""
    bfloat16: bool = True
    """Matrix products in bfloat16 where the device has them; weights and losses stay float32."""
