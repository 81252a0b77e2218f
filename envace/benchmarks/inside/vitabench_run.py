"""Runs inside the VitaBench environment: play tasks of the user's checkout, have them judged.

Usage: `python vitabench_run.py JOB OUTCOME`, both JSON files; `VITA_MODEL_CONFIG_PATH` is where the benchmark
looks for its models, whose file is written here, without a key.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import journal
import lifeline
import vita_orders
from confine import confine
from transcripts import transcript
from vita_wire import SIDES, EndpointFailed, NoVerdict, TaskLost, Wire

MAX_STEPS = 300
"""Messages a conversation may have, the benchmark's own default."""


def import_checkout(checkout: str) -> Any:
    """The benchmark's modules, with our wire in place of its own; returns `(vita.run, registry, wire)`."""
    models = [{"name": side, "base_url": f"{address(side)}/chat/completions"} for side in SIDES]
    default = {"temperature": 0.0, "headers": {}, "base_url": ""}
    # JSON is YAML, too.
    Path(os.environ["VITA_MODEL_CONFIG_PATH"]).write_text(
        json.dumps({"default": default, "models": models}), "utf-8"
    )
    sys.path.insert(0, str(Path(checkout, "src")))
    import vita.run
    from loguru import logger
    from vita.registry import registry
    from vita.utils import evaluator_extracter, llm_utils

    logger.remove()
    wire = Wire(evaluator_extracter)
    llm_utils.requests = SimpleNamespace(post=wire.post, exceptions=llm_utils.requests.exceptions)
    return vita.run, registry, wire


def address(side: str) -> str:
    """Base URL of a model."""
    return os.environ[f"{side.upper()}_URL"].rstrip("/")


def play(run: Any, wire: Wire, domain: str, language: str, known: dict[str, Any], id: str) -> dict[str, Any]:
    """One conversation, judged; `known` has the domain's tasks by full id, `DOMAIN/ID`."""
    row: dict[str, Any] = {"id": id, "category": domain, "success": 0, "error": "", "answer": []}
    task = known[id]
    wire.reset()
    try:
        done = run.run_task(
            domain=domain,
            task=task,
            agent="llm_agent",
            user="user_simulator",
            llm_agent="agent",
            llm_args_agent={},
            llm_user="user",
            llm_args_user={},
            llm_evaluator="judge",
            llm_args_evaluator={},
            max_steps=MAX_STEPS,
            seed=int(os.environ["ENVACE_SEED"]),
            max_retries=0,
            language=language,
        )
    except TaskLost as error:
        return row | wire.spent | {"error": str(error)}
    except NoVerdict as error:
        return row | wire.spent | {"success": None, "error": str(error)}
    except Exception as error:
        return row | wire.spent | {"success": None, "error": f"{type(error).__name__}: {error}"[:200]}
    reward = done.reward_info
    made = [state.model_dump() for states in done.states.values() for state in states]
    wanted = vita_orders.required(json.loads(task.evaluation_criteria.model_dump_json()))
    found = vita_orders.share_found(wanted, made)
    parts = {"rubrics": next(iter((reward.reward_breakdown or {}).values()), None), "orders": found}
    row |= wire.spent | {
        "success": int(reward.reward >= 1.0),
        "scores": {name: float(part) for name, part in parts.items() if part is not None},
        "answer": transcript(done.messages),
    }
    if not row["success"]:
        stopped = done.termination_reason.value
        row["error"] = "rubrics not met" if stopped in ("user_stop", "agent_stop") else stopped
    return row


def main() -> int:
    """Do the job; a failure of an endpoint is written as `{"fatal": reason}` and exits 3."""
    lifeline.tie()
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    language = job["language"]
    run, registry, wire = import_checkout(job["checkout"])
    confine(Path.cwd(), *map(address, SIDES))
    rows: list[dict[str, Any]] = []
    outcome: dict[str, Any] = {"tasks": rows}
    try:
        for domain, ids in job["ids"].items():
            known = {f"{domain}/{task.id}": task for task in registry.get_tasks_loader(domain)(language)}
            once = partial(play, run, wire, domain, language, known)
            rows += journal.each(ids, Path("finished.jsonl"), once)
    except EndpointFailed as error:
        outcome = {"fatal": str(error)}
    Path(sys.argv[2]).write_text(json.dumps(outcome), "utf-8")
    return 3 if "fatal" in outcome else 0


if __name__ == "__main__":
    sys.exit(main())
