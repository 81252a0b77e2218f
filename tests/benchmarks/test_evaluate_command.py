"""`envace evaluate` against a served model."""

import json

import pytest
from rule_backend import RuleBackend
from scripted_server import dead_url

from envace.benchmarks import harness
from envace.cli import main
from envace.serve.runner import served
from envace.trajectory.records import Message


def test_a_silent_model_is_right_where_no_tool_helps(bfcl_root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(harness.ROOT_VARIABLE, str(bfcl_root))
    with served(RuleBackend(lambda request: Message(role="assistant", content="I cannot help."))) as url:
        options = ["--url", url, "--limit", "3", "categories=[irrelevance, simple_python]"]
        main(["evaluate", "bfcl_v4", *options, "--out", str(tmp_path)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "irrelevance │ 3 │ │ 100.0 ± 0.0 │ 100.0 to 100.0 │ 100.0 │" in shown
    assert "simple_python │ 3 │ │ 0.0 ± 0.0 │ 0.0 to 0.0 │ 0.0 │" in shown
    assert "all │ 6 │ │ 50.0 ± 0.0 │" in shown
    result = json.loads((tmp_path / "bfcl_v4" / "result.json").read_text())
    assert [task["success"] for task in result["tasks"]] == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["bfcl_v4", "domain=x"], "bfcl_v4: got an unexpected keyword argument 'domain'"),
        (["bfcl_v5"], "no benchmark 'bfcl_v5'"),
        (["bfcl_v4", "--url", dead_url()], "no model at"),
    ],
)
def test_what_cannot_be_run_is_one_line(command, said):
    with pytest.raises(SystemExit, match=said):
        main(["evaluate", *command])
