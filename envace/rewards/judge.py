"""Judge reward: an OpenAI-compatible model says which conditions hold.

One request an episode, with all its conditions. A judge that fails masks the trajectory (reward
None) instead of scoring it 0, because an outage is no fault of the policy; and one that fails too
often stops the run, because then nothing is learned.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from envace.engines.openai import ChatClient, ChatError, Cost
from envace.errors import EnvaceError
from envace.rewards.base import Scored, world_verdict
from envace.rewards.judge_prompt import answer_schema, judge_messages
from envace.rewards.turns import conversation, user_turns, weighted
from envace.rollout.episode import Episode
from envace.trajectory import ChecklistItem, Message

FULFILLED = ChecklistItem(
    id="fulfilled",
    question="Was everything the user asked for done, and is every statement of the final answer "
    "borne out by a tool response or by the user?",
)
"""The one condition of a task that has no checklist."""

Case = tuple[Episode, Sequence[ChecklistItem]]
"""An episode and the conditions asked about it."""


@dataclass(frozen=True)
class Question:
    """What one request asks."""

    case: int
    """Position of the case."""
    messages: list[Message]
    """The episode's conversation."""
    places: list[int]
    """Positions of the conditions asked about, among the case's."""
    items: list[ChecklistItem]
    """Those conditions."""


class Judge:
    """Judges whole checklists, or single items on behalf of the checklist reward."""

    def __init__(
        self, client: ChatClient, max_failures: float = 0.5, window: int = 20, tool_chars: int = 2000
    ) -> None:
        """Judge through `client`.

        Args:
            client: The judge's servers.
            max_failures: Share of failed judgments among the last `window` that stops the run
                when it is passed.
            window: Judgments that share is taken over, once there were so many.
            tool_chars: Characters at most of a tool response shown; the rubric is never cut.
        """
        self.client = client
        self.max_failures = max_failures
        self.tool_chars = tool_chars
        self._failed: deque[bool] = deque(maxlen=window)

    @property
    def cost(self) -> Cost:
        """Requests and tokens so far."""
        return self.client.cost

    def score(self, episodes: Sequence[Episode]) -> list[Scored]:
        """Judge every item of each task's checklist, whatever its kind; `parts` holds 1 or 0 an item.

        Raises:
            EnvaceError: Too many judgments failed.
        """
        lists = [episode.task.checklist or (FULFILLED,) for episode in episodes]
        scored = []
        opinions = self.ask(list(zip(episodes, lists, strict=True)))
        for episode, items, passed in zip(episodes, lists, opinions, strict=True):
            verdict = world_verdict(episode)
            if passed is None:
                scored.append(Scored(episode, None, {}, verdict))
            else:
                parts = {item.id: float(held) for item, held in zip(items, passed, strict=True)}
                scored.append(Scored(episode, weighted(items, passed), parts, verdict))
        return scored

    def ask(self, cases: Sequence[Case]) -> list[list[bool] | None]:
        """Ask about the conditions of every case, concurrently.

        Returns:
            For each case whether each condition holds, in order, False for turns not reached; or
            None when no judgment could be had. Nothing is sent where there is nothing to ask.

        Raises:
            EnvaceError: Too many judgments failed.
        """
        opinions: list[list[bool] | None] = [[False] * len(items) for _, items in cases]
        questions = [question for index, case in enumerate(cases) if (question := _question(index, case))]
        # Closing stops the requests that are not under way yet when the failures stop the run.
        with closing(self.client.each(self._grade, questions)) as answers:
            for question, grades in zip(questions, answers, strict=True):
                self._watch(grades)
                opinion = opinions[question.case]
                if isinstance(grades, ChatError) or opinion is None:
                    opinions[question.case] = None
                    continue
                for place, passed in zip(question.places, grades, strict=True):
                    opinion[place] = passed
        return opinions

    def _grade(self, question: Question) -> list[bool] | ChatError:
        prompt = judge_messages(question.messages, question.items, self.tool_chars)
        count = len(question.items)
        try:
            grades = self.client.chat(prompt, schema=answer_schema(count)).value
        except ChatError as error:
            return error
        return [grades[str(number)]["pass"] for number in range(1, count + 1)]

    def _watch(self, grades: list[bool] | ChatError) -> None:
        self._failed.append(isinstance(grades, ChatError))
        failed, window = sum(self._failed), len(self._failed)
        full = window == self._failed.maxlen
        if isinstance(grades, ChatError) and full and failed > self.max_failures * window:
            raise EnvaceError(
                f"the judge failed {failed} of the last {window} times; {grades.message}",
                "mend the judge's server and go on: the run resumes",
            )


def _question(index: int, case: Case) -> Question | None:
    """What to ask about a case; None when no turn with a condition was reached."""
    episode, items = case
    messages = conversation(episode)
    reached = len(user_turns(messages))
    places = [place for place, item in enumerate(items) if item.turn < reached]
    return Question(index, messages, places, [items[place] for place in places]) if places else None


def remote_judge(
    endpoints: Sequence[str],
    model: str,
    api_key_env: str = "",
    client: Mapping[str, Any] | None = None,
    **options: Any,
) -> Judge:
    """A judge behind endpoints.

    Args:
        endpoints: Base URLs of equal servers.
        model: Name of the judge there.
        api_key_env: Environment variable with the key.
        client: Further arguments of `ChatClient`.
        options: Further arguments of `Judge`.
    """
    return Judge(ChatClient(endpoints, model, api_key_env, **(client or {})), **options)
