"""What an episode gives to training: every sampled token once, behind the tokens it was sampled behind."""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from envace.chat import TokenRole
from envace.chat.prompted import PromptedLayout
from envace.chat.tokenizer import ACT as ACT_MARK
from envace.chat.tokenizer import END, ENV
from envace.engines import Completion, Sampling
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Episode, Limits, Row
from envace.rollout.rehearse import rehearse_episodes
from envace.rollout.responders import RehearsalResponder, SimulatorResponder
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose

TASK = pose("store", "order", 3, "train")
CALLS = [ToolCall(name="get_item", arguments={"item": name}) for name in ("bobo", "dada", "lulu")]
RESPONSES = ("{\n0}", "{\n1}", "{\n2}")
CONTEXT, ACT, ENVIRONMENT = (int(role) for role in TokenRole)
VARIANTS: dict[str, dict[str, Any] | None] = {
    "compact": None,
    "few markers": {"tools": False},
    "empty thought kept": {},
    "empty thought leaves": {"history": "qwen"},
    "thought kept": {"thinking": "written"},
    "thought leaves": {"thinking": "written", "history": "stripped"},
}
FORKING = {"empty thought leaves", "thought leaves"}


def sampled(template: Any, *parts: str) -> list[int]:
    """Markers as one token each, text letter by letter: a policy may sample what no tokenizer gives."""
    ids: list[int] = []
    for part in parts:
        marker = template.tokenizer.token_to_id(part)
        letters = [token for letter in part for token in template.encode(letter)]
        ids += letters if marker is None else [marker]
    return ids


def value(token: int) -> float:
    """A log-probability that tells which token it belongs to."""
    return -(token + 1) / 1000


class Recorder:
    """An engine that gives prepared tokens, one completion after another."""

    def __init__(self, turns: list[list[int]]) -> None:
        self.turns: Iterator[list[int]] = iter(turns)
        self.generated_tokens = 0
        self.seen: list[tuple[list[int], list[int]]] = []

    def generate(self, prompts: Any, sampling: Sampling, n: int = 1) -> list[list[Completion]]:
        done = []
        for prompt in prompts:
            ids = next(self.turns)
            assert not sampling.forbidden_ids & set(ids)
            self.seen.append((list(prompt), ids))
            done.append([Completion(ids, [value(token) for token in ids], ids[-1] in sampling.stop_ids)])
        return done


Roll = Callable[..., tuple[Episode, list[tuple[list[int], list[int]]], list[tuple[list[int], list[int]]]]]


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def roll(variant: str, template: Any, chatml: Any) -> Roll:
    """Rolls out three calls and an answer; also returns what each role sampled behind which prompt."""
    options = VARIANTS[variant]
    chat = template if options is None else chatml(**options)

    def run(layout: PromptedLayout | None = None, own: bool = True) -> Any:
        if options is None:
            calls = [sampled(chat, call.text(), "<|env|>") for call in CALLS]
            responses = [sampled(chat, text, "<|act|>") for text in RESPONSES]
            end = "<|end|>"
        else:
            thought = ("<think>", "\nhm\n", "</think>", "\n\n") if variant.startswith("thought") else ()
            end = "<|im_end|>"
            call_parts = [("<tool_call>", f"\n{call.text()}\n", "</tool_call>", end) for call in CALLS]
            calls = [sampled(chat, *thought, *parts) for parts in call_parts]
            close = ("</tool_response>", end) if variant == "few markers" else ("</tool_response>",)
            responses = [sampled(chat, f"{text}\n", *close) for text in RESPONSES]
        if layout is not None:
            responses = [sampled(chat, text, end) for text in RESPONSES]
        act, environment = Recorder([*calls, sampled(chat, "left 1", end)]), Recorder(responses)
        kind = RehearsalResponder if own else SimulatorResponder
        who = kind(environment, chat, Sampling(), layout)
        (episode,) = answered_episodes(act, chat, [(TASK, ())], Sampling(), who)
        assert (episode.calls, episode.responses) == (tuple(CALLS), RESPONSES)
        assert (episode.answer, episode.cut) == ("left 1", None)
        return episode, act.seen, environment.seen

    return run


def trained(rows: tuple[Row, ...]) -> list[tuple[int, list[int], list[int]]]:
    """Role, context and tokens of every run of tokens that carry loss."""
    runs = []
    for row in rows:
        ids, roles = row.stream.ids, row.stream.roles
        assert len(ids) == len(roles) == len(row.logprobs)
        start = 0
        for at in range(1, len(ids) + 1):
            if at == len(ids) or roles[at] != roles[start]:
                if roles[start] != CONTEXT:
                    runs.append((roles[start], ids[:start], ids[start:at]))
                start = at
    return runs


@pytest.mark.parametrize("layout", [None, PromptedLayout()], ids=["inline", "prompted"])
def test_every_sampled_token_is_trained_once_behind_what_it_was_sampled_behind(
    roll: Roll, layout: PromptedLayout | None
) -> None:
    """Failure modes 1, 2 and 14: re-tokenized samples, a broken prefix, scaffold in the loss."""
    episode, acts, responses = roll(layout)
    expected = [(ACT, *seen) for seen in acts] + [(ENVIRONMENT, *seen) for seen in responses]
    assert sorted(trained(episode.rows())) == sorted(expected)
    assert episode.tokens(TokenRole.ACT) == sum(len(ids) for _, ids in acts)
    for row in episode.rows():
        for token, role, logprob in zip(row.stream.ids, row.stream.roles, row.logprobs, strict=True):
            assert logprob == (0.0 if role == CONTEXT else value(token))


