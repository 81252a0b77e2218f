"""Tool servers without an environment: an endpoint writes task, arguments, responses and replies.

Input is what `envace import mcp-tools` writes, a server a line. Many tasks are under way at once; each
answer is in the journal before it is used, so that a killed run never pays for it again.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envace.engines.openai import BadAnswerError, ChatClient, ChatError
from envace.errors import EnvaceError
from envace.filters.calls import SchemaCache
from envace.imports.mcp_tools import ToolServer
from envace.progress import track
from envace.synthesis.asking import Asker, Journal, RateLimit
from envace.synthesis.base import Made
from envace.synthesis.mcp_item import Item, draw, write
from envace.trajectory import Quarantined, compact
from envace.trajectory.jsonl import describe, numbered_lines

FAILURES = 5
"""Tasks in a row without an answer that stop the run: the endpoint is down."""


class Mcp:
    """Conversations over the tools of MCP servers."""

    def __init__(
        self,
        servers: str,
        endpoints: Sequence[str],
        model: str,
        api_key_env: str = "",
        turns: int = 2,
        tools: int = 12,
        temperature: float = 0.7,
        per_minute: float = 0,
        prompt_price: float = 0,
        completion_price: float = 0,
        **client: Any,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            servers: File that `envace import mcp-tools` wrote.
            endpoints: Base URLs of equal OpenAI-compatible servers.
            model: Name of the model there.
            api_key_env: Environment variable with the key; empty for none.
            turns: User turns of a task at most.
            tools: Tools on offer in a task at most.
            temperature: Of everything that is written.
            per_minute: Questions a minute at most; 0 is no limit. Repeated attempts do not count.
            prompt_price: Of a million tokens read.
            completion_price: Of a million tokens written.
            client: Further arguments of `engines.openai.ChatClient`, as `concurrency`.

        Raises:
            EnvaceError: No usable endpoint, key or number.
        """
        if min(turns, tools) < 1 or per_minute < 0:
            raise EnvaceError(f"turns {turns}, tools {tools}, per_minute {per_minute}", "from 1, 1 and 0 on")
        listed = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        self.client = ChatClient(listed, model, api_key_env, **client)
        self.servers, self.turns, self.tools = Path(servers), turns, tools
        self.temperature, self.limit = temperature, RateLimit(per_minute)
        self.prices = {"prompt_tokens": prompt_price, "completion_tokens": completion_price}
        self._spent: dict[str, Any] = {}

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Made]:
        """See `Source.generate`; None writes one task a server.

        Raises:
            EnvaceError: The file holds no tool server, or `FAILURES` tasks in a row got no answer.
        """
        servers, bad = self._read()
        yield from bad
        order = list(range(len(servers)))
        random.Random(f"mcp/{seed}").shuffle(order)
        schemas = SchemaCache()
        items: list[Item] = []
        for number in range(len(servers) if count is None else count):
            line, server = servers[order[number % len(order)]]
            item = draw(server, line, number, seed, self.turns, self.tools, schemas)
            if item is None:
                yield self._aside(line, "no tool with a usable schema", server.id)
            else:
                items.append(item)
        journal = Journal(scratch)
        asker = Asker(self.client, journal, self.limit, self.temperature)

        def written(item: Item) -> Made | ChatError:
            try:
                return write(item, asker, seed)
            except BadAnswerError as error:
                return self._aside(item.line, error.message, _named(item))
            except ChatError as error:
                return error

        try:
            # Closing stops the tasks that are not under way yet when the failures stop the run.
            with closing(self.client.each(written, items)) as results:
                yield from self._steady(items, results, scratch)
        finally:
            self._spent = self._facts(asker)
            journal.close()

    def _steady(
        self, items: Sequence[Item], results: Iterator[Made | ChatError], scratch: Path
    ) -> Iterator[Made]:
        failed = 0
        for item, result in zip(track(items, "mcp tasks"), results, strict=True):
            failed = failed + 1 if isinstance(result, ChatError) else 0
            if failed >= FAILURES:
                assert isinstance(result, ChatError)
                raise EnvaceError(
                    f"mcp: no answer to {failed} tasks in a row; {result.message}",
                    f"mend the endpoint and run it again: all answers so far are in {scratch}",
                )
            # Not in the journal: the next run asks again.
            if isinstance(result, ChatError):
                result = self._aside(item.line, result.message, _named(item))
            yield result

    def _facts(self, asker: Asker) -> dict[str, Any]:
        spent = asker.spent()
        cost = sum(spent[name] * price for name, price in self.prices.items()) / 1_000_000
        return {**spent, "cost": round(cost, 6)}

    def facts(self) -> dict[str, Any]:
        """Requests, tokens and cost of all runs that shared the journal."""
        return self._spent

    def _read(self) -> tuple[list[tuple[int, ToolServer]], list[Quarantined]]:
        servers, bad = [], []
        for line, text in numbered_lines(self.servers):
            try:
                servers.append((line, ToolServer.model_validate_json(text)))
            except ValidationError as error:
                bad.append(self._aside(line, describe(error), text))
        if not servers:
            where = f"{self.servers}:{bad[0].line}: {bad[0].reason}" if bad else f"{self.servers}: empty"
            raise EnvaceError(where, "make it with `envace import mcp-tools`")
        return servers, bad

    def _aside(self, line: int, reason: str, record: str) -> Quarantined:
        return Quarantined(file=str(self.servers), line=line, rule="mcp", reason=reason, record=record)


def _named(item: Item) -> str:
    """What identifies a task that was not written."""
    return compact({"item": item.number, "server": item.server.id, "focus": item.focus, "turns": item.turns})
