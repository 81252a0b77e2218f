"""A model behind OpenAI-compatible servers plays the environment role.

It talks a template of its own, so it is always shown the `prompted` layout, as text. A server that
stays away ends the roll-out with an error: an outage must not look like a policy that failed.
"""

import json
from collections.abc import Sequence

from envace.chat import Template
from envace.chat.prompted import PromptedLayout, environment_messages
from envace.engines.openai import ChatClient
from envace.rollout.episode import Cut
from envace.rollout.open_episode import OpenEpisode
from envace.rollout.responders import Recorded, Response, situation_of
from envace.trajectory import compact


class RemoteSimulator:
    """Answers the calls of waiting episodes concurrently; its tokens carry no loss."""

    def __init__(
        self,
        client: ChatClient,
        template: Template,
        layout: PromptedLayout | None = None,
        references: Recorded | None = None,
        temperature: float = 1.0,
        max_tokens: int = 512,
        seed: int = 0,
    ) -> None:
        """Answer through `client`.

        Args:
            client: The servers.
            template: The episodes' template; it measures `layout.max_tokens` too.
            layout: What the simulator is shown; everything unless given.
            references: Recorded calls to show.
            temperature: Of its sampling.
            max_tokens: Tokens of a response at most; a longer one ends its episode as cut.
            seed: Of its sampling; every call gets one of its own.
        """
        self.client = client
        self.template = template
        self.layout = layout or PromptedLayout()
        self.references = references or {}
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.seed = seed
        self.answered = 0

    def respond(self, waiting: Sequence[OpenEpisode]) -> list[Response]:
        """Ask for a response to each.

        Raises:
            ChatError: A call got no reply from any server.
        """
        seeds = range(self.seed + self.answered, self.seed + self.answered + len(waiting))
        self.answered += len(waiting)
        return list(self.client.each(self._one, list(zip(waiting, seeds, strict=True))))

    def _one(self, asked: tuple[OpenEpisode, int]) -> Response:
        episode, seed = asked
        situation = situation_of(episode, self.template, self.references)
        prompt = environment_messages(self.template, self.layout, situation)
        reply = self.client.chat(prompt, temperature=self.temperature, max_tokens=self.max_tokens, seed=seed)
        if reply.finish_reason == "length":
            return Response(None, cut=Cut.TOKENS)
        return Response(evened(reply.message.content) or None)


def evened(text: str) -> str:
    """A response as a world would print it: thoughts, fence and spacing of JSON taken off."""
    bare = text.rpartition("</think>")[2].strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.strip("`").removeprefix("json").strip()
    try:
        return compact(json.loads(bare))
    except (ValueError, RecursionError):
        return bare
