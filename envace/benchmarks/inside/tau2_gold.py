"""Runs inside the τ² environment: the reference calls of training tasks, executed and scored.

Usage: `python tau2_gold.py JOB OUTCOME`, both JSON files; the job names task ids by domain. A task
that is not in its domain's training split ends the run.
"""

import json
import sys
from pathlib import Path
from typing import Any

from loguru import logger
from tau2.registry import registry
from tau2_run import outcome_of


def executed(domain: str, ids: list[str]) -> dict[str, Any]:
    """What the agent of a domain is given, and the outcome of each task."""
    environment = registry.get_env_constructor(domain)()
    load = registry.get_tasks_loader(domain)
    train, test = ({task.id: task for task in load(split)} for split in ("train", "test"))
    rows = []
    for id in ids:
        if id in test:
            raise ValueError(f"{domain}/{id} is a test task")
        criteria = train[id].evaluation_criteria
        words = list((criteria and criteria.communicate_info) or [])
        rows.append(outcome_of(domain, train[id], "gold", 0) | {"communicate": words})
    functions = [tool.openai_schema["function"] for tool in environment.get_tools()]
    return {"policy": environment.get_policy(), "tools": functions, "tasks": rows}


def main() -> int:
    """Do the job."""
    logger.remove()
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    outcome = {domain: executed(domain, ids) for domain, ids in job["ids"].items()}
    Path(sys.argv[2]).write_text(json.dumps({"domains": outcome}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
