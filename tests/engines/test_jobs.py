"""Several requests in one batch: each gets what it would have got alone."""

from itertools import chain
from typing import Any

import pytest

from envace.engines import Completion, Job, Sampled, Sampling
from envace.engines.hf import HFEngine

PROMPTS = [[9, 10, 11, 12], [20, 21], [30, 31, 32, 33, 34, 35, 36], [40]]
STOP = frozenset(range(100, 140))


@pytest.fixture(scope="module")
def engine(tiny: Any) -> HFEngine:
    return HFEngine(tiny.fresh(), tiny.vocabulary)


def ids(groups: list[list[Completion]]) -> list[list[list[int]]]:
    return [[completion.ids for completion in group] for group in groups]


JOBS = [
    Job(PROMPTS[:2], Sampling(1.0, 12, STOP, seed=1), n=2),
    Job(PROMPTS[2:3], Sampling(0.0, 5, seed=1)),
    Job(PROMPTS[1:], Sampling(0.7, 9, STOP, frozenset({5, 6}), seed=3, top_p=0.8)),
    Job(PROMPTS[3:], Sampling(1.0, 30, seed=1), n=3),
]


@pytest.mark.parametrize("most", [512, 5, 1])
def test_company_changes_nothing(tiny: Any, engine: HFEngine, most: int) -> None:
    together = HFEngine(engine.model, tiny.vocabulary, max_rows=most).run(JOBS)
    for job, found in zip(JOBS, together, strict=True):
        alone = HFEngine(engine.model, tiny.vocabulary, max_rows=most).generate(
            job.prompts, job.sampling, job.n
        )
        assert ids(found) == ids(alone)
        for left, right in zip(chain(*found), chain(*alone), strict=True):
            assert left.stopped == right.stopped
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)


def test_a_listener_hears_every_token_and_may_end_one_completion(engine: HFEngine) -> None:
    heard: dict[int, list[int]] = {}

    def listener(number: int, sampled: Sampled) -> bool:
        heard.setdefault(number, []).append(sampled.token)
        return number != 1 or len(heard[number]) < 3

    job = Job(PROMPTS[:2], Sampling(1.0, 8, seed=5), n=2, listener=listener)
    ((found, other),) = engine.run([job, JOBS[1]])[:1]
    free = engine.generate(job.prompts, job.sampling, job.n)
    rows = [*found, *other]
    assert heard == {number: row.ids for number, row in enumerate(rows)}
    assert [len(row.ids) for row in rows] == [8, 3, 8, 8]
    assert not rows[1].stopped
    # The others draw fewer numbers beside it, but what was drawn together is the same.
    assert rows[1].ids == free[0][1].ids[:3]


def test_alternatives_are_the_likeliest_and_agree_with_what_was_sampled(engine: HFEngine) -> None:
    (((found,),),) = engine.run([Job(PROMPTS[:1], Sampling(0.0, 6, alternatives=4))])
    assert len(found.alternatives) == len(found.ids) == 6
    for token, logprob, places in zip(found.ids, found.logprobs, found.alternatives, strict=True):
        assert places[0] == (token, pytest.approx(logprob))
        values = [value for _, value in places]
        assert len(places) == 4 and values == sorted(values, reverse=True)
    assert engine.generate(PROMPTS[:1], Sampling(0.0, 6))[0][0].alternatives == []
