"""check: rehearsed responses of a policy against the world, by Great Expectations → quality/.

Always exits 0: `train` refuses a result that did not pass. Usage: python -m stages.check POLICY
"""

import sys
from pathlib import Path
from typing import Literal, cast, get_args

from envace.files import write_json
from envace.params import Params
from envace.quality import RehearsedOutput, Thresholds, check, first_call, rehearsed_output
from envace.trajectory import Task, iter_records, write_records
from envace.worlds import WORLDS
from stages.base import METRICS, argument, run, use_torch

Policy = Literal["warmup", "trained"]


def main(params: Params, policy: Policy) -> None:
    """Rehearse every held-out call, act once where one call decides, and validate both."""
    from envace.chat import load_template, make_layout
    from envace.engines.hf import HFEngine
    from envace.models.build import load
    from envace.rollout.first_call import first_calls
    from envace.rollout.predict import held_out_calls, predict

    use_torch(params)
    source = Path("models") / policy
    template = load_template(source)
    engine = HFEngine(load(source, params.scale.device, params.scale.dtype), template.vocabulary)
    layout = make_layout(params.chat.layout, params.chat.sections)
    tasks = list(iter_records("data/synthetic/held_out.jsonl", Task))
    calls = list(held_out_calls(tasks, params.seed))
    worlds = (*params.worlds, *params.synthesize.held_out_worlds)
    tools = {name: {tool.name: tool for tool in WORLDS[name].tools} for name in worlds}
    rows = [
        rehearsed_output(
            policy,
            item.task,
            tools[item.task.world][item.call.name],
            item.call,
            prediction.text,
            item.actual,
            prediction.terminated,
            item.history,
        )
        for item, prediction in zip(calls, predict(engine, template, calls, layout=layout), strict=True)
    ]
    committing = [task for task in tasks if WORLDS[task.world].commit_once and task.world in params.worlds]
    called = [
        first_call(policy, task, step.call, step.response) if step else first_call(policy, task, None)
        for task, step in zip(committing, first_calls(engine, template, committing), strict=True)
    ]
    gate = params.gate
    thresholds = Thresholds(
        worlds=gate.worlds,
        # Of a commit-once world the held-out calls are commits only.
        tools={
            world: tuple(name for name, tool in tools[world].items() if tool.irreversible or not commit_once)
            for world, commit_once in ((name, WORLDS[name].commit_once) for name in worlds)
        },
        agreement=gate.agreement,
        tool_agreement=gate.tool_agreement,
        valid=gate.valid,
        error_agreement=gate.error_agreement,
        parses=gate.parses,
        terminated=gate.terminated,
        min_rows=gate.min_rows,
        measures=gate.measures,
        reported=gate.reported,
        first_calls=gate.first_calls,
        drift=gate.drift,
    )
    accepted = list(iter_records(gate.accepted, RehearsedOutput)) if gate.accepted else []
    folder = Path("quality")
    result = check(rows, thresholds, folder / f"{policy}_docs", accepted, called)
    write_records(folder / f"{policy}_rehearsed.jsonl", rows)
    write_json(folder / f"{policy}.json", result.model_dump(mode="json"))
    agreement = result.agreement
    write_json(
        METRICS / f"check_{policy}.json",
        {
            "passed": result.passed,
            "environment_agreement": agreement.overall.share,
            "worlds": {name: share.share for name, share in agreement.worlds.items()},
            "first_calls_accepted": {name: share.share for name, share in result.first_calls.items()},
            "failures": len(result.failures),
            "warnings": len(result.warnings),
        },
    )
    for line in result.failures:
        print(f"quality: {line}", file=sys.stderr)
    for line in result.warnings:
        print(f"quality, reported only: {line}", file=sys.stderr)


if __name__ == "__main__":
    run(lambda params: main(params, cast(Policy, argument(1, get_args(Policy)))))
