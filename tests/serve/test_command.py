"""`envace serve` from the command line."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from served_policy import FIND, HELLO, client

from envace.benchmarks.harness import ROOT_VARIABLE
from envace.cli import main
from envace.models.build import save

ROOT = Path(__file__).parents[2]
VLLM = Path(os.environ.get(ROOT_VARIABLE) or ROOT / ".harness") / "vllm" / "venv" / "bin" / "python"


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


@contextmanager
def starter() -> Iterator[Callable[..., str]]:
    """Starts servers by command and gives their addresses; all have to end in order."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path, python: Path | str = sys.executable) -> str:
        command = [python, "-m", "envace.cli", "serve", *arguments, "--port", "0"]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        out = processes[-1].stdout
        assert out is not None
        for line in out:
            if line.startswith("serving on "):
                return line.split()[-1]
        raise AssertionError("it stopped")

    try:
        yield start
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(20) for process in processes]
    assert codes == [-15] * len(processes)


@pytest.mark.slow
def test_a_guarded_policy_and_another_server_in_front_of_it(tiny: Any, tmp_path: Path) -> None:
    save(tiny.fresh(), tiny.folder, tmp_path)
    guard = tmp_path / "chat.yaml"
    guard.write_text("tools: {irreversible: [find]}")
    with starter() as start:
        inner = start(tmp_path, "--guard", guard)
        outer = start("--upstream", inner, "--branches", "2")
        found = []
        for url in (inner, outer):
            with client(url) as made:
                asked: Any = {"model": "envace", "messages": HELLO, "tools": [FIND], "seed": 1}
                found.append(made.chat.completions.create(**asked, max_tokens=20).choices)
        assert found[0] == found[1]
        assert (tmp_path / "guard.jsonl").exists()  # the guard is in place


@pytest.mark.slow
def test_vllm_answers_as_the_engine_in_process_does(tiny: Any, tmp_path: Path) -> None:
    if not VLLM.is_file():
        pytest.skip("no environment for vLLM: run scripts/vllm_env.sh")
    save(tiny.fresh(), tiny.folder, tmp_path)
    texts = [f"item {number}" for number in range(6)]
    sampler = ("--engine", "vllm", "enforce_eager=true", "max_model_len=1024")
    with starter() as start:
        addresses = [start(tmp_path), start(tmp_path, *sampler, python=VLLM)]

        def answers(url: str) -> list[Any]:
            def ask(text: str) -> Any:
                with client(url) as made:
                    messages: Any = [{"role": "user", "content": text}]
                    asked: Any = {"model": "envace", "temperature": 0, "logprobs": True, "top_logprobs": 2}
                    reply = made.chat.completions.create(**asked, messages=messages, max_tokens=12)
                    places = reply.choices[0].logprobs
                    return reply.choices[0].message.content, [
                        (place.token, round(place.logprob, 2), [top.token for top in place.top_logprobs])
                        for place in (places and places.content) or []
                    ]

            with ThreadPoolExecutor(len(texts)) as pool:
                return list(pool.map(ask, texts))

        ours, theirs = map(answers, addresses)
    assert ours == theirs
    assert sum(len(places) for _, places in ours) >= len(texts)
