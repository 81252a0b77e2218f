"""The tiny policy from scratch: Qwen3 architecture, own tokenizer, copy drills; loading and saving of any."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from envace.chat import tokenizer as tokenizers
from envace.errors import EnvaceError
from envace.models import attention
from envace.models.adapt import merged_state
from envace.models.induction import initialize
from envace.params import ScratchModel
from envace.progress import track
from envace.rl.batch import Batch
from envace.rl.loss import token_logprobs
from envace.rl.optimizer import MuonAdamW, warmup_then_linear

COPY_ROWS = 40
"""Rows of one copy-drill batch."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What goes with a policy from folder to folder, as far as it is there."""


def scratch(params: ScratchModel, seed: int, folder: Path) -> dict[str, Any]:
    """Write the model folder of a new small policy that can copy; see `envace.models.sources.Source`."""
    from envace.synthesis.corpus import tokenizer_corpus

    model, vocabulary = build(
        tokenizer_corpus(seed), params.vocabulary, params.hidden, params.layers, params.context, seed, folder
    )
    copied = copy_drills(model, vocabulary, params.copy_steps, seed)
    model.save_pretrained(folder)
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"parameters": count, "vocabulary": vocabulary, "copy": copied}


def build(
    corpus: Iterable[str], vocabulary: int, hidden: int, layers: int, context: int, seed: int, folder: Path
) -> tuple[Any, int]:
    """Train the tokenizer, build the model, and save the tokenizer to `folder`.

    Args:
        corpus: Texts of the kind the model will read and write.
        vocabulary: Tokenizer entries at most: bytes, markers and merges.
        hidden: Width; a multiple of 64 (head dimension 32, two queries a key-value head).
        layers: Transformer layers, at least 2.
        context: Longest sequence in tokens.
        seed: Seed of the random weights.
        folder: Where the tokenizer goes.

    Returns:
        The model and the number of real token ids.
    """
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    tokenizer = tokenizers.train(corpus, vocabulary)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=tokenizers.MARKERS[tokenizers.PAD],
        eos_token=tokenizers.MARKERS[tokenizers.END],
        model_max_length=context,
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    size = tokenizer.get_vocab_size()
    config = Qwen3Config(
        vocab_size=-(-size // 64) * 64,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        head_dim=32,
        max_position_embeddings=context,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        pad_token_id=tokenizers.PAD,
        eos_token_id=tokenizers.END,
        bos_token_id=tokenizers.SYSTEM,
    )
    model = Qwen3ForCausalLM(config)
    model.set_attn_implementation(attention.NAME)
    initialize(model, seed)
    return model, size


def copy_drills(model: Any, vocabulary: int, steps: int, seed: int) -> float:
    """Train on random tokens repeated; returns the mean probability of the last batch's copies.

    Random sequences carry nothing to memorize, so all that is learned is copying.
    """
    optimizer = MuonAdamW(model, matrices=0.02, rest=4e-3)
    generator = torch.Generator().manual_seed(seed)
    copied = 0.0
    for step in track(range(steps), "copy drills"):
        length = int(torch.randint(6, 24, (1,), generator=generator))
        shape = (COPY_ROWS, length)
        once = torch.randint(len(tokenizers.MARKERS), vocabulary, shape, generator=generator)
        ids = torch.cat([once, once, once], 1)[:, : 2 * length + length // 2]
        batch = Batch(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool))
        selected = torch.zeros(COPY_ROWS, ids.shape[1] - 1, dtype=torch.bool)
        selected[:, length:] = True
        logprobs, _ = token_logprobs(model, batch, selected)
        (-logprobs.mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        # The decay matters: what the warm-up reaches varies less with the seed.
        optimizer.step(warmup_then_linear(step, steps, warmup=50, hold=0.5, floor=0.05))
        copied = float(logprobs.detach().exp().mean())
    return copied


def resolve(device: str) -> torch.device:
    """The device that `scale.device` names; under several ranks, `cuda` is the rank's own.

    Raises:
        EnvaceError: A GPU is asked for and none is found.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise EnvaceError("scale.device: cuda, but no GPU is found", "use auto or cpu")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def load(folder: Path | str, device: str = "cpu", dtype: str = "float32") -> Any:
    """Load a saved policy for training or sampling.

    Args:
        folder: Model folder.
        device: `auto`, `cpu` or `cuda`, see `resolve`.
        dtype: What the weights are held in: `float32` or `bfloat16`.
    """
    from transformers import AutoModelForCausalLM

    place = resolve(device)
    # Explicit products are faster than fused attention on a CPU.
    implementation = attention.NAME if place.type == "cpu" else "sdpa"
    # With a device map weights go to a GPU one by one, and eight ranks need no eight copies in main memory.
    device_map = None if place.type == "cpu" else {"": place}
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation=implementation, device_map=device_map
    )


def save(model: Any, source: Path, folder: Path, state: Mapping[str, torch.Tensor] | None = None) -> None:
    """Save a policy, adapters merged, with the tokenizer of the folder it came from.

    Args:
        model: The policy.
        source: Folder with its tokenizer.
        folder: Where it goes.
        state: Its whole weights where `model` holds a shard, see `envace.rl.distributed.full_state`.
    """
    model.save_pretrained(folder, state_dict=merged_state(model, state))
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copy(source / name, folder / name)
