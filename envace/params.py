"""Parameters of the workflow: `params.yaml`, validated, one model a section.

`params.yaml` is composed from the Hydra groups in `conf/`; stages read it, never `conf/`.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from envace.errors import EnvaceError
from envace.rl.settings import UpdateSettings
from envace.trajectory.jsonl import describe

FORBIDDEN = ("size", "nfiles")
"""DVC leaves parameters of these names out of the run-cache key (iterative/dvc#10296): a
changed value would silently check out the old output."""


class Section(BaseModel):
    """Base of all sections: immutable, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ScratchModel(Section):
    """The policy from scratch."""

    source: Literal["scratch"]
    """Qwen3 architecture and an own tokenizer, see `envace.models.build`."""
    vocabulary: int = Field(ge=1)
    """Tokenizer entries at most: bytes, markers and merges."""
    hidden: int = Field(multiple_of=64)
    """Width."""
    layers: int = Field(ge=2)
    """Transformer layers."""
    context: int = Field(ge=1)
    """Longest sequence in tokens."""
    copy_steps: int = Field(ge=0)
    """Copy-drill batches before anything else."""


class WheelModel(Section):
    """A pretrained policy that a Python package carries as GGUF, for machines without a model hub."""

    source: Literal["wheel"]
    """See `envace.models.wheel`."""
    package: str = Field(min_length=1)
    """Name of the package."""
    version: str = Field(min_length=1)
    """Its exact version."""
    file: str = Field(min_length=1)
    """Path of the GGUF file inside the wheel."""
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Digest the file must have."""


class HubModel(Section):
    """A pretrained policy of the Hugging Face hub, or a folder in its format."""

    source: Literal["hub"]
    """See `envace.models.hub`."""
    name: str = Field(min_length=1)
    """`owner/name` on the hub, or the path of a local folder."""
    revision: str = Field(min_length=1)
    """Branch, tag or commit on the hub; a commit makes a run repeatable."""


ModelParams = Annotated[ScratchModel | WheelModel | HubModel, Field(discriminator="source")]
"""The base policy, by where it comes from."""


class LoraParams(Section):
    """Low-rank adapters (Hu et al. 2021): W + alpha/rank · B·A, with W frozen."""

    rank: int = Field(ge=1)
    """Rows of A and columns of B."""
    alpha: int = Field(ge=1)
    """Numerator of the adapters' scale."""
    targets: tuple[str, ...] = Field(min_length=1)
    """Last names of the linear layers that get an adapter."""


class ScaleParams(Section):
    """What training and sampling run on."""

    device: Literal["auto", "cpu", "cuda"]
    """`auto` is a GPU where there is one."""
    dtype: Literal["float32", "bfloat16"]
    """What weights are held in; bfloat16 rounds away updates of a small learning rate, so full
    training needs float32. Matrix products run in bfloat16 either way."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass: a third more time, far less memory."""
    lora: LoraParams | None
    """Train adapters only; null trains everything."""
    shard: bool
    """Shard weights, gradients and optimizer over the ranks (FSDP2); otherwise each rank has all."""
    launch: str | None
    """Accelerate configuration under which `warmup` and `train` start; null for one process."""
    engine: Literal["hf", "vllm"]
    """What samples in training: the policy itself, or a copy of it in vLLM on every rank."""
    engine_options: dict[str, Any]
    """Options of that engine in `envace.engines`."""

    @model_validator(mode="after")
    def _sampled_whole(self) -> "ScaleParams":
        if self.shard and self.engine == "hf":
            raise ValueError(
                "a sharded policy cannot sample by itself, because each of its forward passes needs all "
                "ranks: set engine to vllm"
            )
        return self


class ChatParams(Section):
    """How the two roles share a conversation."""

    layout: Literal["inline", "prompted"]
    """`inline` continues the chat as the tool turn; `prompted` opens a conversation for every call."""
    sections: dict[str, bool | int]
    """Sections of `prompted` that differ from `envace.chat.prompted.PromptedLayout`."""


class SynthesizeParams(Section):
    """Numbers of synthetic trajectories by kind."""

    demonstrations: int = Field(ge=1)
    """Expert solutions of demonstrated templates."""
    glimpses: int = Field(ge=0)
    """Expert solutions of practiced templates."""
    drills: int = Field(ge=0)
    """Random calls answered by a world; environment loss only."""
    memories: int = Field(ge=0)
    """Commit-once tasks solved by reading a memory, right or wrong."""
    commits: int = Field(ge=0)
    """Commit-once tasks answered by a random commit."""
    wrong_call_rate: float = Field(ge=0, le=1)
    """Chance of an injected wrong call before an expert call."""
    broken_rate: float = Field(ge=0, le=1)
    """Share of drill calls that do not fit their tool's schema."""
    noted_rate: float = Field(ge=0, le=1)
    """Share of demonstrations with a private memory in front."""
    format_only: tuple[str, ...]
    """Worlds whose drill responses are shuffled: format without knowledge."""
    held_out_per_template: int = Field(ge=1)
    """Evaluation tasks for each template of a chained world, on held-out names."""
    held_out_commits: int = Field(ge=1)
    """Evaluation tasks of each commit-once world."""
    held_out_worlds: tuple[str, ...]
    """Worlds held out whole: evaluation tasks only."""
    sources: dict[str, dict[str, Any]]
    """Further sources of `envace.synthesis.sources.SOURCES` with their options, and `count` or `weight`."""


class FilterParams(Section):
    """The filtering funnel."""

    rules: dict[str, dict[str, Any] | None]
    """Filters of `envace.filters.FILTERS` with their options; they run in the registry's order."""
    max_loss: float = Field(ge=0, le=1)
    """The stage fails when a larger share is quarantined."""


class LeakageParams(Section):
    """Train/test leakage."""

    against: tuple[str, ...]
    """Benchmarks whose test sets are compared; `worlds` is the own held-out set."""
    policy: Literal["report", "remove", "fail"]
    """What happens to a training trajectory that matches."""


class SplitParams(Section):
    """Train/dev split by task."""

    dev_share: float = Field(gt=0, lt=0.5)
    """Share of trajectories kept for the dev loss."""


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


class Params(Section):
    """All of `params.yaml`."""

    profile: str
    """Name of the profile it was composed from."""
    seed: int = Field(ge=0)
    """Seed of everything."""
    worlds: tuple[str, ...] = Field(min_length=1)
    """Executable worlds of synthesis, training and evaluation, see `envace.worlds.WORLDS`."""
    threads: int = Field(ge=1)
    """Torch threads; part of the result, because summation order is."""
    model: ModelParams
    scale: ScaleParams
    chat: ChatParams
    synthesize: SynthesizeParams
    filter: FilterParams
    leakage: LeakageParams
    split: SplitParams
    warmup: WarmupParams
    gate: GateParams
    train: TrainParams
    evaluate: EvaluateParams


def forbidden_names(value: Any, path: str = "") -> list[str]:
    """Dotted paths of parameters whose name DVC mishandles, at any depth."""
    if isinstance(value, list):
        return [p for i, item in enumerate(value) for p in forbidden_names(item, f"{path}[{i}]")]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        found += [where] if key in FORBIDDEN else []
        found += forbidden_names(item, where)
    return found


def load_params(path: Path | str = "params.yaml") -> Params:
    """Read and validate `params.yaml`.

    Raises:
        EnvaceError: The file is absent or invalid, or names a parameter that DVC mishandles.
    """
    path = Path(path)
    if not path.is_file():
        raise EnvaceError(f"{path}: no such file", "run in the project folder")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise EnvaceError(
            f"{path}: not readable as YAML: {reason}", "mend it, or run `envace params`"
        ) from error
    found = forbidden_names(values)
    if found:
        raise EnvaceError(
            f"{path}: parameter {found[0]!r} has a name that DVC leaves out of its cache key", "rename it"
        )
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        # Pydantic puts the chosen source into the path, where the file has no such level.
        where = re.sub(r"^model\.(scratch|wheel|hub)\.", "model.", describe(error))
        raise EnvaceError(f"{path}: {where}", "see envace/params.py for every parameter") from error
