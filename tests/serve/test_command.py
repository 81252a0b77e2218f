"""`envace serve` from the command line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from served_policy import FIND, HELLO, client

from envace.cli import main
from envace.models.build import save


@pytest.mark.parametrize(
    "arguments",
    [[], ["folder", "--upstream", "http://127.0.0.1:1/v1"], ["folder", "--running", "0"],
     ["folder", "--timeout", "0"], ["folder", "--waiting", "-1"], ["--upstream", "nonsense"],
     ["folder", "--guard", "nowhere.yaml"],
     ["--upstream", "http://127.0.0.1:1/v1", "--guard", "nowhere.yaml"]],
)  # fmt: skip
def test_what_cannot_be_served_is_one_line(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", *arguments])
    assert str(caught.value).startswith("error: ") and "\n" not in str(caught.value)


def test_beyond_loopback_only_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVACE_API_KEY", raising=False)
    with pytest.raises(SystemExit, match="ENVACE_API_KEY"):
        main(["serve", "--upstream", "http://127.0.0.1:1/v1", "--host", "0.0.0.0"])


@pytest.mark.slow
def test_a_guarded_policy_and_another_server_in_front_of_it(tiny: Any, tmp_path: Path) -> None:
    save(tiny.fresh(), tiny.folder, tmp_path)
    guard = tmp_path / "chat.yaml"
    guard.write_text("tools: {irreversible: [find]}")
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", "envace.cli", "serve", *arguments, "--port", "0"]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        out = processes[-1].stdout
        assert out is not None
        for line in out:
            if line.startswith("serving on "):
                return line.split()[-1]
        raise AssertionError("it stopped")

    try:
        inner = start(tmp_path, "--guard", guard)
        outer = start("--upstream", inner, "--branches", "2")
        found = []
        for url in (inner, outer):
            with client(url) as made:
                asked: Any = {"model": "envace", "messages": HELLO, "tools": [FIND], "seed": 1}
                found.append(made.chat.completions.create(**asked, max_tokens=20).choices)
        assert found[0] == found[1]
        assert (tmp_path / "guard.jsonl").exists()  # the guard is in place
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(20) for process in processes]
    assert codes == [-15, -15]
