"""A multi-turn roll-out computes every token once, and writes what it would write without the store."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from envace.engines import Sampling
from envace.engines.hf import HFEngine
from envace.errors import EnvaceError
from envace.rl.optimizer import MuonAdamW

PROMPTS = [[1, 30, 31, 32, 33, 34, 35, 36, 37], [1, 40], [1, 50, 51, 52], [1, 60]]
STOP = frozenset(range(4, 60))
FORBIDDEN = frozenset({0, 1, 2, 3})
RESPONSES = [[7, 8, 9], [70], [71, 72, 73, 74, 75, 76], []]
"""What somebody else appends to each row between turns; nothing at a change of role."""


def roll_out(engine: HFEngine, temperature: float = 0.0, turns: int = 4) -> list[list[Any]]:
    """Ragged rows over several turns; every second turn is the other role's, with nothing in between."""
    histories = [list(prompt) for prompt in PROMPTS]
    log = []
    for turn in range(turns):
        sampling = Sampling(temperature, 12, STOP, FORBIDDEN, seed=turn, continued=True)
        for row, (completion,) in enumerate(engine.generate(histories, sampling)):
            log.append((completion.ids, completion.logprobs))
            histories[row] += completion.ids + (RESPONSES[row] if turn % 2 else [])
    return log


def assert_same(left: list[Any], right: list[Any]) -> None:
    for (ids, logprobs), (others, other_logprobs) in zip(left, right, strict=True):
        assert ids == others
        assert logprobs == pytest.approx(other_logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_same_tokens_and_nothing_computed_twice(tiny: Any, temperature: float) -> None:
    kept, recomputing = (HFEngine(tiny.model, tiny.vocabulary, kept_tokens=k) for k in (10_000, 0))
    with_store, without = roll_out(kept, temperature), roll_out(recomputing, temperature)
    assert_same(with_store, without)
    assert len({len(ids) for ids, _ in with_store}) > 1  # rows left the batch at different steps
    assert kept.recomputed_tokens == 0
    # The last token of a turn was sampled but not fed: it is prefilled with what follows it.
    between = sum(1 + (len(response) if turn % 2 else 0) for turn in range(3) for response in RESPONSES)
    assert kept.prefilled_tokens == sum(map(len, PROMPTS)) + between
    assert recomputing.recomputed_tokens == recomputing.prefilled_tokens - kept.prefilled_tokens > 100
    assert kept.generated_tokens == recomputing.generated_tokens == sum(len(ids) for ids, _ in without)


def test_a_budget_too_small_costs_time_but_changes_nothing(tiny: Any) -> None:
    short = HFEngine(tiny.model, tiny.vocabulary, kept_tokens=40)
    assert_same(roll_out(short), roll_out(HFEngine(tiny.model, tiny.vocabulary)))
    assert 0 < short.store.held <= 40
    assert short.recomputed_tokens > 0


def test_samples_of_one_prompt_go_on_apart(tiny: Any) -> None:
    engine = HFEngine(tiny.model, tiny.vocabulary)
    sampling = Sampling(1.0, 9, STOP, FORBIDDEN, seed=2, continued=True)
    prompt = PROMPTS[0]
    branches = [prompt + completion.ids for completion in engine.generate([prompt], sampling, 6)[0]]
    # The prompt is held once for all of them.
    distinct = {tuple(ids[:k]) for ids in branches for k in range(1, len(ids))}
    assert engine.store.held == len(distinct) < sum(len(ids) - 1 for ids in branches)
    continued = engine.generate(branches, Sampling(0.0, 9), 2)
    fresh = HFEngine(tiny.model, tiny.vocabulary).generate(branches, Sampling(0.0, 9), 2)
    assert [[c.ids for c in group] for group in continued] == [[c.ids for c in group] for group in fresh]
    assert engine.recomputed_tokens == 0


def test_a_single_generation_keeps_nothing_and_its_repetition_is_counted(tiny: Any) -> None:
    engine = HFEngine(tiny.model, tiny.vocabulary)
    engine.generate(PROMPTS, Sampling(1.0, 9), 2)
    assert engine.store.held == engine.recomputed_tokens == 0
    engine.generate(PROMPTS[:1], Sampling(1.0, 9))
    assert engine.recomputed_tokens == len(PROMPTS[0])


def adamw(model: Any) -> None:
    torch.optim.AdamW(model.parameters(), lr=0.05).step()


def muon(model: Any) -> None:
    MuonAdamW(model, matrices=0.5, rest=0.05).step(1.0)


def loaded(model: Any) -> None:
    model.load_state_dict({name: weight * 1.5 for name, weight in model.state_dict().items()})


@pytest.mark.parametrize("change", [adamw, muon, loaded])
def test_states_of_former_weights_are_never_used(tiny: Any, change: Callable[[Any], None]) -> None:
    model = tiny.fresh()
    engine = HFEngine(model, tiny.vocabulary)
    before = roll_out(engine)
    model(input_ids=torch.tensor(PROMPTS[:1]), labels=torch.tensor(PROMPTS[:1])).loss.backward()
    change(model)
    after = roll_out(engine)
    assert after != before
    assert_same(after, roll_out(HFEngine(model, tiny.vocabulary)))


def test_sync_forgets_after_a_change_that_nothing_counts(tiny: Any) -> None:
    model = tiny.fresh()
    engine = HFEngine(model, tiny.vocabulary)
    roll_out(engine)
    for weight in model.parameters():
        weight.data.mul_(1.5)
    assert engine.sync(model) == 0.0
    assert_same(roll_out(engine), roll_out(HFEngine(model, tiny.vocabulary)))
    with pytest.raises(EnvaceError, match="another model"):
        engine.sync(tiny.model)
