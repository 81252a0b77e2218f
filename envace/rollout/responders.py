"""Who answers tool calls: the policy itself, a simulator, an executable world, or a recording.

The paper's claim is a comparison of these, so they are one switch. A new one is a class with
`respond` and one line in `RESPONDERS`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envace.chat import Template, TokenRole, TokenStream
from envace.chat.prompted import PromptedLayout, Situation, environment_prompt
from envace.engines import Completion, Engine, Sampling
from envace.errors import EnvaceError
from envace.rollout.episode import Cut, Row
from envace.rollout.open_episode import OpenEpisode
from envace.rollout.sampling import for_turn, with_markers
from envace.trajectory import Task, ToolCall, compact
from envace.worlds.base import World
from envace.worlds.tasks import rebuild

Recorded = Mapping[str, Sequence[tuple[ToolCall, str]]]
"""By task id: calls with their true responses, in order."""


@dataclass(frozen=True)
class Response:
    """The answer to one call."""

    text: str | None
    """The response; None when its writer was cut or broke the format, which ends the episode."""
    ids: tuple[int, ...] | None = None
    """Tokens sampled in the episode's own stream, end marker included; None has the text encoded."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each id that the policy sampled; empty when somebody else wrote it."""
    row: Row | None = None
    """The conversation of its own in which the policy wrote it."""
    cut: Cut | None = None
    """The cap its writer ran into."""


class Responder(Protocol):
    """Who answers tool calls."""

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[Response]:
        """Answer `episode.call` of every waiting episode, in order.

        An exception ends the whole roll-out: nobody is left waiting.
        """
        ...


def situation_of(episode: OpenEpisode, template: Template, references: Recorded) -> Situation:
    """What is known when an episode's call is to be answered."""
    return Situation(
        tools=episode.task.tools,
        messages=episode.messages,
        caller=template.raw(episode.turn_ids),
        call=episode.call,
        references=references.get(episode.task.id, ()),
    )


class WorldResponder:
    """Every episode has an executable world of its own."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Build a fresh world for each task; `tasks` are in the order of the prompts."""
        self.worlds: list[World] = [rebuild(task)[0] for task in tasks]
        self.executed = 0
        """Calls executed so far: the contact with the environment."""

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[Response]:
        """Execute the calls."""
        self.executed += len(waiting)
        return [Response(compact(self.worlds[episode.index].call(episode.call))) for episode in waiting]


class ReplayResponder:
    """Recorded responses: the k-th time an episode makes a call, the k-th one recorded for it."""

    def __init__(self, recorded: Recorded) -> None:
        """Answer from recordings by task id."""
        self.recorded = recorded
        self.missing = 0
        """Calls without a recording so far; each was answered by an error."""
        self._made: Counter[tuple[int, str]] = Counter()

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[Response]:
        """Look the responses up."""
        return [Response(self._one(episode)) for episode in waiting]

    def _one(self, episode: OpenEpisode) -> str:
        text = episode.call.text()
        known = [response for call, response in self.recorded.get(episode.task.id, ()) if call.text() == text]
        made = self._made[episode.index, text]
        self._made[episode.index, text] += 1
        if made < len(known):
            return known[made]
        self.missing += 1
        return compact({"error": "not recorded"})


class SimulatorResponder:
    """Another model, usually a frozen copy, plays the environment role; its tokens carry no loss."""

    own = False
    """Whether the policy itself writes, so that its tokens are trained."""

    def __init__(
        self,
        engine: Engine,
        template: Template,
        sampling: Sampling,
        layout: PromptedLayout | None = None,
        references: Recorded | None = None,
    ) -> None:
        """Answer with a model.

        Args:
            engine: The environment role; it talks the template of the episodes.
            template: That template.
            sampling: How it samples; `max_new_tokens` is a limit per response.
            layout: The `prompted` layout; None continues the chat, `inline`.
            references: Recorded calls to show in the prompted layout.
        """
        self.engine = engine
        self.template = template
        self.layout = layout
        self.references = references or {}
        stop = template.environment_stop_ids if layout is None else template.act_stop_ids
        self.sampling = with_markers(sampling, template, stop)
        self.turns = 0

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[Response]:
        """Sample a response to each."""
        read = self._inline if self.layout is None else self._prompted
        prompts = [self._prompt(episode) for episode in waiting]
        completions = self.engine.generate(prompts, for_turn(self.sampling, "environment", self.turns))
        self.turns += 1
        return [
            read(episode, prompt, group[0])
            for episode, prompt, group in zip(waiting, prompts, completions, strict=True)
        ]

    def _prompt(self, episode: OpenEpisode) -> list[int]:
        if self.layout is None:
            return episode.context
        situation = situation_of(episode, self.template, self.references)
        return environment_prompt(self.template, self.layout, situation)

    def _inline(self, episode: OpenEpisode, prompt: list[int], completion: Completion) -> Response:
        whole = completion.stopped and self.template.ends_response(completion.ids[-1], episode.more)
        return Response(
            text=self.template.response_text(completion.ids) if whole else None,
            ids=tuple(completion.ids),
            logprobs=tuple(completion.logprobs) if self.own else (),
            cut=None if completion.stopped else Cut.TOKENS,
        )

    def _prompted(self, episode: OpenEpisode, prompt: list[int], completion: Completion) -> Response:
        stream = TokenStream()
        stream.add(prompt, TokenRole.CONTEXT)
        stream.add(completion.ids, TokenRole.ENV)
        row = Row(stream, (*[0.0] * len(prompt), *completion.logprobs)) if self.own else None
        whole = self.template.is_answer(completion.ids)
        return Response(
            text=self.template.parse_act(completion.ids).content if whole else None,
            row=row,
            cut=None if completion.stopped else Cut.TOKENS,
        )


class RehearsalResponder(SimulatorResponder):
    """The policy itself plays the environment role."""

    own = True


@dataclass(frozen=True)
class Cast:
    """What responders are made of."""

    policy: Engine
    """The policy."""
    template: Template
    """Its chat template."""
    sampling: Sampling
    """How the environment role samples."""
    tasks: Sequence[Task]
    """Tasks in the order of the prompts."""
    simulator: Engine | None = None
    """The model that answers as `simulator`."""
    recorded: Recorded = field(default_factory=dict)
    """Recordings for `replay`, and references of the prompted layout."""
    layout: PromptedLayout | None = None
    """The environment role's layout; None is inline."""


def _simulator(cast: Cast) -> Responder:
    if cast.simulator is None:
        raise EnvaceError("environment: simulator without a simulator", "name the model that answers")
    return SimulatorResponder(cast.simulator, cast.template, cast.sampling, cast.layout, cast.recorded)


RESPONDERS: dict[str, Callable[[Cast], Responder]] = {
    "rehearsal": lambda cast: RehearsalResponder(
        cast.policy, cast.template, cast.sampling, cast.layout, cast.recorded
    ),
    "simulator": _simulator,
    "real": lambda cast: WorldResponder(cast.tasks),
    "replay": lambda cast: ReplayResponder(cast.recorded),
}


def responder(name: str, cast: Cast) -> Responder:
    """Who answers, by name."""
    if name not in RESPONDERS:
        raise EnvaceError(f"no responder {name!r}", f"one of {', '.join(RESPONDERS)}")
    return RESPONDERS[name](cast)
