"""A rule that asks: an OpenAI-compatible model judges every conversation, several times."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from envace.errors import EnvaceError
from envace.rewards.judge_prompt import answer_schema, judge_messages
from envace.trajectory import ChecklistItem, Trajectory

QUESTION = (
    "Was what the user asked for in this turn done with calls that it needs, with arguments the user or a "
    "tool response gave, and is every statement of the reply borne out by them?"
)
"""What makes a conversation worth training on; asked of every user turn."""
FAILURES = 20
"""Conversations in a row without a judgment that stop the filter: the judge is down, or unfit."""


class LlmJudge:
    """Refuses a conversation that a judge finds fault with in any of several passes.

    A later pass is asked only when the former found nothing. A conversation that gets no judgment is
    refused with that as its reason, never taken for good or bad.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        model: str,
        api_key_env: str = "",
        passes: int = 3,
        question: str = QUESTION,
        temperature: float = 0.7,
        tool_chars: int = 2000,
        **client: Any,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            endpoints: Base URLs of equal servers.
            model: Name of the judge there.
            api_key_env: Environment variable with the key; empty for none.
            passes: Judgments that must all be good.
            question: The condition each user turn must meet.
            temperature: Above 0, or all passes would say the same.
            tool_chars: Characters at most of a tool response shown.
            client: Further arguments of `engines.openai.ChatClient`.

        Raises:
            EnvaceError: No usable endpoint or key.
        """
        from envace.engines.openai import ChatClient

        self._client = ChatClient(endpoints, model, api_key_env, **client)
        self._passes = passes
        self._question = question
        self._temperature = temperature
        self._tool_chars = tool_chars
        self._failed = 0

    def __call__(self, trajectory: Trajectory) -> str | None:
        """Judge one conversation."""
        (reason,) = self.many([trajectory])
        return reason

    def many(self, trajectories: Sequence[Trajectory]) -> list[str | None]:
        """Judge several at once.

        Raises:
            EnvaceError: `FAILURES` conversations in a row got no judgment.
        """
        reasons: list[str | None] = []
        # Closing cancels the requests that are not under way yet when the failures stop the run.
        with closing(self._client.each(self._judge, trajectories)) as judged:
            for reason, failure in judged:
                self._failed = self._failed + 1 if failure else 0
                if self._failed >= FAILURES:
                    raise EnvaceError(
                        f"filter judge: no judgment {self._failed} times in a row; {failure}",
                        "mend the judge's server and filter anew",
                    )
                reasons.append(f"no judgment: {failure}" if failure else reason)
        return reasons

    def _judge(self, trajectory: Trajectory) -> tuple[str | None, str]:
        """Why the conversation is refused, if it is; and why it could not be judged, or an empty text."""
        from envace.engines.openai import ChatError

        turns = sum(message.role == "user" for message in trajectory.messages)
        if not turns:
            return "no user turn", ""
        items = [ChecklistItem(id=str(turn), question=self._question, turn=turn) for turn in range(turns)]
        messages = [message for message in trajectory.messages if message.name != "memory"]
        prompt = judge_messages(messages, items, self._tool_chars)
        for number in range(1, self._passes + 1):
            try:
                reply = self._client.chat(
                    prompt, schema=answer_schema(turns), temperature=self._temperature, seed=1000 * number
                )
            except ChatError as error:
                return None, error.message
            for turn in range(turns):
                grade = reply.value[str(turn + 1)]
                if not grade["pass"]:
                    return f"turn {turn}, pass {number}: {' '.join(grade['reason'].split())[:200]}", ""
        return None, ""
