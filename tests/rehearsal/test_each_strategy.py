"""What each strategy does, step by step, against scripts."""

from collections.abc import Callable
from typing import Any

import pytest

from envace.chat.compact import act_text
from envace.engines import Completion, Sampling
from envace.rehearsal import react, reflexion
from envace.rehearsal.base import Conversation, Policy, Preparation, Settings, conversations
from envace.rehearsal.best_of_n import vote
from envace.rehearsal.draft import note
from envace.rehearsal.each_turn import EachTurn
from envace.rehearsal.strategies import strategy
from envace.rehearsal.trace import Imagined
from envace.rollout.answered import answered_episodes
from envace.rollout.responders import WorldResponder
from envace.trajectory import Message, ToolCall
from envace.worlds.tasks import pose, rebuild, solve, verify

TASK = pose("courier", "ship", 0, "train")
(START,) = conversations([TASK])
A, B, C, D = (ToolCall(name="ship", arguments=a) for a in rebuild(TASK)[0].commit_arguments())
DEAR, CHEAP = '{"total":9}', '{"total":3}'


class Desk:
    """Encodes what roles write in the compact template, and runs strategies on scripts."""

    def __init__(self, template: Any, scripted: Any) -> None:
        self.template = template
        self.scripted = scripted

    def start(self, *notes: str, state: Conversation = START) -> list[int]:
        return self.template.render((*state.messages, *map(note, notes)), state.tools).ids

    def call(self, *calls: ToolCall) -> list[int]:
        return [
            *self.template.encode(act_text(Message(role="assistant", tool_calls=calls))),
            self.template.call_end,
        ]

    def words(self, text: str) -> list[int]:
        return [*self.template.encode(text), *self.template.end_ids]

    def response(self, text: str) -> list[int]:
        return self.template.response_ids(text, False)

    def run(
        self, name: str, script: Callable[[list[int], int], list[int]], settings: Settings | None = None
    ) -> tuple[Preparation, Any]:
        """The preparation of START, and the engine that was asked."""
        engine = self.scripted(script)
        (prepared,) = strategy(name, settings).prepare(Policy(engine, self.template), [START], 0)
        return prepared, engine

    def told(self, *answers: tuple[list[int], list[int]]) -> Callable[[list[int], int], list[int]]:
        """A script by exact prompt: fails a test that asks anything else."""
        known = {tuple(prompt): ids for prompt, ids in answers}
        return lambda prompt, sample: known[tuple(prompt)]


@pytest.fixture
def desk(template: Any, scripted: Any) -> Desk:
    return Desk(template, scripted)


def test_sequential_attempts_see_the_revised_memory_but_are_answered_without_it(desk: Desk) -> None:
    once, twice = f"{A.text()} {DEAR}", f"{B.text()} {CHEAP}\n{A.text()} {DEAR}"
    script = desk.told(
        (desk.start(), desk.call(A)),
        (desk.start() + desk.call(A), desk.response(DEAR)),
        (desk.start(once), desk.call(B)),
        (desk.start() + desk.call(B), desk.response(CHEAP)),
        (desk.start(twice), desk.words("done")),
    )
    prepared, engine = desk.run("sequential-3", script)
    assert len(engine.seen) == 5  # an answer asks for no response
    branches = prepared.trace.branches
    assert [branch.seen for branch in branches] == ["", once, twice]
    assert [branch.steps for branch in branches] == [
        (Imagined(call=A, response=DEAR),), (Imagined(call=B, response=CHEAP),), (),
    ]  # fmt: skip
    assert branches[2].answer == "done"
    assert prepared.notes == (note(twice),)  # revised, best first
    assert prepared.recommended == B


def test_rounds_and_roles_draw_different_random_numbers(desk: Desk) -> None:
    def script(prompt: list[int], sample: int) -> list[int]:
        return desk.response(DEAR) if prompt[-1] == desk.template.call_end else desk.call(A)

    for name in ("sequential-3", "stepwise-3", "reflexion-3"):
        _, engine = desk.run(name, script)
        seeds = [sampling.seed for sampling in engine.samplings]
        assert len(set(seeds)) == len(seeds) >= 6, name


def test_stepwise_looks_as_many_steps_ahead_as_it_may_and_no_further(desk: Desk) -> None:
    one = desk.start() + desk.call(A) + desk.response(DEAR)
    script = desk.told(
        (desk.start(), desk.call(A)),
        (desk.start() + desk.call(A), desk.response(DEAR)),
        (one, desk.call(B)),
        (one + desk.call(B), desk.response(CHEAP)),
    )
    prepared, engine = desk.run("stepwise-2+plans", script)
    assert len(engine.seen) == 4
    (branch,) = prepared.trace.branches
    assert branch.steps == (Imagined(call=A, response=DEAR), Imagined(call=B, response=CHEAP))
    assert prepared.trace.memory == f"plan of 1 in 1 rehearsals:\n{A.text()} {DEAR}\n{B.text()} {CHEAP}"
    assert prepared.trace.tokens == {
        "act": len(desk.call(A) + desk.call(B)),
        "environment": len(desk.response(DEAR) + desk.response(CHEAP)),
    }


def test_the_turn_sampled_most_often_is_decided_on_and_costs_nothing_in_private(desk: Desk) -> None:
    turns = [desk.call(A), desk.call(B), desk.words("done"), desk.call(B)]
    prepared, engine = desk.run("best_of_n-4", lambda prompt, sample: turns[sample])
    assert engine.seen == [desk.start()]
    assert prepared.decided is not None and prepared.decided.ids == desk.call(B)
    assert (prepared.notes, prepared.recommended) == ((), None)
    assert prepared.trace.decided is not None and prepared.trace.decided.tool_calls == (B,)
    assert prepared.trace.tokens == {"act": sum(map(len, turns)) - len(turns[1])}
    assert [branch.answer for branch in prepared.trace.branches] == [None, None, "done", None]


