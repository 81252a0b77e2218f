"""Roll-outs in which somebody else answers: an executable world, or a frozen simulator.

Everything stays in token space: a response is appended to the tokens that were sampled,
and sampled text is never tokenized again, so training sees exactly what sampling saw.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from envace.chat import CompactTemplate
from envace.engines import Completion, Engine, Sampling
from envace.rollout.episode import Episode, parse_episode
from envace.rollout.rehearse import Notes, with_markers
from envace.trajectory import Task, ToolCall, compact
from envace.worlds.base import World
from envace.worlds.tasks import rebuild

MAX_TURNS = 8
"""Assistant turns at most; an episode cut here has no answer and fails."""


@dataclass
class OpenEpisode:
    """An episode under way."""

    index: int
    """Its position among the prompts."""
    task: Task
    """The task."""
    prompt: list[int]
    """Prompt tokens."""
    sampled: list[int] = field(default_factory=list)
    """Tokens of both roles so far."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each sampled token; 0 for tokens somebody else wrote."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of the last turn, waiting for a response."""


class Responder(Protocol):
    """Who answers tool calls."""

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[list[int]]:
        """Response tokens for the calls of every waiting episode, the end marker included."""
        ...


class WorldResponder:
    """Every episode has an executable world of its own."""

    def __init__(self, template: CompactTemplate, tasks: Sequence[Task]) -> None:
        """Build a fresh world for each task; `tasks` are in the order of the prompts."""
        self.template = template
        self.worlds: list[World] = [rebuild(task)[0] for task in tasks]

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[list[int]]:
        """Execute the calls."""
        answers = []
        for episode in waiting:
            world = self.worlds[episode.index]
            text = "\n".join(compact(world.call(call)) for call in episode.calls)
            answers.append([*self.template.encode(text), self.template.response_end])
        return answers


class SimulatorResponder:
    """Another model, usually a frozen copy, plays the environment role."""

    def __init__(self, engine: Engine, template: CompactTemplate, sampling: Sampling) -> None:
        """Answer with `engine`, sampling as given."""
        self.engine = engine
        self.turns = 0
        self.sampling = with_markers(
            sampling, template, frozenset({template.response_end}) | template.end_ids
        )

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[list[int]]:
        """Sample a response to each."""
        prompts = [episode.prompt + episode.sampled for episode in waiting]
        self.turns += 1
        sampling = replace(self.sampling, seed=self.sampling.seed + self.turns)
        return [group[0].ids for group in self.engine.generate(prompts, sampling)]


def answered_episodes(
    engine: Engine,
    template: CompactTemplate,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    responder: Responder,
    max_turns: int = MAX_TURNS,
) -> list[Episode]:
    """Run every prompt to its end, all in step as one batch a turn.

    Args:
        engine: The act role.
        template: Its chat template.
        prompts: Tasks with their private notes.
        sampling: How the act role samples; `max_new_tokens` is a limit per turn.
        responder: Who answers.
        max_turns: Assistant turns at most; 1 stops after the first response.
    """
    episodes = [
        OpenEpisode(index, task, template.render((*task.messages, *notes), task.tools).ids)
        for index, (task, notes) in enumerate(prompts)
    ]
    stop = frozenset({template.call_end, template.response_end}) | template.end_ids
    sampling = with_markers(sampling, template, stop)
    active = episodes
    for turn in range(max_turns):
        contexts = [episode.prompt + episode.sampled for episode in active]
        completions = engine.generate(contexts, replace(sampling, seed=sampling.seed + turn))
        waiting = []
        for episode, group in zip(active, completions, strict=True):
            episode.sampled += group[0].ids
            episode.logprobs += group[0].logprobs
            episode.calls = template.parse_act(group[0].ids).tool_calls
            if episode.calls:
                waiting.append(episode)
        if not waiting:
            break
        for episode, response in zip(waiting, responder.respond(waiting), strict=True):
            episode.sampled += response
            episode.logprobs += [0.0] * len(response)
        active = [episode for episode in waiting if episode.sampled[-1] == template.response_end]
        if not active:
            break
    return [
        parse_episode(
            template, task, notes, episode.prompt, Completion(episode.sampled, episode.logprobs, True)
        )
        for (task, notes), episode in zip(prompts, episodes, strict=True)
    ]
