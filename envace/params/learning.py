"""Warm-up, the gate behind it, training, and what is evaluated."""

from typing import Any, Literal

from pydantic import Field

from envace.params.section import Section
from envace.rl.settings import UpdateSettings


class WarmupParams(Section):
    """Supervised warm-up on both roles."""

    steps: int = Field(ge=1)
    """Optimizer steps."""
    token_budget: int = Field(ge=1)
    """Tokens of one batch, padding included."""
    matrix_rate: float = Field(gt=0)
    """Learning rate of Muon, for hidden matrices."""
    rest_rate: float = Field(gt=0)
    """Learning rate of AdamW, for everything else."""
    environment_weight: float = Field(ge=0)
    """λ: weight of the environment role's tokens."""
    checkpoint_every: int = Field(ge=1)
    """Steps between resume points."""


class GateParams(Section):
    """What rehearsed outputs must reach before `train` starts."""

    enforced: bool
    """False only in a profile that proves the plumbing: the check reports, `train` goes on."""
    worlds: tuple[str, ...]
    """Worlds under the gate; a format-only world has nothing to agree with yet."""
    agreement: float = Field(ge=0, le=1)
    """Least share of core responses that equal the world's, per world and overall."""
    tool_agreement: float = Field(ge=0, le=1)
    """The same per tool."""
    valid: float = Field(ge=0, le=1)
    """Least share of responses that satisfy the declared schema, per tool."""
    error_agreement: float = Field(ge=0, le=1)
    """The same for refusals."""
    parses: float = Field(ge=0, le=1)
    """Least share of responses that are JSON objects or lists."""
    terminated: float = Field(ge=0, le=1)
    """Least share that the model ended itself."""
    min_rows: int = Field(ge=1)
    """Least number of core responses per tool."""
    measures: dict[str, float]
    """Least share of a tool's responses that keep a measure of `envace.quality.measures.MEASURES`, where
    it is not the registry's."""
    reported: tuple[str, ...]
    """Measures, or `drift`, that are shown and stop nothing."""
    first_calls: float = Field(gt=0, le=1)
    """Least share of first calls that the world carries out, per commit-once world."""
    drift: float = Field(gt=0)
    """Largest population stability index against the accepted run."""
    accepted: str | None
    """Rehearsed outputs of the last accepted run, a file of `RehearsedOutput` lines; null compares with
    nothing. DVC does not watch it: give another run another name."""


class TrainParams(Section):
    """EnvACE training: role-wise GRPO on rehearsed roll-outs."""

    steps: int = Field(ge=1)
    """Optimizer steps."""
    chained_tasks: int = Field(ge=1)
    """Tasks of the chained worlds a step."""
    committing_tasks: int = Field(ge=0)
    """Tasks of the commit-once worlds a step."""
    group: int = Field(ge=2)
    """Roll-outs a task."""
    branches: int = Field(ge=1)
    """Branches of each private rehearsal."""
    max_new_tokens: int = Field(ge=1)
    """Tokens at most in one episode."""
    rate: float = Field(gt=0)
    """Learning rate of AdamW."""
    answers: Literal["rehearsal", "simulator", "real", "replay"]
    """Who answers calls in roll-outs: the policy itself, a frozen copy of the warm-up, the world, or the
    expert's recorded responses."""
    reward: dict[str, Any]
    """Reward of `envace.rewards.REWARDS` by `name`, with its options."""
    update: UpdateSettings
    """The policy update."""
    observe_steps: int = Field(ge=0)
    """Supervised batches a step: revealed responses with logged streams as anchor under `observe` and
    `both`, logged streams alone under `grpo` and `none`; 0 for none at all."""
    observe_rows: int = Field(ge=1)
    """Transcripts of one observation batch."""
    observe_logged: float = Field(ge=0, le=1)
    """Share of them that are logged trajectories of the warm-up; all are where nothing was revealed."""
    observe_rate: float = Field(gt=0)
    """Learning rate of observation: Muon for matrices, a fifth of it for the rest."""
    collusion_tolerance: float = Field(ge=0)
    """Fall of agreement, while success rises, that raises the alarm."""
    checkpoint_every: int = Field(ge=1)
    """Steps between resume points."""


class EvaluateParams(Section):
    """Evaluation."""

    branches: int = Field(ge=1)
    """Branches of a private rehearsal."""
    bfcl_categories: tuple[str, ...] = Field(min_length=1)
    """Offline categories of BFCL or sets of them: default, offline, non_live, live, multi_turn, …"""
    bfcl_limit: int = Field(ge=0)
    """Tasks per BFCL category; 0 means all."""
    tau2_domains: tuple[Literal["mock", "airline", "retail", "telecom"], ...] = Field(min_length=1)
    """Domains of τ²."""
    tau2_split: Literal["base", "train", "test"]
    """Its tasks; mock has the base split alone."""
    user: str = Field(min_length=1)
    """Who plays the user: `scripted`, or the model behind `ENVACE_USER_URL`."""
    judge: str
    """Model behind `ENVACE_JUDGE_URL` that judges; empty where no benchmark needs one."""
    tau2_limit: int = Field(ge=0)
    """Tasks per τ² domain; 0 means all."""
    trials: int = Field(ge=1)
    """How often every task of BFCL and τ² is tried."""
    served_tokens: int = Field(ge=1)
    """Tokens at most in one served reply."""