def test_votes_by_hand(desk: Desk) -> None:
    def voted(*turns: list[int]) -> int | None:
        completions = [Completion(ids, [0.0] * len(ids), True) for ids in turns]
        chosen = vote(desk.template, completions)
        return None if chosen is None else completions.index(chosen)

    broken = [*desk.template.encode("{"), desk.template.call_end]
    assert voted(desk.call(A), desk.call(B)) == 0  # a tie falls to the first
    assert voted(desk.call(A), desk.call(B), desk.call(B)) == 1
    assert voted(broken, broken, desk.words("done")) == 2  # what is not legible has no vote
    assert voted(broken, desk.call(A)[:-1]) is None
    assert voted(desk.call(A, B), desk.call(A), desk.call(A, B), desk.call(A)) == 0


def test_react_thinks_once_with_the_tokens_of_the_budget(desk: Desk) -> None:
    script = desk.told((desk.start(react.INSTRUCTION), desk.words("look at zone N")))
    prepared, engine = desk.run("react-3", script, Settings(turn_tokens=20))
    assert engine.samplings[0].max_new_tokens == 60
    assert prepared.notes == (note("look at zone N"),)
    assert prepared.trace.tokens == {"thought": len(desk.words("look at zone N"))}
    silent, _ = desk.run("react-1", lambda prompt, sample: desk.words(""))
    assert (silent.notes, silent.trace.memory, silent.tokens) == ((), "", 1)


def test_reflexion_reflects_on_attempts_that_nobody_answers(desk: Desk) -> None:
    once = f"{A.text()}\ntoo dear"
    twice = f"{B.text()}\nfine\n{once}"
    script = desk.told(
        (desk.start(), desk.call(A)),
        (desk.start(f"{A.text()}\n{reflexion.INSTRUCTION}"), desk.words("too dear")),
        (desk.start(once), desk.call(B)),
        (desk.start(once, f"{B.text()}\n{reflexion.INSTRUCTION}"), desk.words("fine")),
    )
    prepared, _ = desk.run("reflexion-2", script)
    assert prepared.trace.memory == twice  # latest first
    assert [(branch.seen, branch.thought) for branch in prepared.trace.branches] == [
        ("", "too dear"), (once, "fine"),
    ]  # fmt: skip
    assert prepared.trace.tokens == {
        "act": len(desk.call(A) + desk.call(B)),
        "thought": len(desk.words("too dear") + desk.words("fine")),
    }
    # One line short of room for both, the older reflection leaves.
    short = Settings(memory_tokens=len(desk.template.encode(twice)) - 1)
    cut, _ = desk.run("reflexion-2", script, short)
    assert cut.trace.memory == f"{B.text()}\nfine\n{A.text()}"


def test_an_evaluation_prepares_before_each_real_turn_and_keeps_the_notes_out(desk: Desk) -> None:
    task = pose("store", "order_cancel", 3, "train")
    steps, answer, _ = solve(task)
    (start,) = conversations([task])
    states, turns = [start], []
    for step in steps:
        turns.append(desk.call(step.call))
        said = Message(role="assistant", tool_calls=(step.call,))
        response = Message(role="tool", name=step.call.name, content=step.response)
        states.append(Conversation((*states[-1].messages, said, response), task.tools))
    turns.append(desk.words(answer))
    script = desk.told(
        *((desk.start(react.INSTRUCTION, state=state), desk.words("a thought")) for state in states),
        *((desk.start("a thought", state=state), turn) for state, turn in zip(states, turns, strict=True)),
    )
    policy = Policy(desk.scripted(script), desk.template)
    acting = EachTurn(strategy("react-1"), policy, 0)
    (episode,) = answered_episodes(
        policy.engine,
        desk.template,
        [(task, ())],
        Sampling(0.0, 96),
        WorldResponder([task]),
        act_turns=acting,
    )
    assert verify(task, list(episode.calls), episode.answer).success
    assert acting.tokens == {0: len(states) * len(desk.words("a thought"))}
    assert acting.first[0].notes == (note("a thought"),)
    # The episode is what it would have been without a thought.
    assert list(episode.prompt) == desk.start(state=start)
    assert list(episode.sampled) == (desk.start(state=states[-1]) + turns[-1])[len(episode.prompt) :]


def test_an_evaluation_commits_what_was_voted_for(desk: Desk) -> None:
    (ship,), answer, _ = solve(TASK)
    right, wrong = desk.call(ship.call), desk.call(next(c for c in (A, B) if c != ship.call))

    def script(prompt: list[int], sample: int) -> list[int]:
        if prompt != desk.start():
            return desk.words(answer)
        return wrong if sample == 0 else right

    policy = Policy(desk.scripted(script), desk.template)
    acting = EachTurn(strategy("best_of_n-3"), policy, 0)
    (episode,) = answered_episodes(
        policy.engine,
        desk.template,
        [(TASK, ())],
        Sampling(0.0, 96),
        WorldResponder([TASK]),
        act_turns=acting,
    )
    assert episode.calls == (ship.call,)
    assert acting.tokens == {0: len(wrong) + len(right) + 2 * len(desk.words(answer))}
    assert policy.engine.generated_tokens == acting.tokens[0] + len(right) + len(desk.words(answer))
