"""Real kills: an evaluation that was killed goes on without asking for finished tasks again."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest
from scripted_server import serving

from envace.benchmarks import copies
from envace.benchmarks.base import BenchmarkResult
from envace.benchmarks.inside import journal
from envace.benchmarks.unfinished import unfinished

RUN = """
import sys
from pathlib import Path
from envace.benchmarks import benchmark
name, root, url, limit, out, identity = sys.argv[1:]
benchmark(name, Path(root)).run(url, int(limit), 1, Path(out), identity=identity or None)
"""


class Endpoint:
    """Answers at once, but for one request, which it never answers until released."""

    def __init__(self, stop_at):
        self.stop_at, self.reached, self.released = stop_at, threading.Event(), threading.Event()

    def __call__(self, body, number):
        if number == self.stop_at:
            self.reached.set()
            self.released.wait(300)
        return "I cannot do that."


def command(name, root, url, limit, out, identity="weights"):
    return [sys.executable, "-c", RUN, name, str(root), url, str(limit), str(out), identity]


def asked(bodies):
    """What each request was about."""
    return [json.dumps(body["messages"]) for body in bodies]


def killed_and_resumed(name, root, limit, tmp_path, stop_at):
    """Requests before the kill, requests after it, and the two results: resumed, and never killed."""
    endpoint = Endpoint(stop_at)
    with serving(endpoint) as seen:
        process = subprocess.Popen(command(name, root, seen.url, limit, tmp_path / "a"))
        assert endpoint.reached.wait(300)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "a").exists()
        before = asked(seen.bodies)
        endpoint.released.set()
        time.sleep(1.0)
        assert asked(seen.bodies) == before  # the harness died with its run
        subprocess.run(command(name, root, seen.url, limit, tmp_path / "a"), check=True)
        after = asked(seen.bodies)[len(before) :]
    with serving(lambda body, number: "I cannot do that.") as fresh:
        subprocess.run(command(name, root, fresh.url, limit, tmp_path / "b", ""), check=True)
        assert len(fresh.bodies) == len(before) + len(after) - 1  # the request that was cut off
    for file in ("result.json", "answers.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert not (tmp_path / ".a.unfinished").exists() and not (tmp_path / ".b.unfinished").exists()
    return before, after


@pytest.fixture
def finmcp_root(tmp_path):
    rows = [
        {
            "id": id,
            "task": "single step",
            "tool_list": [["Look"]],
            "messages": [
                {"role": "user", "content": f"question {id}"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "c", "function": {"name": "Look"}}],
                },
                {"role": "tool", "content": "seen", "tool_call_id": "c"},
                {"role": "assistant", "content": "so"},
            ],
        }
        for id in range(5)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    copies.install("finmcp", tmp_path / "rows.json", tmp_path / "harness")
    return tmp_path / "harness"


def test_finmcp_goes_on_after_a_kill(finmcp_root, tmp_path):
    before, after = killed_and_resumed("finmcp", finmcp_root, 0, tmp_path, 3)
    assert len(before) == 4 and len(after) == 2 and before[3] == after[0]


def test_another_policy_or_sample_does_not_go_on_where_this_one_was(finmcp_root, tmp_path):
    with serving(lambda body, number: "no") as seen:
        for identity, limit in (("one", 0), ("two", 0), ("two", 2)):
            # A run that fails late, because its result cannot be written, leaves what it has.
            out = tmp_path / "out"
            out.mkdir(exist_ok=True)
            (out / "file").write_text("kept")
            broken = command("finmcp", finmcp_root, seen.url, limit, out, identity)
            broken[2] = broken[2].replace("benchmark(name", "Path.rename = None\nbenchmark(name")
            assert subprocess.run(broken, capture_output=True, check=False).returncode == 1
        assert (out / "file").read_text() == "kept"
        assert len(seen.bodies) == 5 + 5 + 2
        again = command("finmcp", finmcp_root, seen.url, 2, out, "two")
        subprocess.run(again, check=True)
        assert len(seen.bodies) == 12
    assert len(BenchmarkResult.model_validate_json((out / "result.json").read_bytes()).tasks) == 2


def test_a_torn_line_is_cut_off_and_its_task_is_done_again(tmp_path):
    path = tmp_path / "finished.jsonl"
    made = []

    def play(id):
        made.append(id)
        return {"id": id, "word": "ä"}

    assert [row["id"] for row in journal.each("abc", path, play)] == ["a", "b", "c"]
    path.write_bytes(path.read_bytes()[:-4])
    assert [row["id"] for row in journal.each("abcd", path, play)] == ["a", "b", "c", "d"]
    assert made == ["a", "b", "c", "c", "d"]
    assert list(journal.noted(path)) == ["a", "b", "c", "d"]
    assert [row["id"] for row in journal.each("ab", None, play)] == ["a", "b"] and made[-2:] == ["a", "b"]


def test_the_unfinished_folder_stays_for_the_same_run_alone(tmp_path):
    out = tmp_path / "out"
    for key, found in (("one", False), ("one", True), ("two", False)):
        with pytest.raises(RuntimeError), unfinished(out, key) as work:
            assert (work / "kept").exists() == found
            (work / "kept").touch()
            raise RuntimeError
    with unfinished(out, "two") as work:
        assert (work / "kept").exists()
    assert list(tmp_path.iterdir()) == []
    with unfinished(out, None) as work:
        pass
    assert not work.exists()


@pytest.mark.slow
def test_bfcl_goes_on_after_a_kill(bfcl_root, tmp_path):
    before, after = killed_and_resumed("bfcl_v4", bfcl_root, 2, tmp_path, 5)
    assert len(before) == 6 and before[5] == after[0] and not set(before[:5]) & set(after)


@pytest.mark.slow
def test_tau2_goes_on_after_a_kill(tau2_root, tmp_path):
    before, after = killed_and_resumed("tau2", tau2_root, 4, tmp_path, 2)
    assert before[2] == after[0] and not set(before[:2]) & set(after)
