"""Shared by all tests: one torch thread, one tokenizer, one tiny random policy."""

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("envace", deadline=None)
settings.load_profile("envace")

from envace.chat import CompactTemplate, HermesTemplate  # noqa: E402 - after the thread count is set
from envace.engines import Completion, Sampling  # noqa: E402
from envace.rollout.episode import Episode, Notes, parse_episode  # noqa: E402
from envace.trajectory import Message, Task  # noqa: E402
from envace.worlds.tasks import Step, solve  # noqa: E402


@dataclass(frozen=True)
class Tiny:
    """A random Qwen3 of two layers and width 64 with a tokenizer trained on the worlds."""

    folder: Path
    template: CompactTemplate
    model: Any
    vocabulary: int

    def fresh(self) -> Any:
        """A copy of the model that a test may train."""
        return copy.deepcopy(self.model)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    import torch

    from envace.models.build import build
    from envace.synthesis.corpus import tokenizer_corpus

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    model, vocabulary = build(
        tokenizer_corpus(1), vocabulary=512, hidden=64, layers=2, context=1024, seed=0, folder=folder
    )
    return Tiny(folder, CompactTemplate(folder), model, vocabulary)


@pytest.fixture(scope="session")
def template(tiny: Tiny) -> CompactTemplate:
    return tiny.template


CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOOL_MARKERS = (
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
)  # fmt: skip
QWEN_UNITS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="session")
def chatml(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., HermesTemplate]:
    """Makes Hermes templates over a small tokenizer with Qwen's markers, or with ChatML's alone.

    As in Qwen's, the tool markers are added tokens that are not marked special.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    folders = {}
    for tools in (True, False):
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(QWEN_UNITS), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
        tokenizer.decoder = decoders.ByteLevel()
        corpus = ['system\nuser\nassistant\n{"name": "look", "arguments": {"city": "Rome"}}\n\n{}\n'] * 20
        tokenizer.train_from_iterator(
            corpus,
            trainers.BpeTrainer(
                vocab_size=330,
                special_tokens=list(CHATML),
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        )
        if tools:
            tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TOOL_MARKERS])
        folders[tools] = tmp_path_factory.mktemp("chatml")
        tokenizer.save(str(folders[tools] / "tokenizer.json"))

    def make(tools: bool = True, **options: Any) -> HermesTemplate:
        return HermesTemplate(folders[tools], **options)

    return make


class ScriptedEngine:
    """An engine that gets its tokens from a function of (prompt, sample number).

    It keeps the engine's promises: it cuts behind the first stop token and at the limit,
    counts, and fails a test whose script writes a forbidden token.
    """

    def __init__(self, script: Callable[[list[int], int], list[int]]) -> None:
        self.script = script
        self.generated_tokens = 0
        self.seen: list[list[int]] = []
        self.samplings: list[Sampling] = []

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, n: int = 1
    ) -> list[list[Completion]]:
        self.seen += [list(prompt) for prompt in prompts]
        self.samplings.append(sampling)
        return [[self._one(list(prompt), sample, sampling) for sample in range(n)] for prompt in prompts]

    def _one(self, prompt: list[int], sample: int, sampling: Sampling) -> Completion:
        ids: list[int] = []
        for token in self.script(prompt, sample)[: sampling.max_new_tokens]:
            assert token not in sampling.forbidden_ids
            ids.append(token)
            if token in sampling.stop_ids:
                break
        self.generated_tokens += len(ids)
        return Completion(ids, [-0.5] * len(ids), bool(ids) and ids[-1] in sampling.stop_ids)


@pytest.fixture(scope="session")
def scripted() -> type[ScriptedEngine]:
    return ScriptedEngine


@dataclass(frozen=True)
class Writer:
    """Writes the episodes that a policy could have sampled."""

    template: CompactTemplate

    def sampled(self, task: Task, steps: Sequence[Step], answer: str | None, notes: Notes = ()) -> list[int]:
        """Tokens behind the prompt: every call with its response, then the answer, if any."""
        turns: list[Message] = []
        for step in steps:
            turns.append(Message(role="assistant", tool_calls=(step.call,)))
            turns.append(Message(role="tool", name=step.call.name, content=step.response))
        if answer is not None:
            turns.append(Message(role="assistant", content=answer))
        prompt = (*task.messages, *notes)
        return self.template.render([*prompt, *turns], task.tools).ids[len(self.prompt(task, notes)) :]

    def prompt(self, task: Task, notes: Notes = ()) -> list[int]:
        return self.template.render((*task.messages, *notes), task.tools).ids

    def episode(
        self, task: Task, steps: Sequence[Step], answer: str | None, notes: Notes = (), logprob: float = -1.0
    ) -> Episode:
        ids = self.sampled(task, steps, answer, notes)
        completion = Completion(ids, [logprob] * len(ids), stopped=True)
        return parse_episode(self.template, task, notes, self.prompt(task, notes), completion)

    def expert(self, task: Task, notes: Notes = ()) -> Episode:
        steps, answer, _ = solve(task)
        return self.episode(task, steps, answer, notes)


@pytest.fixture(scope="session")
def writer(template: CompactTemplate) -> Writer:
    return Writer(template)
