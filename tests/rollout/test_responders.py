"""Who answers: each responder by what it alone does, and faults of each kind."""

from collections.abc import Callable
from typing import Any

import pytest

from envace.chat.prompted import PromptedLayout
from envace.chat.tokenizer import ACT, END, ENV
from envace.engines import Sampling
from envace.errors import EnvaceError
from envace.rollout.answered import answered_episodes
from envace.rollout.episode import Cut, Limits, cut_counts
from envace.rollout.rehearse import rehearse_episodes
from envace.rollout.responders import (
    RESPONDERS,
    Cast,
    RehearsalResponder,
    ReplayResponder,
    Response,
    SimulatorResponder,
    WorldResponder,
    responder,
)
from envace.trajectory import ToolCall
from envace.worlds.tasks import pose, solve

TASK = pose("store", "order", 3, "train")
STEPS, ANSWER, _ = solve(TASK)
LOOK, BUY = (step.call for step in STEPS)


def turns(template: Any, *parts: str | int) -> list[int]:
    return [token for part in parts for token in ([part] if isinstance(part, int) else template.encode(part))]


def script(template: Any, *acts: str) -> Callable[[list[int], int], list[int]]:
    """Act turns by the number of act turns already in the prompt; the last is an answer."""

    def write(prompt: list[int], sample: int) -> list[int]:
        done = prompt.count(ENV)
        return turns(template, acts[done], END if done == len(acts) - 1 else ENV)

    return write


def expert(template: Any) -> Callable[[list[int], int], list[int]]:
    return script(template, *(step.call.text() for step in STEPS), ANSWER)


def roll(template: Any, engine: Any, who: Any, tasks: int = 1, **options: Any) -> list[Any]:
    prompts = [(TASK, ())] * tasks
    return answered_episodes(engine, template, prompts, Sampling(0.0, 60), who, **options)


@pytest.mark.parametrize("name", RESPONDERS)
def test_one_switch_chooses_who_answers(template: Any, scripted: Any, name: str) -> None:
    def responses(prompt: list[int], sample: int) -> list[int]:
        return turns(template, STEPS[prompt.count(ENV) - 1].response, ACT)

    environment, act = scripted(responses), scripted(expert(template))
    cast = Cast(
        policy=environment if name == "rehearsal" else act,
        template=template,
        sampling=Sampling(0.0, 60),
        tasks=[TASK],
        simulator=environment,
        recorded={TASK.id: [(step.call, step.response) for step in STEPS]},
    )
    (episode,) = roll(template, act, responder(name, cast))
    assert (episode.answer, episode.cut) == (ANSWER, None)
    assert episode.responses == tuple(step.response for step in STEPS)
    assert bool(environment.samplings) is (name in ("rehearsal", "simulator"))


def test_an_unknown_or_missing_answerer_is_one_line(template: Any, scripted: Any) -> None:
    cast = Cast(scripted(expert(template)), template, Sampling(), [TASK])
    with pytest.raises(EnvaceError, match=r"no responder 'god'.*rehearsal, simulator, real, replay"):
        responder("god", cast)
    with pytest.raises(EnvaceError, match="simulator without a simulator"):
        responder("simulator", cast)


def test_replay_answers_by_call_text_and_order_and_counts_what_is_missing(
    template: Any, scripted: Any
) -> None:
    look, other = LOOK.text(), ToolCall(name="get_item", arguments={"item": "nobody"}).text()
    recorded = {TASK.id: [(LOOK, "1"), (BUY, "2"), (LOOK, "3")], "another task": [(LOOK, "never")]}
    who = ReplayResponder(recorded)
    engine = scripted(script(template, look, look, other, BUY.text(), look, "done"))
    episodes = roll(template, engine, who, tasks=2)
    missing = '{"error":"not recorded"}'
    assert [episode.responses for episode in episodes] == [("1", "3", missing, "2", missing)] * 2
    assert who.missing == 4
    assert all(episode.answer == "done" for episode in episodes)


