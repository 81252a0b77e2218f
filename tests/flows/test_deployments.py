"""prefect.yaml: every deployment names a flow that exists, and none starts by itself."""

import ast
import inspect
from importlib import import_module
from typing import Any

import pytest
import yaml
from throwaway import ROOT

DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each["entrypoint"])
def test_a_deployment_names_a_flow_and_its_parameters(deployment: dict[str, Any]) -> None:
    from flows.services import POOL, QUEUE

    file, name = deployment["entrypoint"].split(":")
    flow = getattr(import_module(file.removesuffix(".py").replace("/", ".")), name)
    assert flow.name == name
    assert set(deployment.get("parameters", {})) <= set(inspect.signature(flow.fn).parameters)
    assert deployment["work_pool"] == {"name": POOL, "work_queue_name": QUEUE}


def test_no_deployment_starts_by_itself() -> None:
    schedules = [schedule for each in DEPLOYMENTS for schedule in each["schedules"]]
    assert not [schedule for schedule in schedules if schedule["active"]]


def test_every_flow_has_a_deployment() -> None:
    flows = {
        node.name
        for file in (ROOT / "flows").glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")  # those are parts of others
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "flow"
    }
    assert flows == {each["entrypoint"].split(":")[1] for each in DEPLOYMENTS}
