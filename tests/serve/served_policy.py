"""Policies for tests of the server: one whose tokens are written by a script, and real ones."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from openai import OpenAI

from envace.chat import CompactTemplate
from envace.engines import Completion, Job, Sampled, Sampling
from envace.serve.policy_backend import PolicyBackend

FIND = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
}
LIST = {"type": "function", "function": {"name": "list_all"}}
HELLO = [{"role": "user", "content": "hello"}]


def backend(template: CompactTemplate, engine: Any, **options: Any) -> PolicyBackend:
    return PolicyBackend("p", engine, template, 4096, 3, 64, **options)


def client(url: str, **options: Any) -> OpenAI:
    return OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20, **options)


def says(template: CompactTemplate, text: str) -> list[int]:
    """An answer."""
    return [*template.encode(text), min(template.end_ids)]


def calls(template: CompactTemplate, *texts: str) -> list[int]:
    """Calls, one a line."""
    return [*template.encode("\n".join(texts)), template.call_end]


Script = Callable[[list[int], int], list[int]]


class SlowEngine:
    """Writes `a` for ever, a token a step, all jobs side by side; counts who is at work."""

    def __init__(self, template: CompactTemplate, seconds: float) -> None:
        self.token = template.encode("a")[0]
        self.seconds = seconds
        self.generated_tokens = 0
        self.at_work = 0
        self.batches: list[int] = []

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1) -> Any:
        return self.run([Job(prompts, sampling, n)])[0]

    def run(self, jobs: Sequence[Job]) -> Any:
        self.batches.append(len(jobs))
        written = {
            (j, row): Completion([], [], False)
            for j, job in enumerate(jobs)
            for row in range(len(job.prompts) * job.n)
        }
        going = set(written)
        while going:
            self.at_work = len(going)
            time.sleep(self.seconds)
            for key in sorted(going):
                job, completion = jobs[key[0]], written[key]
                completion.ids.append(self.token)
                completion.logprobs.append(0.0)
                self.generated_tokens += 1
                heard = job.listener is None or job.listener(key[1], Sampled(self.token, 0.0))
                if not heard or len(completion.ids) == job.sampling.max_new_tokens:
                    going.discard(key)
        self.at_work = 0
        return [
            [[written[j, i * job.n + k] for k in range(job.n)] for i in range(len(job.prompts))]
            for j, job in enumerate(jobs)
        ]


def until(met: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Wait until something holds; whether it came to."""
    end = time.monotonic() + seconds
    while not met() and time.monotonic() < end:
        time.sleep(0.01)
    return met()
