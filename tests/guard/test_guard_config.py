"""The configuration file, and `envace guard` as a command."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from envace.errors import EnvaceError
from envace.guard.config import (
    GuardConfig,
    GuardSettings,
    JudgeSettings,
    SessionRehearseSettings,
    Upstream,
    load_config,
)
from envace.guard.rules import RULES, Limit, RuleSettings
from envace.guard.verdict import Verdict
from envace.guard.which import Lists

GOOD: dict[str, Any] = {
    "upstream": {"command": [sys.executable, "server.py"]},
    "rehearse": {"endpoint": {"endpoints": ["http://127.0.0.1:1/v1"], "model": "m"}},
}


def written(folder: Path, **fields: Any) -> Path:
    path = folder / "guard.yaml"
    path.write_text(yaml.safe_dump(GOOD | fields))
    return path


def test_paths_count_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    config = load_config(written(tmp_path, rehearse={"policy": "policy"}, log="logs/guard.jsonl"))
    assert config.rehearse.policy == tmp_path / "policy" and config.log == tmp_path / "logs/guard.jsonl"
    assert config.port is None and config.rules.agreement == 0.6 and config.judge is None
    elsewhere = load_config(written(tmp_path, log="/var/guard.jsonl"))
    assert elsewhere.log == Path("/var/guard.jsonl")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"upstream": {}}, "upstream: Value error, give either a command or a url"),
        ({"upstream": {"command": ["x"], "url": "http://x"}}, "give either a command or a url"),
        ({"upstream": {"url": "ftp://x"}}, "'ftp://x' is no HTTP URL"),
        ({"upstream": {"command": ["no-such-program-here"]}}, "no program 'no-such-program-here'"),
        ({"rehearse": {}}, "rehearse: Value error, give either a policy or an endpoint"),
        ({"rehearse": {"policy": "nowhere"}}, "rehearse.policy: no folder"),
        ({"rehearse": {**GOOD["rehearse"], "times": 0}}, "rehearse.times: Input should be greater"),
        ({"rules": {"limits": [{"field": "x", "minimum": 1}]}}, "rules.limits.0.minimum: Extra inputs"),
        ({"rules": {"decisions": {"limits": "stop"}}}, "rules.decisions.limits: Input should be 'allow'"),
        ({"tolls": {}}, "tolls: Extra inputs"),
        ({"port": 70000}, "port: Input should be less"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_file_and_mend(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    path = written(tmp_path, **fields)
    with pytest.raises(EnvaceError) as caught:
        load_config(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and says in line and line.endswith(")") and "\n" not in line


@pytest.mark.parametrize("text", ["upstream: [", "", "- 1", "\x80"])
def test_a_file_that_is_no_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "guard.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(EnvaceError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def command(*arguments: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "envace.cli", "guard", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": root} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_says_what_is_wrong_and_ends(tmp_path: Path) -> None:
    done = command(cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "error: guard.yaml: No such file or directory (name the file with --config)\n"
    written(tmp_path, upstream={**GOOD["upstream"], "pass_env": ["NO_SUCH_TOKEN"]})
    done = command(cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: upstream.pass_env: NO_SUCH_TOKEN is not set")


def test_help_loads_neither_torch_nor_mcp(tmp_path: Path) -> None:
    done = command("--help", cwd=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0 and "--config" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "envace.errors" in loaded and not loaded & {"torch", "mcp", "mcp_types", "transformers", "httpx"}


def test_the_manual_names_every_field_and_its_example_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guard.md").read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]
    GuardConfig.model_validate(yaml.safe_load(example))
    chat = text.partition("## In front of a chat")[2].partition("```yaml\n")[2].partition("```")[0]
    assert GuardSettings.model_validate(yaml.safe_load(chat)).tools.irreversible
    models = (
        GuardConfig, Upstream, SessionRehearseSettings, JudgeSettings, RuleSettings, Limit, Lists, Verdict,
    )  # fmt: skip
    for name in [name for model in models for name in model.model_fields]:
        assert re.search(rf"[`.]{name}[`.]", text) or f"{name}:" in example, name
    assert all(f"`{rule}`" in text for rule in RULES)
