"""Requests of many clients in one batch, over a real model: the same answers as alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from served_policy import HELLO, SlowEngine, backend, client

from envace.engines import Job, Sampling
from envace.engines.hf import HFEngine
from envace.serve.batching import Batcher
from envace.serve.runner import served


class Held(HFEngine):
    """The engine, which holds its first batch back until it is let go; counts jobs a batch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.go = threading.Event()
        self.batches: list[int] = []

    def run(self, jobs: Any) -> Any:
        self.go.wait(10)
        self.batches.append(len(jobs))
        return super().run(jobs)


ASKED = [
    {
        "model": "p@parallel-2" if k % 4 == 3 else "p",
        "messages": [{"role": "user", "content": f"order {k} of {'them ' * k}"}],
        "seed": k % 4,
        "temperature": (0, 0.7, 1)[k % 3],
        "max_tokens": 8 + k,
        "n": 1 + k % 2,
        "logprobs": True,
        "top_logprobs": 3,
    }
    for k in range(12)
]


def summary(reply: Any) -> Any:
    choices = [(c.message.content, [t.token for t in c.logprobs.content]) for c in reply.choices]
    return choices, [c.finish_reason for c in reply.choices], reply.usage.model_dump()


def test_company_changes_no_answer(tiny: Any) -> None:
    engine = Held(tiny.model, tiny.vocabulary)
    with served(backend(tiny.template, engine)) as url, client(url) as made:
        with ThreadPoolExecutor(len(ASKED)) as pool:
            futures = [pool.submit(made.chat.completions.create, **fields) for fields in ASKED]
            threading.Timer(0.5, engine.go.set).start()
            together = [future.result() for future in futures]
        assert max(engine.batches) >= 8 and sum(engine.batches) < 3 * len(ASKED)
        for fields, found in zip(ASKED, together, strict=True):
            alone = made.chat.completions.create(**fields)
            assert summary(found) == summary(alone)
            for left, right in zip(found.choices, alone.choices, strict=True):
                for one, other in zip(left.logprobs.content, right.logprobs.content, strict=True):
                    assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
                    assert len(one.top_logprobs) == 3
        assert set(engine.batches[-1:]) == {1}


def test_without_a_seed_answers_differ_and_with_one_they_do_not(tiny: Any) -> None:
    engine = HFEngine(tiny.model, tiny.vocabulary)
    with served(backend(tiny.template, engine)) as url, client(url) as made:

        def say(**fields: Any) -> str:
            reply = made.chat.completions.create(model="p", messages=HELLO, max_tokens=12, **fields)
            return reply.choices[0].message.content

        assert len({say() for _ in range(4)}) > 1
        for seed in (0, -1, 2**70):
            assert say(seed=seed) == say(seed=seed)


def test_a_stream_of_a_real_model_is_its_answer(tiny: Any) -> None:
    engine = HFEngine(tiny.model, tiny.vocabulary)
    with served(backend(tiny.template, engine)) as url, client(url) as made:
        for seed in range(6):
            fields: Any = {"model": "p", "messages": HELLO, "max_tokens": 30, "seed": seed}
            whole = made.chat.completions.create(**fields).choices[0]
            parts = list(made.chat.completions.create(**fields, stream=True))
            text = "".join(c.choices[0].delta.content or "" for c in parts)
            assert text == whole.message.content and parts[-1].choices[0].finish_reason == whole.finish_reason


def test_a_failure_reaches_everybody_who_waited_and_the_next_one_works(template: Any) -> None:
    engine = SlowEngine(template, 0.01)
    batcher = Batcher(engine)

    def broken(number: int, sampled: Any) -> bool:
        raise MemoryError("no room")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(batcher.run, Job([[1]], Sampling(max_new_tokens=20)))
        while not engine.at_work:
            pass
        rest = [pool.submit(batcher.run, Job([[1]], Sampling(), 1, heard)) for heard in (broken, None)]
        assert len(first.result()[0][0].ids) == 20
        for future in rest:
            with pytest.raises(MemoryError, match="no room"):
                future.result()
    assert len(batcher.run(Job([[1]], Sampling(max_new_tokens=2)))[0][0].ids) == 2
    assert engine.batches[0] == 1
