"""FinMCP-Bench with its recorded tool responses replayed: the live tools need a vendor's server.

The generation that is published with the benchmark asks the model at every user turn of the recorded
conversation, with the recording up to that turn as history, and lets it call live tools until it answers. The
same is done here, but the tools answer from the recording.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envace.benchmarks import finmcp_score
from envace.benchmarks.adapter import Adapter, Ids, chat_client
from envace.benchmarks.base import BenchmarkItem
from envace.benchmarks.copies import copy_of
from envace.benchmarks.inside import journal
from envace.engines.openai import ChatClient, ChatError
from envace.errors import EnvaceError
from envace.files import digest
from envace.imports.containers import raw_records
from envace.imports.conversation import Origin
from envace.imports.finmcp import convert, kind
from envace.progress import track
from envace.trajectory import Message, Tool, ToolCall, Trajectory

MOST_CALLS = 20
"""Calls after which a turn ends without an answer, as in the published configuration."""

UNRECORDED = "error: no response is recorded for this call"
"""What a tool answers where the recording has nothing."""

TOO_LONG = "context_length_exceeded"
"""OpenAI's error code for a conversation that does not fit: the one error that is the model's own."""


def read_samples(path: Path) -> dict[str, tuple[str, Trajectory]]:
    """Samples of a file by id, each with its kind (`single_step`, `multi_step`, `multi_turn`).

    Raises:
        EnvaceError: The file is absent, a record is no sample, or an id is there twice.
    """
    samples: dict[str, tuple[str, Trajectory]] = {}
    for raw in raw_records(path):
        place = f"{path}:{raw.line}"
        try:
            if raw.error:
                raise ValueError(raw.error)
            sample = convert(raw.value, Origin("finmcp", str(raw.line), place)).record
            if sample.id in samples:
                raise ValueError(f"id {sample.id} is there twice")
            samples[sample.id] = kind(raw.value), sample
        except ValueError as error:
            raise EnvaceError(
                f"{place}: {error}", "give the file of DianJin/FinMCP-Bench as published"
            ) from error
    return samples


class Finmcp(Adapter):
    """The adapter of FinMCP-Bench; it needs no environment of its own."""

    name = "finmcp"
    harness = "finmcp"

    def samples(self) -> dict[str, tuple[str, Trajectory]]:
        """The user's copy."""
        return read_samples(copy_of("finmcp", self.root))

    def ids(self) -> Ids:
        """Ids by kind."""
        found: dict[str, list[str]] = {}
        for id, (category, _) in self.samples().items():
            found.setdefault(category, []).append(id)
        return found

    def describe(self, limit: int) -> dict[str, Any]:
        """The fields of the result that say what was run."""
        size = f"a sample of {limit} a kind" if limit else "all samples of the user's file"
        return {
            "protocol": f"FinMCP-Bench, {size}, teacher-forced replay: at every user turn the model has the "
            "recorded conversation up to that turn and answers on its own, its tools from the recording of "
            "the turn (the response to the same call, else the next unused one of the same tool, else an "
            f"error), until it calls nothing or has made {MOST_CALLS} calls. All tools of the file are "
            "offered by name; their schemas are not published. A task's success is the exact match of the "
            "flat ordered list of tool names, as in the published code (emr_flat; emr_grouped lets the order "
            "inside a parallel group be free, as the paper does); tp, tr and tf1 are micro-averaged over "
            "multisets of names. Internal: published scores have live tools with schemas.",
            "official": False,
            "harness": "envace's own scorer",
            "dataset_sha": digest(copy_of("finmcp", self.root)),
        }

    def outcomes(
        self, ids: Ids, base_url: str, model: str, seed: int, work: Path | None = None
    ) -> Iterator[dict[str, Any]]:
        """Ask the model for every conversation."""
        samples = self.samples()
        tools = offered(trajectory for _, trajectory in samples.values())
        client = chat_client(base_url, model)
        try:
            chosen = track([id for of_kind in ids.values() for id in of_kind], "finmcp")
            yield from journal.each(
                chosen,
                work and work / "finished.jsonl",
                lambda id: score(id, *samples[id], *converse(client, samples[id][1], tools, seed)),
            )
        finally:
            client.close()

    def replay(self, mode: str, ids: Ids, **job: Any) -> list[dict[str, Any]]:
        """Outcomes of the recorded calls (`gold`), of all but the last (`spoiled`), of none (`nothing`)."""
        made = {"gold": recorded, "spoiled": spoiled, "nothing": lambda _: []}[mode]
        samples = self.samples()
        chosen = [id for of_kind in ids.values() for id in of_kind]
        return [score(id, *samples[id], made(samples[id][1]), {}) for id in chosen]

    def measures(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Micro and macro scores and both exact matches over all tasks measured."""
        samples = self.samples()
        return finmcp_score.measures([(row["answer"], recorded(samples[row["id"]][1])) for row in rows])

    def items(self) -> list[BenchmarkItem]:
        """All samples, for the leakage check."""
        return [item(category, sample) for category, sample in self.samples().values()]


def score(
    id: str, category: str, sample: Trajectory, predicted: finmcp_score.Groups, spent: dict[str, Any]
) -> dict[str, Any]:
    """One conversation scored."""
    gold = recorded(sample)
    counts, exact = finmcp_score.overlap(predicted, gold), finmcp_score.exact_flat(predicted, gold)
    error = "" if exact else spent.get("error") or f"{counts.extra} calls too many, {counts.missed} missed"
    if not exact and not (counts.extra or counts.missed):
        error = "another order"
    return spent | {
        "id": id,
        "category": category,
        "success": int(exact),
        "scores": {
            "tp": counts.precision,
            "tr": counts.recall,
            "tf1": counts.f1,
            "emr_grouped": float(finmcp_score.exact_grouped(predicted, gold)),
        },
        "error": error,
        "answer": predicted,
    }


def item(category: str, sample: Trajectory) -> BenchmarkItem:
    """A sample as the leakage check sees it; its tools have no known parameters."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in sample.calls()]
    gold = json.dumps(calls, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return BenchmarkItem(
        benchmark="finmcp",
        id=sample.id,
        split=category,
        text=sample.user_text(),
        tools=tuple(tool.name for tool in sample.tools),
        schemas={tool.name: () for tool in sample.tools},
        gold_calls=gold if calls else "",
    )


def offered(samples: Iterable[Trajectory]) -> list[Tool]:
    """Tools of all samples by name, so that the tools on offer do not give a sample's answer away."""
    tools = {tool.name: tool for sample in samples for tool in sample.tools}
    return [tools[name] for name in sorted(tools)]


def recorded(sample: Trajectory) -> list[list[str]]:
    """Names called in each assistant turn that calls something."""
    return [[call.name for call in m.tool_calls] for m in sample.messages if m.tool_calls]


def spoiled(sample: Trajectory) -> list[list[str]]:
    """The recorded calls without the last; an unknown tool where nothing is called."""
    groups = recorded(sample)
    return [*groups[:-1], groups[-1][:-1]] if groups else [["spoiled"]]


def turns(sample: Trajectory) -> Iterator[tuple[Sequence[Message], list[tuple[ToolCall, str]]]]:
    """Every user turn: the recording up to it, and the calls recorded after it with their responses."""
    messages = sample.messages
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        after = messages[start + 1 : end]
        responses = {m.tool_call_id: m.content for m in after if m.role == "tool"}
        calls = [call for message in after for call in message.tool_calls]
        yield messages[: start + 1], [(call, responses.get(call.id, UNRECORDED)) for call in calls]


def answer(call: ToolCall, left: list[tuple[ToolCall, str]]) -> str:
    """The recorded response to a call, which is then used up."""
    same = [pair for pair in left if pair[0].name == call.name]
    if not same:
        return UNRECORDED
    pair = next((pair for pair in same if pair[0].arguments == call.arguments), same[0])
    left.remove(pair)
    return pair[1]


def converse(
    client: ChatClient, sample: Trajectory, tools: Sequence[Tool], seed: int
) -> tuple[list[list[str]], dict[str, Any]]:
    """Names the model calls over a whole conversation, and what it cost.

    Raises:
        EnvaceError: The endpoint failed, other than for a context too long, which ends the turn.
    """
    groups: list[list[str]] = []
    spent: dict[str, Any] = {"act_tokens": 0, "rehearsal_tokens": 0, "steps": 0}
    for history, left in turns(sample):
        messages, calls = list(history), 0
        while calls < MOST_CALLS:
            try:
                reply = client.chat(messages, tools, seed=seed)
            except ChatError as error:
                if TOO_LONG not in error.message:
                    raise EnvaceError(f"finmcp: the endpoint failed: {error.message}", error.mend) from error
                spent["error"] = TOO_LONG
                break
            spent["act_tokens"] += reply.completion_tokens
            spent["rehearsal_tokens"] += reply.rehearsal_tokens
            spent["steps"] += 1
            made = reply.message.tool_calls
            if not made:
                break
            groups.append([call.name for call in made])
            calls += len(made)
            said = [
                Message(role="tool", name=call.name, tool_call_id=call.id, content=answer(call, left))
                for call in made
            ]
            messages += [reply.message, *said]
    return groups, spent