def test_parallel_calls_are_answered_in_order_and_a_later_one_sees_the_earlier(
    template: Any, scripted: Any
) -> None:
    text = f"{LOOK.text()}\n{LOOK.text()}\n{BUY.text()}"
    act = scripted(lambda prompt, s: turns(template, *(("ok", END) if ENV in prompt else (text, ENV))))
    seen: list[str] = []

    def write(prompt: list[int], sample: int) -> list[int]:
        seen.append(template.raw(prompt).split("<|env|>", 1)[1])
        return turns(template, f"a\n{len(seen)}", ENV if len(seen) < 3 else ACT)

    (episode,) = roll(template, act, SimulatorResponder(scripted(write), template, Sampling(0.0, 60)))
    assert episode.responses == ("a\n1", "a\n2", "a\n3")
    assert seen == ["", "a\n1<|env|>", "a\n1<|env|>a\n2<|env|>"]
    assert (episode.calls, episode.answer) == ((LOOK, LOOK, BUY), "ok")
    # A world executes them one after another, and none twice.
    world = WorldResponder([TASK])
    (episode,) = roll(template, act, world)
    assert episode.responses == (STEPS[0].response, STEPS[0].response, STEPS[1].response)
    assert world.executed == 3


class Broken:
    """Answers the first turn and fails at the second, in one way or another."""

    def __init__(self, second: Callable[[list[Response]], list[Response]]) -> None:
        self.second, self.asked = second, 0

    def respond(self, waiting: Any) -> list[Response]:
        self.asked += 1
        answers = [Response("{}") for _ in waiting]
        return answers if self.asked == 1 else self.second(answers)


def test_a_fault_of_a_responder_surfaces_and_nobody_waits(template: Any, scripted: Any) -> None:
    """Failure mode 10: a worker's exception leaves the run waiting for ever."""

    def crash(answers: list[Response]) -> list[Response]:
        raise RuntimeError("the tool server is gone")

    engine = scripted(script(template, LOOK.text(), LOOK.text(), "done"))
    with pytest.raises(RuntimeError, match="the tool server is gone"):
        roll(template, engine, Broken(crash), tasks=3)
    # Too few or too many answers would leave an episode without one, or give it another's.
    for wrong in (lambda answers: answers[1:], lambda answers: [*answers, answers[0]]):
        with pytest.raises(ValueError, match="zip"):
            roll(template, engine, Broken(wrong), tasks=3)


@pytest.mark.parametrize("text", ['{"name":"order"', '{"name":1,"arguments":{}}', "[" * 9000, "\ud7ff{}"])
def test_malformed_calls_end_their_own_episode_only(template: Any, scripted: Any, text: str) -> None:
    """Failure mode 4: malformed tool JSON kills the run."""
    good = expert(template)
    bad = turns(template, text, ENV)[-50:]
    count = iter(range(99))
    engine = scripted(lambda prompt, s: bad if ENV not in prompt and next(count) == 1 else good(prompt, s))
    episodes = roll(template, engine, WorldResponder([TASK] * 3), tasks=3)
    assert [episode.answer for episode in episodes] == [ANSWER, None, ANSWER]
    assert (episodes[1].cut, episodes[1].calls, episodes[1].fault) == (None, (), "no answer")


def test_every_cap_is_real_marked_and_counted(template: Any, scripted: Any) -> None:
    """Failure mode 7: silent truncation makes every reward 0."""
    look = LOOK.text()
    endless = scripted(script(template, *[look] * 99))

    def cut(engine: Any, limits: Limits, world: Any = None) -> Any:
        who = world or WorldResponder([TASK])
        (episode,) = roll(template, engine, who, limits=limits)
        assert episode.answer is None
        assert cut_counts([episode]) == {f"cut_{cut}": int(cut is episode.cut) for cut in Cut}
        return episode

    by_turns = cut(endless, Limits(turns=3))
    assert (by_turns.cut, by_turns.fault, len(by_turns.responses)) == (Cut.TURNS, "turns limit", 3)
    world = WorldResponder([TASK])
    parallel = scripted(lambda prompt, s: turns(template, "\n".join([look] * 5), ENV))
    by_calls = cut(parallel, Limits(calls=4), world)
    assert (by_calls.cut, by_calls.calls, world.executed) == (Cut.CALLS, (), 0)
    start = len(by_turns.prompt)
    for tokens in (start + 60, start + 99, start + 200):
        by_tokens = cut(endless, Limits(turns=99, tokens=tokens))
        assert by_tokens.cut is Cut.TOKENS
        assert tokens - 130 < len(by_tokens.stream()) <= tokens
    # A response that does not fit is not squeezed in, and the sampling limit cuts like any other.
    huge = ReplayResponder({TASK.id: [(LOOK, "la" * 500)]})
    assert cut(endless, Limits(tokens=start + 100), huge).responses == ()
    assert cut(scripted(lambda prompt, s: turns(template, "la" * 99)), Limits()).cut is Cut.TOKENS
    simulator = SimulatorResponder(
        scripted(lambda prompt, s: turns(template, "la" * 99)), template, Sampling()
    )
    simulator.sampling = Sampling(0.0, 5)
    assert cut(endless, Limits(), simulator).cut is Cut.TOKENS


