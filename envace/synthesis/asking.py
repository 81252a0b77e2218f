"""Asking an endpoint so that nothing is paid for twice: a journal of answers, a limit of rate, the cost.

The journal is a file of JSON lines, one an answer, under a digest of what was asked. A run that was
killed reads it and asks only what it has no answer to; a changed prompt, model or seed asks anew.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envace.engines.openai import BadAnswerError, ChatClient
from envace.files import digest
from envace.trajectory import Message, compact

Check = Callable[[Any], str]
"""Why a value is no good although it fits its schema, in one line; empty when it is."""
REFUSALS = 3
"""Values that a check refuses before the question is given up."""
SPENT = ("requests", "prompt_tokens", "completion_tokens")
"""What is counted, fields of `engines.openai.Cost`."""


class RateLimit:
    """Spaces requests evenly; safe to use from many threads."""

    def __init__(
        self,
        per_minute: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """At most so many requests a minute; 0 is no limit."""
        self.interval = 60.0 / per_minute if per_minute else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = clock()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Sleep until the next request may be sent."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self.interval
        if turn > now:
            self._sleep(turn - now)


class Journal:
    """Answers by key, and what all runs have spent; every entry is in the file before it is used."""

    def __init__(self, path: Path) -> None:
        """Read what former runs left; a line that a kill cut off is dropped."""
        self._answers: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        spent: dict[int, list[int]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.is_file() else b""
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            entry = json.loads(line)
            self._answers[entry["key"]] = entry
            spent[entry["run"]] = entry["spent"]
        self.run = len(spent)
        """Number of this run among those that wrote here."""
        self.before = {name: sum(each[at] for each in spent.values()) for at, name in enumerate(SPENT)}
        """What the former runs spent."""
        self._file = path.open("r+b" if path.is_file() else "wb")
        self._file.truncate(len(whole))
        self._file.seek(len(whole))

    def get(self, key: str) -> dict[str, Any] | None:
        """The entry under a key."""
        return self._answers.get(key)

    def add(self, key: str, entry: dict[str, Any], spent: Sequence[int]) -> None:
        """Keep an answer, with what this run has spent so far."""
        line = compact({"key": key, **entry, "run": self.run, "spent": list(spent)}) + "\n"
        with self._lock:
            self._answers[key] = entry
            # Escaped, since half an emoji in somebody's answer has no UTF-8 form.
            self._file.write(line.encode("utf-8", "backslashreplace"))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Asker:
    """Asks for values of a schema; safe to use from many threads."""

    def __init__(self, client: ChatClient, journal: Journal, limit: RateLimit, temperature: float) -> None:
        """Ask `client` what `journal` has no answer to.

        Args:
            client: The endpoint.
            journal: Answers of former runs.
            limit: How fast questions may follow each other.
            temperature: Of all answers.
        """
        self.client = client
        self._journal, self._limit, self._temperature = journal, limit, temperature

    def ask(
        self,
        messages: Sequence[Message],
        schema: dict[str, Any],
        seed: int,
        check: Check = lambda value: "",
        strict: bool = True,
    ) -> Any:
        """The answer to a question.

        Args:
            messages: The question.
            schema: JSON schema of the answer.
            seed: Of the endpoint's sampler.
            check: What the answer must meet besides; it is asked for anew, `REFUSALS` times in all.
            strict: Whether the schema is of the kind that strict modes take.

        Raises:
            BadAnswerError: None of the answers will do; that is kept, too, and not asked again.
            ChatError: The endpoint gave no answer.
        """
        asked = [message.model_dump(exclude_defaults=True) for message in messages]
        key = digest(self.client.model, asked, schema, seed, self._temperature)
        entry = self._journal.get(key)
        if entry is None:
            try:
                entry = {"value": self._accepted(messages, schema, seed, check, strict)}
            except BadAnswerError as error:
                entry = {"refused": error.message}
            cost = self.client.cost
            self._journal.add(key, entry, [getattr(cost, name) for name in SPENT])
        if "refused" in entry:
            raise BadAnswerError(entry["refused"])
        return entry["value"]

    def _accepted(
        self, messages: Sequence[Message], schema: dict[str, Any], seed: int, check: Check, strict: bool
    ) -> Any:
        problem = ""
        for attempt in range(REFUSALS):
            self._limit.wait()
            value = self.client.chat(
                messages,
                schema=schema,
                temperature=self._temperature,
                seed=seed + 10 * attempt,
                strict=strict,
            ).value
            problem = check(value)
            if not problem:
                return value
        raise BadAnswerError(f"{problem}, {REFUSALS} times")

    def spent(self) -> dict[str, int]:
        """Requests and tokens of all runs together."""
        return {name: self._journal.before[name] + getattr(self.client.cost, name) for name in SPENT}
