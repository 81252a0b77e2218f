"""The act/respond loop, turn by turn, whoever answers.

Everything stays in token space: what a role sampled is kept as it is, bridges and foreign
responses are appended as context, and nothing is ever tokenized again. So training sees
exactly what sampling saw, and an engine may keep its cache from turn to turn.
"""

from collections.abc import Callable, Sequence

from envace.chat import Template, TokenRole
from envace.engines import Completion, Engine, Sampling
from envace.rollout.episode import Cut, Episode, Limits, Notes
from envace.rollout.open_episode import OpenEpisode
from envace.rollout.responders import Responder, Response
from envace.rollout.sampling import for_turn, with_markers
from envace.trajectory import Message, Task

ActTurns = Callable[[Sequence[OpenEpisode], Sampling], list[Completion]]
"""(waiting episodes, sampling) → the next act turn of each."""


def answered_episodes(
    engine: Engine,
    template: Template,
    prompts: Sequence[tuple[Task, Notes]],
    sampling: Sampling,
    responder: Responder,
    limits: Limits | None = None,
    act_turns: ActTurns | None = None,
) -> list[Episode]:
    """Run every prompt to its end, all in step as one batch a turn.

    Args:
        engine: The act role.
        template: Its chat template.
        prompts: Tasks with their private notes.
        sampling: How the act role samples; `max_new_tokens` is a limit per turn.
        responder: Who answers.
        limits: Caps; an episode that runs into one says so in `Episode.cut`.
        act_turns: Writes the act turns; unless given, `engine` continues each episode as it stands.
    """
    limits = limits or Limits()
    episodes = [OpenEpisode(index, template, *prompt) for index, prompt in enumerate(prompts)]
    sampling = with_markers(sampling, template, template.act_stop_ids)
    for turn in range(limits.turns):
        for episode in _active(episodes):
            if not episode.fits(sampling.max_new_tokens, limits.tokens):
                episode.end(Cut.TOKENS)
        active = _active(episodes)
        if not active:
            break
        own = for_turn(sampling, "act", turn)
        written = act_turns(active, own) if act_turns else _continue(engine, active, own)
        for episode, completion in zip(active, written, strict=True):
            _act(template, episode, completion, limits)
        _answer(template, _active(active), responder, limits)
    for episode in _active(episodes):
        episode.end(Cut.TURNS)
    return [episode.close() for episode in episodes]


def _active(episodes: Sequence[OpenEpisode]) -> list[OpenEpisode]:
    return [episode for episode in episodes if not episode.over]


def _continue(engine: Engine, episodes: Sequence[OpenEpisode], sampling: Sampling) -> list[Completion]:
    return [group[0] for group in engine.generate([episode.context for episode in episodes], sampling)]


def _act(template: Template, episode: OpenEpisode, completion: Completion, limits: Limits) -> None:
    """Take in an act turn: calls keep the episode open, anything else ends it."""
    ids = completion.ids
    legal = completion.stopped and ids[-1] in template.end_ids | {template.call_end}
    episode.write(ids, TokenRole.ACT, completion.logprobs, ids[-1] if legal else None)
    message = template.parse_act(ids)
    if len(message.tool_calls) > limits.calls:
        episode.end(Cut.CALLS)
    elif message.tool_calls:
        episode.turn, episode.turn_ids, episode.position = message.tool_calls, ids, 0
        episode.calls += message.tool_calls
        before = episode.context[: -len(ids)]
        episode.fork(template.after_act(before, ids))
    elif template.is_answer(ids):
        episode.answer = message.content
        episode.end()
    else:
        episode.end(None if completion.stopped else Cut.TOKENS)


def _answer(
    template: Template, episodes: Sequence[OpenEpisode], responder: Responder, limits: Limits
) -> None:
    """Answer the calls of a turn one after another: a later call sees the responses before it."""
    waiting = list(episodes)
    while waiting:
        for episode in waiting:
            episode.write(template.bridge_to_response(episode.last), TokenRole.CONTEXT)
        for episode, response in zip(waiting, responder.respond(waiting), strict=True):
            _receive(template, episode, response, limits)
        going_on = _active(waiting)
        waiting = [episode for episode in going_on if episode.more]
        for episode in going_on:
            if episode.more:
                episode.position += 1
            else:
                episode.write(template.bridge_to_act(episode.last), TokenRole.CONTEXT)


def _receive(template: Template, episode: OpenEpisode, response: Response, limits: Limits) -> None:
    """Take in a response; tokens that the policy did not sample are context."""
    if response.row is not None:
        episode.forks.append(response.row)
    ids = response.ids
    if ids is None:
        ids = () if response.text is None else tuple(template.response_ids(response.text, episode.more))
    if not episode.fits(len(ids), limits.tokens):
        episode.end(Cut.TOKENS)
        return
    marker = ids[-1] if ids and response.text is not None else None
    role = TokenRole.ENV if response.logprobs else TokenRole.CONTEXT
    episode.write(ids, role, response.logprobs, marker)
    if response.text is None:
        episode.end(response.cut)
        return
    if episode.position == 0:
        episode.messages.append(template.parse_act(episode.turn_ids))
    episode.messages.append(Message(role="tool", name=episode.call.name, content=response.text))
    episode.responses.append(response.text)
