"""The in-process engine against slow, obvious sampling."""

from typing import Any

import pytest
import torch

from envace.engines import Sampling
from envace.engines.hf import HFEngine

PROMPTS = [[1, 30, 31, 32, 33, 34, 35], [1, 40], [1, 50, 51, 52], [1, 60], [1, 70, 71, 72]]
"""Ragged on purpose, and not sorted by length."""


@pytest.fixture(scope="module")
def engine(tiny: Any) -> HFEngine:
    return HFEngine(tiny.model, tiny.vocabulary)


@torch.no_grad()
def slow_logits(model: Any, ids: list[int], vocabulary: int, forbidden: frozenset[int]) -> torch.Tensor:
    """Logits behind `ids` by one whole forward pass without cache, padding or batch."""
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    logits[vocabulary:] = -torch.inf
    logits[list(forbidden)] = -torch.inf
    return logits


def test_ragged_greedy_batch_equals_one_at_a_time_without_cache(tiny: Any, engine: HFEngine) -> None:
    forbidden = frozenset({0, 1, 2, 3})
    sampling = Sampling(0.0, 80, frozenset(), forbidden)  # past one cache block of 64
    batch = engine.generate(PROMPTS, sampling)
    for prompt, (completion,) in zip(PROMPTS, batch, strict=True):
        ids = list(prompt)
        for token, logprob in zip(completion.ids, completion.logprobs, strict=True):
            logits = slow_logits(tiny.model, ids, tiny.vocabulary, forbidden)
            assert token == int(logits.argmax())
            assert logprob == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-4)
            ids.append(token)
        assert len(completion.ids) == 80 and not completion.stopped


def test_logprobs_are_those_of_the_distribution_sampled_from(tiny: Any, engine: HFEngine) -> None:
    forbidden, stop = frozenset({0, 1, 2, 3}), frozenset(range(4, 100))
    sampling = Sampling(0.7, 20, stop, forbidden, seed=3)
    lengths = set()
    for prompt, group in zip(PROMPTS, engine.generate(PROMPTS, sampling, n=4), strict=True):
        assert len(group) == 4
        for completion in group:
            ids = list(prompt)
            for token, logprob in zip(completion.ids, completion.logprobs, strict=True):
                logits = slow_logits(tiny.model, ids, tiny.vocabulary, forbidden) / 0.7
                assert logprob == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-4)
                ids.append(token)
            # The stop token is part of the completion, and nothing follows it.
            assert completion.stopped is (completion.ids[-1] in stop)
            assert not stop & set(completion.ids[:-1])
            lengths.add(len(completion.ids))
    assert len(lengths) > 3  # rows left the batch at different steps


def test_a_trainer_that_ignores_temperature_or_top_p_is_seen_in_the_gap(tiny: Any, engine: HFEngine) -> None:
    """Mean log-probability gap to a recomputation at T = 1: none for plain sampling, large for any other."""

    def gap(sampling: Sampling) -> float:
        differences = []
        for prompt, group in zip(PROMPTS, engine.generate(PROMPTS, sampling, 4), strict=True):
            for completion in group:
                ids = list(prompt)
                for token, logprob in zip(completion.ids, completion.logprobs, strict=True):
                    logits = slow_logits(tiny.model, ids, tiny.vocabulary, frozenset())
                    differences.append(abs(float(logits.log_softmax(-1)[token]) - logprob))
                    ids.append(token)
        return sum(differences) / len(differences)

    assert gap(Sampling(1.0, 8)) < 1e-5
    assert gap(Sampling(0.5, 8)) > 0.1
    assert gap(Sampling(1.0, 8, top_p=0.8)) > 0.1


def test_top_p_logprobs_are_of_the_renormalized_nucleus(tiny: Any, engine: HFEngine) -> None:
    sampling = Sampling(0.7, 10, seed=4, top_p=0.6)
    for prompt, group in zip(PROMPTS, engine.generate(PROMPTS, sampling, n=3), strict=True):
        for completion in group:
            ids = list(prompt)
            for token, logprob in zip(completion.ids, completion.logprobs, strict=True):
                chances = (slow_logits(tiny.model, ids, tiny.vocabulary, frozenset()) / 0.7).softmax(-1)
                likelier = float(chances[chances > chances[token]].sum())
                assert likelier < 0.6 + 1e-4  # the token is in the nucleus
                ordered = chances.sort(descending=True).values
                mass = ordered[: int((ordered.cumsum(0) - ordered < 0.6).sum())].sum()
                assert logprob == pytest.approx(float((chances[token] / mass).log()), abs=1e-3)
                ids.append(token)


def test_same_seed_same_tokens_and_another_seed_others(engine: HFEngine) -> None:
    first, again, other = (
        engine.generate(PROMPTS, Sampling(seed=s, max_new_tokens=12), 3) for s in (1, 1, 2)
    )
    assert first == again != other
    assert len({tuple(completion.ids) for completion in first[0]}) == 3


def test_samples_follow_the_distribution(tiny: Any, engine: HFEngine) -> None:
    n = 4000
    group = engine.generate([[1, 30]], Sampling(max_new_tokens=1, seed=5), n)[0]
    counts = torch.bincount(torch.tensor([c.ids[0] for c in group]), minlength=tiny.vocabulary)
    expected = slow_logits(tiny.model, [1, 30], tiny.vocabulary, frozenset()).softmax(-1)[: tiny.vocabulary]
    # Total variation of 4,000 honest draws from at most 512 outcomes stays well under this.
    assert float((counts / n - expected).abs().sum() / 2) < 0.2
    assert counts.sum() == n


def test_forbidden_and_padded_ids_are_never_sampled(tiny: Any) -> None:
    model = tiny.fresh()
    assert model.config.vocab_size > tiny.vocabulary  # there are padded ids to avoid
    allowed = {7, 8}
    forbidden = frozenset(range(tiny.vocabulary)) - allowed
    for temperature in (0.0, 1.0, 5.0):
        group = HFEngine(model, tiny.vocabulary).generate(
            [[1, 30]], Sampling(temperature, 20, frozenset(), forbidden), 8
        )[0]
        assert {token for completion in group for token in completion.ids} <= allowed
        # Log-probabilities are of the renormalized distribution: two choices, no lost mass.
        assert all(logprob > -20 for completion in group for logprob in completion.logprobs)


@pytest.mark.parametrize(("max_rows", "n"), [(1, 1), (2, 1), (4, 2), (3, 4)])
def test_slices_give_every_result_in_order(tiny: Any, max_rows: int, n: int) -> None:
    whole = HFEngine(tiny.model, tiny.vocabulary).generate(PROMPTS, Sampling(0.0, 6), n)
    sliced = HFEngine(tiny.model, tiny.vocabulary, max_rows).generate(PROMPTS, Sampling(0.0, 6), n)
    assert [[c.ids for c in group] for group in sliced] == [[c.ids for c in group] for group in whole]
    assert len({tuple(group[0].ids) for group in whole}) > 1


def test_cost_is_counted_and_the_mode_is_restored(tiny: Any) -> None:
    model = tiny.fresh()
    engine = HFEngine(model, tiny.vocabulary)
    for training in (True, False):
        model.train(training)
        before = engine.generated_tokens
        groups = engine.generate(PROMPTS, Sampling(1.0, 9, frozenset(range(4, 120))), 2)
        assert model.training is training
        spent = sum(len(completion.ids) for group in groups for completion in group)
        assert engine.generated_tokens - before == spent
    assert engine.generate([], Sampling()) == []
