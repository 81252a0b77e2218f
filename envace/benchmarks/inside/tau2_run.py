"""Runs inside the τ² environment: play (or replay) tasks, score them officially, list items.

Usage: `python tau2_run.py JOB OUTCOME`, both JSON files.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import journal
import lifeline
from loguru import logger
from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import Action
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.orchestrator.orchestrator import Orchestrator
from tau2.registry import registry
from tau2.user.base import STOP
from tau2.utils.utils import get_now
from tau2_players import EndpointFailed, ServedAgent, TaskLost, user_of
from transcripts import transcript

MAX_STEPS = {"mock": 30}
"""Messages a conversation may have, where it is not the usual 200; mock's longest gold path has 1 call."""

UNWRITTEN = {
    "update_task_with_history_and_env_assertions": Action(
        action_id="update_1",
        name="update_task_status",
        arguments={"task_id": "task_2", "status": "completed"},
    )
}
"""Gold actions the data leaves out: this task has assertions only; its sibling has the action."""


def instructions_of(task: Any) -> str:
    """What the user is told to want, verbatim."""
    return str(task.user_scenario.instructions)


def play(domain: str, task: Any, seed: int) -> tuple[SimulationRun, ServedAgent]:
    """One conversation between the served model and the user."""
    environment = registry.get_env_constructor(domain)()
    agent = ServedAgent(environment.get_tools(), environment.get_policy())
    user = user_of(task, environment)
    steps = MAX_STEPS.get(domain, 200)
    orchestrator = Orchestrator(domain, agent, user, environment, task, max_steps=steps, seed=seed)
    return orchestrator.run(), agent


def gold_actions(task: Any) -> list[Action]:
    """The reference actions of a task."""
    written = (task.evaluation_criteria and task.evaluation_criteria.actions) or []
    return written or [action for name, action in UNWRITTEN.items() if name == task.id]


def replay(domain: str, task: Any, mode: str) -> SimulationRun:
    """A conversation with the gold actions (`gold`) or with none (`nothing`)."""
    environment = registry.get_env_constructor(domain)()
    start, criteria = task.initial_state, task.evaluation_criteria
    history = list((start and start.message_history) or [])
    environment.set_state(
        initialization_data=start and start.initialization_data,
        initialization_actions=start and start.initialization_actions,
        message_history=history,
    )
    messages = [*history, UserMessage(role="user", content=instructions_of(task))]
    for index, action in enumerate(gold_actions(task) if mode == "gold" else []):
        speaker = AssistantMessage if action.requestor == "assistant" else UserMessage
        call = ToolCall(
            id=f"gold_{index}", name=action.name, arguments=action.arguments, requestor=action.requestor
        )
        messages += [speaker(role=action.requestor, tool_calls=[call]), environment.get_response(call)]
    words = criteria.communicate_info or [] if mode == "gold" else []
    messages.append(AssistantMessage(role="assistant", content="\n".join(["Goodbye.", *words])))
    messages.append(UserMessage(role="user", content=STOP))
    now = get_now()
    return SimulationRun(
        id=task.id,
        task_id=task.id,
        start_time=now,
        end_time=now,
        duration=0,
        termination_reason=TerminationReason.USER_STOP,
        messages=messages,
    )


def outcome_of(domain: str, task: Any, mode: str, seed: int) -> dict[str, Any]:
    """Play or replay one task and score it officially."""
    row: dict[str, Any] = {"id": task.id, "category": domain, "success": 0, "error": "", "answer": []}
    try:
        if mode == "run":
            run, agent = play(domain, task, seed)
            row |= {
                "act_tokens": agent.act_tokens,
                "rehearsal_tokens": agent.rehearsal_tokens,
                "steps": agent.steps,
            }
        else:
            run = replay(domain, task, mode)
    except TaskLost as error:
        return row | {"error": str(error)}
    except Exception as error:
        return row | {"success": None, "error": f"{type(error).__name__}: {error}"[:200]}
    row["answer"] = transcript(run.messages)
    try:
        reward = evaluate_simulation(run, task, EvaluationType.ALL, False, domain)
    except ValueError as error:
        # Assertions raise where the object they look at was never made.
        return row | {"error": f"assertion failed: {error}"[:200]}
    parts = {kind.value: float(value) for kind, value in (reward.reward_breakdown or {}).items()}
    row |= {"success": int(reward.reward >= 1.0), "scores": parts}
    if not row["success"]:
        ended = run.termination_reason not in (TerminationReason.USER_STOP, TerminationReason.AGENT_STOP)
        row["error"] = run.termination_reason.value if ended else "not solved"
    return row


def items(domains: list[str]) -> list[dict[str, Any]]:
    """Tasks of the base split (τ² has tests in all of it), marked with the split that holds them."""
    rows = []
    for domain in domains:
        environment = registry.get_env_constructor(domain)()
        user_tools = environment.get_user_tools() if environment.user_tools else []
        functions = [t.openai_schema["function"] for t in environment.get_tools() + user_tools]
        schemas = {f["name"]: list(f["parameters"].get("properties", {})) for f in functions}
        load = registry.get_tasks_loader(domain)
        test = set() if domain == "mock" else {task.id for task in load("test")}
        for task in load("base"):
            calls = [{"name": a.name, "arguments": a.arguments} for a in gold_actions(task)]
            gold = json.dumps(calls, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            rows.append(
                {
                    "benchmark": "tau2",
                    "id": f"{domain}/{task.id}",
                    "split": f"{domain}/{'test' if task.id in test else 'base'}",
                    "text": instructions_of(task),
                    "tools": list(schemas),
                    "schemas": schemas,
                    "gold_calls": gold if calls else "",
                }
            )
    return rows


def outcome(domain: str, known: dict[str, Any], mode: str, seed: int, id: str) -> dict[str, Any]:
    """Outcome of a task by its full id, `DOMAIN/ID`."""
    return outcome_of(domain, known[id], mode, seed) | {"id": id}


def tasks(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Outcomes of the tasks asked for."""
    rows = []
    for domain, ids in job["ids"].items():
        known = {f"{domain}/{task.id}": task for task in registry.get_tasks_loader(domain)("base")}
        seed = int(os.environ.get("ENVACE_SEED", "0"))
        rows += journal.each(
            ids,
            Path("finished.jsonl") if job["mode"] == "run" else None,
            partial(outcome, domain, known, job["mode"], seed),
        )
    return rows


def main() -> int:
    """Do the job; a failure of the endpoint is written as `{"fatal": reason}` and exits 3."""
    logger.remove()
    lifeline.tie()
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    outcome: dict[str, Any]
    try:
        outcome = {"items": items(job["domains"])} if job["mode"] == "items" else {"tasks": tasks(job)}
    except EndpointFailed as error:
        outcome = {"fatal": str(error)}
    Path(sys.argv[2]).write_text(json.dumps(outcome), "utf-8")
    return 3 if "fatal" in outcome else 0


if __name__ == "__main__":
    sys.exit(main())