def test_a_rehearsal_in_one_generation_knows_the_same_caps(template: Any, scripted: Any) -> None:
    call = [*template.encode(LOOK.text()), ENV, *template.encode("{}"), ACT]

    def episode(ids: list[int], limit: int = 999, **limits: int) -> Any:
        engine = scripted(lambda prompt, s: ids)
        sampling = Sampling(0.0, limit)
        return rehearse_episodes(engine, template, [(TASK, ())], sampling, 1, Limits(**limits))[0]

    done = turns(template, "done", END)
    assert (episode(call * 2 + done).answer, episode(call * 2 + done).cut) == ("done", None)
    by_turns = episode(call * 4 + done, turns=3)
    assert (by_turns.cut, len(by_turns.responses), by_turns.answer) == (Cut.TURNS, 3, None)
    assert len(by_turns.stream()) == len(by_turns.prompt) + 3 * len(call)
    for limit in (1, len(call) - 1, len(call), len(call) + 1):
        assert (episode(call + done, limit).cut, episode(call + done, limit).answer) == (Cut.TOKENS, None)
    both = turns(template, f"{LOOK.text()}\n{BUY.text()}", ENV, "{}", ENV, "{}", ACT)
    assert episode(both + done).answer == "done"
    assert (episode(both + done, calls=1).cut, episode(both + done, calls=1).calls) == (Cut.CALLS, ())
    # A fault is no cap.
    for parts in (("a", ACT), ("a", ENV, "b", ACT, "c", END)):
        assert episode(turns(template, *parts)).cut is None


def test_a_prompted_answer_that_breaks_off_ends_the_episode(template: Any, scripted: Any) -> None:
    for parts, cut in ((("{}",), Cut.TOKENS), (("{}", ENV), None)):
        environment = scripted(lambda prompt, s, parts=parts: turns(template, *parts))
        who = RehearsalResponder(environment, template, Sampling(0.0, 60), PromptedLayout())
        (episode,) = roll(template, scripted(expert(template)), who)
        assert (episode.responses, episode.answer, episode.cut) == ((), None, cut)
        assert len(episode.forks) == 1  # its writer is still to blame


def test_references_are_those_of_the_task(template: Any, scripted: Any) -> None:
    recorded = {TASK.id: [(LOOK, '{"mine":1}')], "other": [(LOOK, '{"theirs":1}')]}
    environment = scripted(lambda prompt, s: turns(template, "{}", END))
    who = RehearsalResponder(environment, template, Sampling(0.0, 60), PromptedLayout(), recorded)
    roll(template, scripted(expert(template)), who)
    for prompt in environment.seen:
        text = template.raw(prompt)
        assert '{"mine":1}' in text and "theirs" not in text


def test_roles_and_turns_draw_different_random_numbers(template: Any, scripted: Any) -> None:
    environment = scripted(lambda prompt, s: turns(template, "{}", ACT))
    act = scripted(expert(template))
    roll(template, act, RehearsalResponder(environment, template, Sampling(1.0, 60)))
    seeds = [sampling.seed for sampling in act.samplings + environment.samplings]
    assert len(set(seeds)) == len(seeds) == 5
