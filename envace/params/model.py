"""The base policy, and what it is trained on."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from envace.params.section import Section


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


class RevisionModel(Section):
    """The policy that an earlier version of this project trained, to go on from."""

    source: Literal["revision"]
    """See `envace.models.revision`."""
    revision: str = Field(min_length=1)
    """Tag, such as `policy@v0.0.2`, or commit."""


ModelParams = Annotated[ScratchModel | WheelModel | HubModel | RevisionModel, Field(discriminator="source")]
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
    training needs float32. Matrix products run in bfloat16 either way, on a device that has them."""
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
