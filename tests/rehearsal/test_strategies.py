"""All strategies alike: names, isolation from environments, seeds, and tokens accounted for."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

import envace.rehearsal
from envace.engines.hf import HFEngine
from envace.errors import EnvaceError
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings, conversations
from envace.rehearsal.strategies import STRATEGIES, strategy
from envace.trajectory import Message, ToolCall
from envace.worlds.base import World
from envace.worlds.tasks import pose, rebuild

TASKS = [pose("courier", "ship", 0, "train"), pose("store", "order", 1, "train")]
STARTS = conversations(TASKS)
CALL = ToolCall(name="get_item", arguments={"item": "bale"})
MIDWAY = Conversation(
    (
        *TASKS[1].messages,
        Message(role="assistant", tool_calls=(CALL,)),
        Message(role="tool", name="get_item", content='{"bale":["h3",42,5]}'),
    ),
    TASKS[1].tools,
)


def fresh(tiny: Any) -> Policy:
    return Policy(HFEngine(tiny.model, tiny.vocabulary), tiny.template)


@pytest.fixture
def policy(tiny: Any) -> Policy:
    return fresh(tiny)


def test_a_name_may_carry_a_budget_and_a_memory() -> None:
    def settings(name: str, own: Settings | None = None) -> tuple[str, int, str]:
        found = strategy(name, own)
        inner: Any = found.inner
        return found.name, inner.settings.budget, inner.settings.memory

    assert settings("none") == ("none", 4, "ranked")
    assert settings("parallel") == ("parallel-4", 4, "ranked")
    assert settings("parallel", Settings(budget=8)) == ("parallel-8", 8, "ranked")
    assert settings("best_of_n-16", Settings(budget=8)) == ("best_of_n-16", 16, "ranked")
    assert settings("parallel-2+policy") == ("parallel-2+policy", 2, "policy")
    assert settings("stepwise+plans") == ("stepwise-4+plans", 4, "plans")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "no rehearsal strategy 'x' (one of none, parallel, "),
        ("", "no rehearsal strategy ''"),
        ("parallel-", "no rehearsal strategy 'parallel-'"),
        ("parallel-two", "no rehearsal strategy 'parallel-two'"),
        ("parallel-0", "parallel-0: a budget of 0 (at least 1, or `none`)"),
        ("parallel+x", "parallel+x: no memory 'x' (one of ranked, plans, policy)"),
    ],
)
def test_a_wrong_name_is_a_one_line_error(name: str, said: str) -> None:
    with pytest.raises(EnvaceError) as caught:
        strategy(name)
    assert said in str(caught.value)


class Peeking:
    """A strategy that cheats: it tries its call out in the real world."""

    every_turn: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def prepare(self, policy: Policy, conversations: Sequence[Conversation], seed: int) -> list[Preparation]:
        for _ in range(self.settings.budget):
            rebuild(TASKS[0])[0].call(ToolCall(name="quote"))
        return [Preparation() for _ in conversations]


def test_a_strategy_that_reaches_a_world_is_caught_and_counted(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STRATEGIES, "peeking", Peeking)
    with pytest.raises(EnvaceError, match=r"strategy peeking-3: 3 calls reached an environment"):
        strategy("peeking-3").prepare(policy, STARTS, 0)


def test_a_conversation_holds_nothing_a_world_could_be_rebuilt_from() -> None:
    assert Conversation.__slots__ == ("messages", "tools")
    with pytest.raises(EnvaceError):
        rebuild(STARTS[0].task())


def test_no_module_of_the_room_knows_a_world_or_what_drives_one() -> None:
    never = {"envace.worlds", "envace.benchmarks", "envace.serve", "envace.rewards"}
    for path in Path(envace.rehearsal.__path__[0]).glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        plain = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        assert not {name for name in froms + plain if any(name.startswith(room) for room in never)}, path


@pytest.mark.parametrize("name", [*STRATEGIES, "parallel+plans", "sequential+policy", "stepwise+policy"])
def test_equal_seeds_rehearse_equally_and_every_token_is_accounted_for(
    tiny: Any, policy: Policy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(*_: Any) -> Any:
        raise AssertionError("a rehearsal touched a world")

    monkeypatch.setattr(World, "call", touched)
    settings = Settings(budget=2, turn_tokens=12, memory_tokens=40)
    chosen = strategy(name, settings)
    states = [*STARTS, MIDWAY]  # from the start as from any later state
    first = chosen.prepare(policy, states, 5)
    spent = policy.engine.generated_tokens
    decided = sum(len(item.decided.ids) for item in first if item.decided)
    assert sum(item.tokens for item in first) + decided == spent
    assert chosen.prepare(fresh(tiny), states, 5) == first
    for item in first:
        trace = item.trace
        assert (trace.strategy, trace.environment_calls) == (chosen.name, 0)
        assert trace.memory == "".join(note.content for note in item.notes)
        assert len(policy.template.encode(trace.memory)) <= settings.memory_tokens
    if name == "none":
        assert [(item.notes, item.decided, item.tokens) for item in first] == [((), None, 0)] * 3
    else:
        assert all(item.trace.branches for item in first)
        assert chosen.prepare(fresh(tiny), states, 6) != first


def test_nothing_to_prepare_is_nothing(policy: Policy) -> None:
    for name in STRATEGIES:
        assert strategy(name).prepare(policy, [], 0) == []


def test_branches_of_a_conversation_share_one_prefill(policy: Policy) -> None:
    engine: Any = policy.engine
    strategy("parallel-8").prepare(policy, STARTS, 0)
    lengths = [len(policy.template.render(state.messages, state.tools)) for state in STARTS]
    assert engine.prefilled_tokens == sum(lengths)


@pytest.mark.parametrize("name", ["sequential-3", "stepwise-3", "reflexion-3"])
def test_later_rounds_do_not_compute_the_conversation_again(policy: Policy, name: str) -> None:
    engine: Any = policy.engine
    strategy(name, Settings(turn_tokens=12)).prepare(policy, STARTS[:1], 0)
    # At most the last token of a prompt that was there before: its logits are wanted.
    assert engine.recomputed_tokens <= 2
    assert engine.prefilled_tokens >= len(policy.template.render(STARTS[0].messages, STARTS[0].tools))


def test_tokens_are_split_by_role_as_the_episode_has_them(template: Any, scripted: Any) -> None:
    call, response = template.encode(CALL.text()), template.encode('{"bale":["h3",42,5]}')
    written = [*call, template.call_end, *response, template.response_end]
    engine = scripted(lambda prompt, sample: written)
    (prepared,) = strategy("parallel-3").prepare(Policy(engine, template), [MIDWAY], 0)
    tokens = {"act": 3 * (len(call) + 1), "environment": 3 * (len(response) + 1)}
    assert prepared.trace.tokens == tokens
    assert engine.seen == [template.render(MIDWAY.messages, MIDWAY.tools).ids]
