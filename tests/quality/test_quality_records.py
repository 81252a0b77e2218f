"""Flags of a rehearsed output, computed from the two responses."""

import subprocess
import sys

import pytest

from envace.quality import RehearsedOutput, rehearsed_output
from envace.trajectory.records import Task, Tool, ToolCall

RETURNS = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
TOOL = Tool(name="quote", returns=RETURNS)
TASK = Task(id="shop-1", world="shop", template="buy", seed=1, tools=(TOOL,), messages=())


def compare(predicted: str, actual: str, tool: Tool = TOOL) -> RehearsedOutput:
    call = ToolCall(name="quote", arguments={"zone": 3})
    return rehearsed_output("warmup", TASK, tool, call, predicted, actual, terminated=True)


@pytest.mark.parametrize(
    ("predicted", "actual", "parses", "agrees", "valid", "is_error"),
    [
        ('{"total":7}', '{"total":7}', True, True, True, False),
        ('{"total":7}\n', '{"total":7}', True, True, True, False),
        ('{"total":8}', '{"total":7}', True, False, True, False),
        ('{"total": 7}', '{"total":7}', True, False, True, False),
        ('{"total":"7"}', '{"total":7}', True, False, False, False),
        ("[7]", '{"total":7}', True, False, False, False),
        ("7", '{"total":7}', False, False, False, False),
        ('{"total":7', '{"total":7}', False, False, False, False),
        ("", '{"total":7}', False, False, False, False),
        ('{"error":"no zone"}', '{"error":"no zone"}', True, True, None, True),
        ('{"total":7}', '{"error":"no zone"}', True, False, None, True),
    ],
)
def test_flags(
    predicted: str, actual: str, parses: bool, agrees: bool, valid: bool | None, is_error: bool
) -> None:
    row = compare(predicted, actual)
    assert (row.parses, row.agrees, row.valid, row.is_error) == (parses, agrees, valid, is_error)
    assert row.call == '{"name":"quote","arguments":{"zone":3}}'


def test_a_tool_without_a_response_schema_has_no_validity() -> None:
    assert compare('{"total":7}', '{"total":7}', Tool(name="quote")).valid is None


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = (
        "import sys, envace.quality; "
        "print(sorted({'great_expectations', 'pandas', 'jsonschema', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
