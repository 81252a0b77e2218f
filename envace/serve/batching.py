"""Requests of many threads decoded together: gather what waits, run it as one batch, repeat.

A batch lasts until its longest completion is done; who comes meanwhile waits for the next one. To
let requests join a batch under way is left to servers such as vLLM, behind `envace serve --upstream`.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from envace.engines import BatchingEngine, Completion, Engine, Job, Sampled, Sampling
from envace.serve.backend import Caller, CallerGoneError

Groups = list[list[Completion]]


class Batcher:
    """An engine lent to many threads; one that waits for its turn decodes for all that wait."""

    def __init__(self, engine: Engine) -> None:
        """Share `engine`; nobody else may use it meanwhile."""
        self.engine = engine
        self._waiting: list[tuple[Job, Future[Groups]]] = []
        self._line = threading.Lock()
        self._turn = threading.Lock()

    def run(self, job: Job) -> Groups:
        """Sample for a job, in whatever company."""
        ticket: Future[Groups] = Future()
        with self._line:
            self._waiting.append((job, ticket))
        with self._turn:
            if not ticket.done():  # else the thread in front decoded it too
                self._run_all()
        return ticket.result()

    def _run_all(self) -> None:
        with self._line:
            taken, self._waiting = self._waiting, []
        try:
            results = run_jobs(self.engine, [job for job, _ in taken])
        except BaseException as error:
            for _, ticket in taken:
                ticket.set_exception(error)
            return
        for (_, ticket), groups in zip(taken, results, strict=True):
            ticket.set_result(groups)


def run_jobs(engine: Engine, jobs: Sequence[Job]) -> list[Groups]:
    """Sample for every job; an engine that cannot batch them does one after the other."""
    if isinstance(engine, BatchingEngine):
        return engine.run(jobs)
    return [_told(job, engine.generate(job.prompts, job.sampling, job.n)) for job in jobs]


def _told(job: Job, groups: Groups) -> Groups:
    """The completions as the job's listener, who hears of them only now, leaves them."""
    if job.listener is None:
        return groups
    kept = []
    for number, item in enumerate(completion for group in groups for completion in group):
        heard = 0
        for token, logprob in zip(item.ids, item.logprobs, strict=True):
            heard += 1
            if not job.listener(number, Sampled(token, logprob)):
                break
        whole = heard == len(item.ids)
        kept.append(Completion(item.ids[:heard], item.logprobs[:heard], item.stopped and whole))
    return [kept[start : start + job.n] for start in range(0, len(kept), job.n)]


class CallerEngine:
    """The shared engine as one request uses it: it stops when the caller leaves."""

    def __init__(self, batcher: Batcher, caller: Caller) -> None:
        """Sample through `batcher` for `caller`."""
        self.batcher = batcher
        self.caller = caller
        self.generated_tokens = 0

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1) -> Groups:
        """Sample `n` completions for each prompt; see `Engine`.

        Raises:
            CallerGoneError: The caller left.
        """
        return self.run(Job(prompts, sampling, n))

    def run(self, job: Job) -> Groups:
        """Sample for a job; raises as `generate` does."""

        def listener(number: int, sampled: Sampled) -> bool:
            heard = job.listener is None or job.listener(number, sampled)
            return heard and self.caller.waiting()

        self._check()
        groups = self.batcher.run(Job(job.prompts, job.sampling, job.n, listener))
        self._check()
        self.generated_tokens += sum(len(completion.ids) for group in groups for completion in group)
        return groups

    def _check(self) -> None:
        if not self.caller.waiting():
            raise CallerGoneError("the caller left")
