"""64 roll-outs of two turns through vLLM and through `transformers.generate`: `lockstep.py MODEL OUTCOME`.

Runs in vLLM's own environment, started by `rollout.py`. Each roll-out has a prompt of its own
length, an act turn and a rehearsal turn; a turn ends at a full stop, a line break or the limit.
`generate` runs the roll-outs in lockstep: every turn lasts as long as its longest, and starts
from the tokens.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envace.engines import Sampling, engine

ROUNDS, ROLLOUTS, TURNS, NEW_TOKENS = 2, 64, 2, 32
SHORTEST, LONGEST = 32, 96
"""Prompt lengths."""
TEXT = "A shop sells tea, bread and lamps. The guest asks for the price of each and then buys two of them. "

Turn = Callable[[list[list[int]], int], list[list[int]]]
"""The tokens behind each prompt, for a seed."""


def main() -> None:
    """Alternate both and write the figures."""
    folder, outcome = sys.argv[1], Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    stop = frozenset(i for i in range(len(tokenizer)) if {".", "\n"} & set(tokenizer.decode([i])))
    stop |= {tokenizer.eos_token_id}
    # The prefix cache holds whole blocks; the default of 128 tokens is longer than most prompts here.
    options = {"max_model_len": 1024, "enforce_eager": True, "block_size": 32}
    sampler = engine("vllm", model, model.config.vocab_size, **options)
    print(f"{torch.get_num_threads()} threads", file=sys.stderr, flush=True)

    def vllm_turn(prompts: list[list[int]], seed: int) -> list[list[int]]:
        sampling = Sampling(1.0, NEW_TOKENS, stop, seed=seed)
        return [group[0].ids for group in sampler.generate(prompts, sampling)]

    def hf_turn(prompts: list[list[int]], seed: int) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        torch.manual_seed(seed)
        out = model.generate(
            input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
            max_new_tokens=NEW_TOKENS, eos_token_id=sorted(stop), pad_token_id=0,
        )  # fmt: skip
        return [cut(row, stop) for row in out[:, width:].tolist()]

    prompts = make_prompts(tokenizer)
    vllm_turn(prompts[:4], 0)  # the first call compiles
    ours, theirs = [], []
    for seed in range(ROUNDS):
        ours.append(rate(vllm_turn, prompts, seed))
        theirs.append(rate(hf_turn, prompts, seed))
        print(
            f"vLLM {ours[-1]:.0f} tokens/s, generate {theirs[-1]:.0f} tokens/s", file=sys.stderr, flush=True
        )
    figures = {
        "value": median(a / b for a, b in zip(ours, theirs, strict=True)),
        "vllm_tokens_per_s": median(ours),
        "generate_tokens_per_s": median(theirs),
        "rollouts": ROLLOUTS,
    }
    outcome.write_text(json.dumps(figures))


def make_prompts(tokenizer: Any) -> list[list[int]]:
    """Prompts of different lengths and beginnings."""
    rng = random.Random(0)
    long = tokenizer(TEXT * 20)["input_ids"]
    starts = [rng.randrange(len(long) - LONGEST) for _ in range(ROLLOUTS)]
    return [long[start : start + rng.randint(SHORTEST, LONGEST)] for start in starts]


def rate(turn: Turn, prompts: list[list[int]], seed: int) -> float:
    """Useful tokens a second over all turns."""
    histories, tokens = prompts, 0
    begun = time.perf_counter()
    for number in range(TURNS):
        written = turn(histories, seed * TURNS + number)
        tokens += sum(map(len, written))
        histories = [past + new for past, new in zip(histories, written, strict=True)]
    return tokens / (time.perf_counter() - begun)


def cut(ids: list[int], stop: frozenset[int]) -> list[int]:
    """Tokens up to the first stop token."""
    end = next((index for index, token in enumerate(ids) if token in stop), len(ids) - 1)
    return ids[: end + 1]


if __name__ == "__main__":
    main()
