"""Runs in vLLM's own environment: `python inside_vllm.py POLICY_FOLDER VOCABULARY OUTCOME`.

One start of vLLM answers all questions; `test_vllm.py` reads the outcome and judges it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from envace.engines import Completion, Engine, Job, Sampling, engine
from envace.engines import vllm as subject
from envace.engines.distribution import log_distribution
from envace.errors import EnvaceError
from envace.models.build import load

PROMPTS = [[1, 30, 31, 32, 33, 34, 35], [1, 40], [1, 50, 51, 52], [1, 60], [1, 70, 71, 72]]
FORBIDDEN = frozenset({0, 1, 2, 3})
GREEDY = Sampling(0.0, 60, frozenset(range(100, 130)), FORBIDDEN)
SHAPED = Sampling(0.7, 20, frozenset(range(100, 130)), FORBIDDEN, seed=3, top_p=0.8)
"""Temperature, top-p, stop and forbidden ids all at once."""


def main() -> None:
    folder, vocabulary, outcome = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    model = load(folder)
    sampler = engine(
        "vllm", model, vocabulary, enforce_eager=True, max_model_len=1024, max_num_batched_tokens=1024
    )
    hf = engine("hf", model, vocabulary)
    said: dict[str, Any] = {"first_gap": sampler.sync(model)}

    ours, theirs = (flat(each.generate(PROMPTS, GREEDY)) for each in (sampler, hf))
    said["greedy"] = [completion.ids for completion in ours]
    said["greedy_equal"] = [c.ids for c in ours] == [c.ids for c in theirs]
    said["greedy_gap"] = gap(ours, theirs)
    before = sampler.generated_tokens
    shaped = sampler.generate(PROMPTS, SHAPED, 6)
    said["counted"] = sampler.generated_tokens - before == sum(len(c.ids) for c in flat(shaped))
    said["shaped_gap"] = recomputed_gap(model, vocabulary, PROMPTS, shaped, SHAPED)
    # More prompt tokens than one step takes.
    long = [[4 + (7 * start + i) % 400 for i in range(300)] for start in range(8)]
    said["long_gap"] = recomputed_gap(model, vocabulary, long, sampler.generate(long, SHAPED), SHAPED)
    # What a trainer would see that ignores the shaping: the failure the test must be able to see.
    plain = Sampling(forbidden_ids=FORBIDDEN)
    said["ignored_gap"] = recomputed_gap(model, vocabulary, PROMPTS, shaped, plain)
    said["stops"] = [c.stopped for c in flat(shaped)]
    said["stop_is_last"] = all(
        c.stopped is (c.ids[-1] in SHAPED.stop_ids) and not SHAPED.stop_ids & set(c.ids[:-1])
        for c in flat(shaped)
    )
    hot = flat(sampler.generate([[1, 30]], Sampling(2.0, 100, frozenset(), FORBIDDEN), 20))
    said["drawn"] = sorted({token for completion in hot for token in completion.ids})

    sampled = Sampling(1.0, 12, seed=1)
    first, again = sampler.generate(PROMPTS, sampled, 3), sampler.generate(PROMPTS, sampled, 3)
    said["seed_repeats"] = [c.ids for c in flat(first)] == [c.ids for c in flat(again)]
    said["seeds_differ"] = first != sampler.generate(PROMPTS, replace(sampled, seed=2), 3)
    said["samples_differ"] = len({tuple(c.ids) for c in first[0]}) == 3

    said["company"], said["heard"], said["cut"] = company(sampler)

    said["stale"] = {name: fault(sampler, model) for name, fault in FAULTS.items()}

    change(model, 9)
    said["synced_gap"] = sampler.sync(model)
    ours, theirs = (flat(each.generate(PROMPTS, GREEDY)) for each in (sampler, hf))
    said["synced"] = [completion.ids for completion in ours]
    said["synced_equal"] = [c.ids for c in ours] == [c.ids for c in theirs]
    outcome.write_text(json.dumps(said))


def company(sampler: Any) -> tuple[bool, bool, list[tuple[int, bool]]]:
    """Jobs of different kinds in one batch, beside each of them alone; one is listened to and cut short."""
    heard: list[tuple[int, int]] = []

    def listener(number: int, sampled: Any) -> bool:
        heard.append((number, sampled.token))
        return len([n for n, _ in heard if n == number]) < 4

    kinds = [GREEDY, SHAPED, replace(SHAPED, seed=8, temperature=1.3, alternatives=3)]
    alone = [sampler.generate(PROMPTS, kind, 2) for kind in kinds]
    free = replace(GREEDY, stop_ids=frozenset())
    *together, cut = sampler.run(
        [*(Job(PROMPTS, kind, 2) for kind in kinds), Job(PROMPTS, free, 1, listener)]
    )
    tokens = [(number, token) for number, c in enumerate(flat(cut)) for token in c.ids]
    same = all(
        [c.ids for c in flat(a)] == [c.ids for c in flat(b)] for a, b in zip(alone, together, strict=True)
    )
    places = [place for c in flat(together[2]) for place in c.alternatives]
    ordered = all(len(p) == 3 and list(p) == sorted(p, key=lambda e: (-e[1], e[0])) for p in places)
    return (
        same and ordered and bool(places),
        sorted(heard) == sorted(tokens),
        [(len(c.ids), c.stopped) for c in flat(cut)],
    )


def flat(groups: list[list[Completion]]) -> list[Completion]:
    return [completion for group in groups for completion in group]


def gap(ours: list[Completion], theirs: list[Completion]) -> float:
    pairs = [p for a, b in zip(ours, theirs, strict=True) for p in zip(a.logprobs, b.logprobs, strict=False)]
    return max(abs(a - b) for a, b in pairs)


@torch.no_grad()
def recomputed_gap(
    model: Any, vocabulary: int, prompts: list[list[int]], groups: list[list[Completion]], sampling: Sampling
) -> float:
    """Largest difference to the log-probabilities of the model under `sampling`, without any cache."""
    never = torch.tensor([*sampling.forbidden_ids, *range(vocabulary, model.config.vocab_size)])
    worst = 0.0
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            ids = torch.tensor([prompt + completion.ids])
            logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
            wanted = log_distribution(logits, sampling, never).gather(1, ids[0, len(prompt) :, None])[:, 0]
            worst = max(worst, float((wanted - torch.tensor(completion.logprobs)).abs().max()))
    return worst


@torch.no_grad()
def change(model: Any, seed: int) -> None:
    """A step as large as a bad optimizer's."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight += 0.05 * torch.randn(weight.shape, generator=generator)


def error_of(sampler: Any, model: Any) -> str:
    change(model, 5)
    try:
        sampler.sync(model)
    except EnvaceError as error:
        return str(error)
    return ""


@contextmanager
def replaced(owner: Any, name: str, stand_in: Callable[..., Any]) -> Iterator[None]:
    former = getattr(owner, name)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, former)


def never_reloaded(sampler: Any, model: Any) -> str:
    with replaced(sampler._llm, "collective_rpc", lambda *_, **__: None):
        return error_of(sampler, model)


def cache_kept(sampler: Any, model: Any) -> str:
    with replaced(sampler._llm, "reset_prefix_cache", lambda: None):
        return error_of(sampler, model)


def tied_export(sampler: Any, model: Any) -> str:
    """The export that transformers makes by itself: no output matrix in the file."""
    with replaced(subject, "export_untied", lambda policy, folder, dtype: policy.save_pretrained(folder)):
        return error_of(sampler, model)


FAULTS: dict[str, Callable[[Engine, Any], str]] = {
    "never_reloaded": never_reloaded,
    "cache_kept": cache_kept,
    "tied_export": tied_export,
}


if __name__ == "__main__":
    main()
