"""vLLM in this process: continuous batching, prefix caching, weights taken over after each step."""

import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from envace.engines.base import Completion, Job, Sampled, Sampling
from envace.engines.distribution import NEGATIVE, log_distribution
from envace.engines.export import export_untied
from envace.errors import EnvaceError

PROBE_PROMPT, PROBE_TOKENS = 160, 16
"""Length of the canary's prompt, over one block of the prefix cache, and of its greedy completion."""
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.02}
"""Mean log-probability gap allowed between trainer and sampler, in nats: rounding, not other weights.

In half precision one small step of the optimizer stays below it; several missed ones do not.
"""


class VllmEngine:
    """An engine with a copy of the policy's weights.

    The copy is written to a temporary folder and loaded from there; `sync` repeats that after an
    update and lets a canary compare both sides, because a sampler with stale weights fails
    silently. Prefix caching keeps states across turns, so `Sampling.continued` is not needed.
    """

    def __init__(
        self,
        model: Any,
        vocabulary: int,
        tolerance: float | None = None,
        dtype: Literal["float32", "bfloat16"] | None = None,
        **options: Any,
    ) -> None:
        """Export the model and start vLLM.

        Args:
            model: A transformers causal LM of an architecture that vLLM knows.
            vocabulary: Number of real token ids; ids above are never sampled.
            tolerance: Largest canary gap in nats; `TOLERANCE` of the copy's precision if None.
            dtype: What the copy is held in; the model's own type if None.
            options: Passed to `vllm.LLM`, such as `gpu_memory_utilization` or `max_model_len`.

        Raises:
            EnvaceError: vLLM is not installed, or samples from another distribution than the model.
        """
        # One process: no pickled calls, and a seed fixes the order of all requests.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        try:
            from vllm import LLM
        except ImportError as error:
            raise EnvaceError(
                "vLLM is not installed in this environment",
                "pip install 'envace[vllm]' on a GPU machine; scripts/vllm_env.sh builds one for a CPU",
            ) from error
        if not torch.cuda.is_available():
            # vLLM rewinds a request's random stream after each part of a prompt; CPU generators cannot.
            options = {"enable_chunked_prefill": False} | options
        of_several = "WORLD_SIZE" in os.environ
        if of_several:
            # vLLM joins the ranks' process group, in which this copy is complete by itself.
            options = {"distributed_executor_backend": "external_launcher"} | options
        self.vocabulary = vocabulary
        self.generated_tokens = 0
        self.dtype: torch.dtype = getattr(torch, dtype) if dtype else model.dtype
        self.tolerance = TOLERANCE[self.dtype] if tolerance is None else tolerance
        self._padded = range(vocabulary, model.config.vocab_size)
        self._folder = tempfile.TemporaryDirectory(prefix="envace-sampler-")
        export_untied(model, self._folder.name, self.dtype)
        self._llm = LLM(
            model=self._folder.name,
            skip_tokenizer_init=True,
            dtype=str(self.dtype).removeprefix("torch."),
            enable_prefix_caching=True,
            # The default would report log-probabilities before temperature, top-p and forbidden ids.
            logprobs_mode="processed_logprobs",
            seed=0,
            **options,
        )
        if of_several and (finalizer := getattr(self._llm.llm_engine.engine_core, "_finalizer", None)):
            # At its end vLLM would end that group, which the ranks still need to save what they trained.
            finalizer.detach()
        self._check(model)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        """Sample `n` completions for each prompt; see `Engine`.

        Every completion has its own random stream, drawn from (seed, prompt's position, sample).
        """
        return self.run([Job(prompts, sampling, n)])[0]

    def run(self, jobs: Sequence[Job]) -> list[list[list[Completion]]]:
        """Sample for every job, together; see `BatchingEngine`."""
        groups = self._sampled(jobs)
        self.generated_tokens += sum(len(c.ids) for job in groups for group in job for c in group)
        return groups

    def sync(self, model: Any) -> float:
        """Take over the weights of `model`; see `TrainableEngine`.

        Raises:
            EnvaceError: the sampler still differs from the trainer by more than the tolerance.
        """
        export_untied(model, self._folder.name, self.dtype)
        self._llm.collective_rpc("reload_weights", kwargs={"weights_path": self._folder.name})
        self._llm.reset_prefix_cache()
        return self._check(model)

    def _sampled(self, jobs: Sequence[Job]) -> list[list[list[Completion]]]:
        """See `run`; the tokens are not counted."""
        from vllm import TokensPrompt

        engine = self._llm.llm_engine
        rows = [[_Row(job, number) for number in range(len(job.prompts) * job.n)] for job in jobs]
        under_way: dict[str, _Row] = {}
        for job, own in zip(jobs, rows, strict=True):
            for row in own:
                index, sample = divmod(row.number, job.n)
                name = str(len(under_way))
                under_way[name] = row
                prompt = TokensPrompt(prompt_token_ids=list(job.prompts[index]))
                engine.add_request(name, prompt, self._settings(job.sampling, index, sample))
        while engine.has_unfinished_requests():
            for news in engine.step():
                row, output = under_way[news.request_id], news.outputs[0]
                pairs = zip(output.token_ids, output.logprobs, strict=True)
                if not all(row.add(token, entry) for token, entry in pairs) and not news.finished:
                    engine.abort_request([news.request_id])
        return [
            [
                [
                    Completion(row.ids, row.logprobs, row.stopped, row.alternatives)
                    for row in own[i : i + job.n]
                ]
                for i in range(0, len(own), job.n)
            ]
            for job, own in zip(jobs, rows, strict=True)
        ]

    def _settings(self, sampling: Sampling, index: int, sample: int) -> Any:
        """How vLLM is to sample one completion of prompt `index`."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_new_tokens,
            stop_token_ids=sorted(sampling.stop_ids),
            # The configuration's own end token stops only if it is among the stop ids.
            ignore_eos=True,
            logit_bias=dict.fromkeys((*sampling.forbidden_ids, *self._padded), NEGATIVE),
            seed=random.Random(f"{sampling.seed}/{index}/{sample}").getrandbits(62),
            logprobs=sampling.alternatives,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )

    @torch.no_grad()
    def _check(self, model: Any) -> float:
        """The canary: log-probabilities of one greedy completion on both sides."""
        # A fixed walk through the vocabulary.
        prompt = [7 * position % self.vocabulary for position in range(PROBE_PROMPT)]
        sampling = Sampling(temperature=0.0, max_new_tokens=PROBE_TOKENS)
        (((completion,),),) = self._sampled([Job([prompt], sampling)])
        ids = torch.tensor([prompt + completion.ids], device=model.device)
        never = torch.tensor(list(self._padded), dtype=torch.long, device=model.device)
        training = model.training
        model.eval()
        logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        model.train(training)
        own = log_distribution(logits, sampling, never).gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()
        gap = float((own - torch.tensor(completion.logprobs)).abs().mean())
        if not gap <= self.tolerance:  # a gap that is no number fails too
            raise EnvaceError(
                f"the sampler's log-probabilities differ from the trainer's by {gap:.2g} nats on average "
                f"(tolerance {self.tolerance:.2g}): its weights are stale or its distribution is another",
                "report the vLLM version; raise the tolerance only for a known difference in precision",
            )
        return gap


@dataclass(eq=False)
class _Row:
    """One completion under way."""

    job: Job
    """Where it belongs."""
    number: int
    """Its number within the job."""
    ids: list[int] = field(default_factory=list)
    """Tokens so far."""
    logprobs: list[float] = field(default_factory=list)
    """Their log-probabilities."""
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    """Likeliest tokens at each place, where they were asked for."""
    stopped: bool = False
    """A stop token came."""

    def add(self, token: int, entry: dict[int, Any]) -> bool:
        """Append a token with vLLM's log-probabilities at its place; False when nobody listens any more."""
        sampled = Sampled(token, entry[token].logprob)
        if most := self.job.sampling.alternatives:
            likeliest = sorted(((e.logprob, i) for i, e in entry.items()), key=lambda e: (-e[0], e[1]))
            sampled = replace(sampled, alternatives=tuple((i, value) for value, i in likeliest[:most]))
            self.alternatives.append(sampled.alternatives)
        self.ids.append(token)
        self.logprobs.append(sampled.logprob)
        self.stopped = token in self.job.sampling.stop_ids
        return self.job.listener is None or self.job.listener(self.number, sampled)