def test_what_others_wrote_is_context(roll: Roll) -> None:
    episode, acts, _ = roll(own=False)
    assert trained(episode.rows()) == [(ACT, *seen) for seen in acts]
    assert episode.tokens(TokenRole.ENV) == 0
    assert {
        p for row in episode.rows() for p, r in zip(row.logprobs, row.stream.roles, strict=True) if not r
    } == {0}


def test_rows_fork_where_the_prefix_does_and_nowhere_else(roll: Roll, variant: str) -> None:
    """Failure mode 2: thinking stripped from history breaks the prefix."""
    episode, acts, _ = roll()
    fork = variant in FORKING
    for (prompt, ids), (following, _) in pairwise(acts):
        assert (following[: len(prompt) + len(ids)] == prompt + ids) is not fork
    assert len(episode.rows()) == (len(acts) if fork else 1)
    if variant == "thought leaves":
        assert sum(row.stream.ids.count(acts[0][1][0]) for row in episode.rows()) == len(acts) - 1
    prompted, _, environment = roll(PromptedLayout())
    assert len(prompted.rows()) == len(episode.rows()) + len(environment)


def test_memory_grows_with_the_episode_not_with_its_square(template: Any, chatml: Any) -> None:
    """Failure mode 13: memory on long multi-turn."""
    for chat, call, response, end in (
        (template, (CALLS[0].text(), "<|env|>"), ("{}", "<|act|>"), "<|end|>"),
        (chatml(), ("<tool_call>", CALLS[0].text(), "</tool_call>", "<|im_end|>"),
         ("{}\n", "</tool_response>"), "<|im_end|>"),
    ):  # fmt: skip
        stored = []
        for turns in (20, 40):
            act = Recorder([*[sampled(chat, *call)] * turns, sampled(chat, "done", end)])
            who = RehearsalResponder(Recorder([sampled(chat, *response)] * turns), chat, Sampling())
            (episode,) = answered_episodes(act, chat, [(TASK, ())], Sampling(), who, Limits(turns=turns + 1))
            assert episode.answer == "done"
            stored.append(
                sum(len(row.stream) for row in episode.rows())
                + sum(len(value) for value in vars(episode).values() if isinstance(value, tuple))
            )
        assert stored[1] < 2 * stored[0]


def random_policy(template: Any, seed: int) -> Callable[[list[int], int], list[int]]:
    """A policy whose next turn depends on all that stands before it, faults included."""
    one, two = CALLS[0].text(), f"{CALLS[0].text()}\n{CALLS[1].text()}"
    acts = [(one, ENV)] * 5 + [(two, ENV)] * 3 + [("left 1", END)] * 3
    acts += [("{}", ENV), ("left", ACT_MARK), ("la" * 40, END), ("\n".join([one] * 4), ENV)]
    replies = (
        [("{}", ACT_MARK)] * 6 + [("{}\n{}", ENV)] * 4 + [("{}", END), ("la" * 40, ACT_MARK), ("", ACT_MARK)]
    )

    def write(prompt: list[int], sample: int) -> list[int]:
        ids: list[int] = []
        while len(ids) < 600:
            rng = random.Random(f"{seed}/{prompt + ids}")
            last = next(token for token in reversed(prompt + ids) if token in (ACT_MARK, ENV, END))
            text, marker = rng.choice(replies if last == ENV else acts)
            ids += [*template.encode(text), marker]
            if marker == END:
                break
        return ids

    return write


def test_one_generation_and_turn_by_turn_give_the_same_episodes(template: Any, scripted: Any) -> None:
    limits, sampling = Limits(turns=4, calls=3), Sampling(1.0, 10**6)
    kinds = set()
    for seed in range(250):
        engine = scripted(random_policy(template, seed))
        prompts = [(TASK, ())]
        (whole,) = rehearse_episodes(engine, template, prompts, sampling, 1, limits)
        who = RehearsalResponder(engine, template, sampling)
        (stepwise,) = answered_episodes(engine, template, prompts, sampling, who, limits)
        assert whole.rows() == stepwise.rows()
        for name in ("calls", "responses", "answer", "spans", "cut"):
            assert getattr(whole, name) == getattr(stepwise, name), name
        kinds.add((whole.cut, whole.answer is None, len(whole.responses)))
    assert len(kinds) >= 10  # answers, faults and limits at several turns


def test_a_real_policy_rehearses_in_a_format_with_bridges(tiny: Any, chatml: Any) -> None:
    from envace.engines.hf import HFEngine

    chat = chatml()
    engine = HFEngine(tiny.model, chat.vocabulary)
    tasks = [pose("store", "order", seed, "train") for seed in range(2)]
    episodes = rehearse_episodes(engine, chat, [(task, ()) for task in tasks], Sampling(1.0, 20), 2)
    assert [episode.task.id for episode in episodes] == [task.id for task in tasks for _ in range(2)]
    assert engine.generated_tokens == sum(
        episode.tokens(TokenRole.ACT) + episode.tokens(TokenRole.ENV) for episode in episodes
    )
    assert all(
        not chat.forbidden_ids & set(ids) for episode in episodes for _, _, ids in trained(episode.rows())
    )
