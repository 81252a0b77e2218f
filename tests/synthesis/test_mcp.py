"""Trajectories written by an endpoint: a real server on loopback, real kills, nothing paid for twice."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mcp_script
import pytest
from mcp_script import SERVERS, answer, kind, written
from scripted_server import Clock, dead_url, serving

from envace.errors import EnvaceError
from envace.filters import filter_files, make_rules
from envace.imports import import_files
from envace.synthesis.asking import Journal, RateLimit
from envace.synthesis.mcp import FAILURES, Mcp
from envace.synthesis.sources import write_source
from envace.trajectory import Quarantined, Tool, Trajectory, compact, iter_records, read_trajectories
from envace.trajectory.records import weights_sum_to_one


def options(url: str, servers: Path, **more: Any) -> dict[str, Any]:
    return {"servers": str(servers), "endpoints": [url], "model": "m", **more}


def run(url: str, folder: Path, count: int, seed: int = 1, out: str = "out.jsonl", **more: Any) -> Any:
    servers = folder / "servers.jsonl" if (folder / "servers.jsonl").is_file() else written(folder)
    return write_source("mcp", options(url, servers, **more), count, seed, folder / out)


def test_what_is_written_is_a_whole_trajectory(tmp_path: Path) -> None:
    with serving(answer) as server:
        share = run(server.url, tmp_path, 12, prompt_price=2.0, completion_price=10.0)
    made = read_trajectories(tmp_path / "out.jsonl")
    assert (share.trajectories, share.quarantined) == (12, [])
    assert Counter(t.world for t in made) == {"mcp/weather": 6, "mcp/notes": 6}
    assert {t.lineage.origin for t in made} == {"raw.jsonl:1", "raw.jsonl:2"}
    assert len({t.id for t in made}) == 12
    assert {sum(m.role == "user" for m in t.messages) for t in made} == {1, 2}
    for trajectory in made:
        assert weights_sum_to_one(trajectory.checklist)
        turns = sum(message.role == "user" for message in trajectory.messages)
        assert {item.turn for item in trajectory.checklist} == set(range(turns))
        for calling, response in zip(trajectory.messages, trajectory.messages[1:], strict=False):
            if calling.tool_calls:
                assert (response.role, response.author) == ("tool", "simulator")
                assert response.tool_call_id == calling.tool_calls[0].id
    result = filter_files([tmp_path / "out.jsonl"], tmp_path / "f.jsonl", tmp_path / "q.jsonl", make_rules())
    assert (result.read, result.quarantined) == (12, 0)
    # Every request cost 5 tokens read and 3 written.
    asked = len(server.bodies)
    assert asked == sum(1 + 2 * len(t.calls()) + sum(m.role == "user" for m in t.messages) for t in made)
    assert share.facts == {
        "requests": asked,
        "prompt_tokens": 5 * asked,
        "completion_tokens": 3 * asked,
        "cost": round((5 * asked * 2.0 + 3 * asked * 10.0) / 1e6, 6),
    }
    metrics = json.loads((tmp_path / "out.metrics.json").read_text())
    assert metrics["trajectories"] == 12 and metrics["cost"] == share.facts["cost"]


def test_the_environment_role_sees_all_earlier_responses_and_the_act_role_no_later_ones(
    tmp_path: Path,
) -> None:
    with serving(answer) as server:
        run(server.url, tmp_path, 2)
    for trajectory in read_trajectories(tmp_path / "out.jsonl"):
        messages = trajectory.messages
        for at, message in enumerate(messages):
            if message.role != "tool":
                continue
            call = messages[at - 1].tool_calls[0]
            lines = [
                compact(
                    {
                        "role": m.role,
                        "calls": [{"name": c.name, "arguments": c.arguments} for c in m.tool_calls],
                    }
                )
                if m.tool_calls
                else compact({"role": m.role, "content": m.content})
                for m in messages[:at]
            ]
            (question,) = [
                body["messages"][1]["content"]
                for body in server.bodies
                if kind(body) == "response" and body["messages"][1]["content"].endswith("\n".join(lines))
            ]
            shown = json.loads(question.splitlines()[0])
            assert (shown["tool"], message.content in question) == (call.name, False)


def test_same_seed_same_bytes_however_many_at_once(tmp_path: Path) -> None:
    with serving(answer) as server:
        run(server.url, tmp_path, 4, out="a.jsonl", concurrency=3)
        run(server.url, tmp_path, 4, out="b.jsonl", concurrency=1)
        run(server.url, tmp_path, 4, out="c.jsonl", seed=2)
    a, b, c = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b
    assert not set(a.splitlines()) & set(c.splitlines())


def test_several_tasks_are_under_way_at_once(tmp_path: Path) -> None:
    gate = threading.Barrier(4, timeout=5)

    def script(body: dict[str, Any], number: int) -> str:
        if number < 4:
            gate.wait()
        return answer(body)

    with serving(script) as server:
        run(server.url, tmp_path, 6, concurrency=4)
    assert server.most_in_flight == 4


COMMAND = [sys.executable, "-m", "envace.cli", "synthesize", "mcp"]


def start(url: str, folder: Path, out: str) -> "subprocess.Popen[bytes]":
    words = [f"servers={folder / 'servers.jsonl'}", f"endpoints=[{url}]", "model=m", "concurrency=4"]
    rest = ["--count", "8", "--seed", "1", "--output", str(folder / out)]
    return subprocess.Popen([*COMMAND, *words, *rest], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_a_killed_run_goes_on_and_asks_nothing_again_that_was_answered(tmp_path: Path) -> None:
    written(tmp_path)

    def script(body: dict[str, Any], number: int) -> str:
        time.sleep(0.01)
        return answer(body)

    with serving(script) as server:
        straight = start(server.url, tmp_path, "straight.jsonl")
        assert straight.wait(timeout=60) == 0
        whole = len(server.bodies)
    journal = tmp_path / "killed.journal.jsonl"
    with serving(script) as server:
        killed = start(server.url, tmp_path, "killed.jsonl")
        deadline = time.monotonic() + 60
        while len(server.bodies) < whole // 2:
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert not (tmp_path / "killed.jsonl").exists()
        answered = journal.read_bytes().count(b"\n")
        asked = len(server.bodies)
    assert 0 <= asked - answered <= 4  # what was under way is all that was lost
    with serving(script) as server:
        resumed = start(server.url, tmp_path, "killed.jsonl")
        assert resumed.wait(timeout=60) == 0
        assert len(server.bodies) == whole - answered
        # A third run has nothing left to ask.
        again = start(server.url, tmp_path, "killed.jsonl")
        printed, _ = again.communicate(timeout=60)
        assert again.returncode == 0 and len(server.bodies) == whole - answered
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "straight.jsonl").read_bytes()
    assert b"8 trajectories in" in printed
    total = int(printed.split(b"requests: ")[1].split()[0])
    assert answered <= total - (whole - answered) <= asked  # the cost of all runs, killed or not


def test_answers_that_do_not_fit_are_retried_then_set_aside_and_not_asked_again(tmp_path: Path) -> None:
    def script(body: dict[str, Any], number: int) -> str:
        broken = kind(body) == "arguments" and "find_notes" in body["messages"][0]["content"]
        return '{"word": 3}' if broken else answer(body)

    with serving(script) as server:
        share = run(server.url, tmp_path, 10, attempts=3)
        asked = len(server.bodies)
        again = run(server.url, tmp_path, 10, attempts=3)
        assert len(server.bodies) == asked
    bad = list(iter_records(tmp_path / "out.quarantine.jsonl", Quarantined))
    assert 0 < len(bad) == 10 - share.trajectories
    assert bad == share.quarantined == again.quarantined
    assert {(r.rule, r.line, json.loads(r.record)["server"]) for r in bad} == {("mcp", 2, "notes")}
    assert all(
        "no usable reply in 3 attempts" in r.reason and "is not of type 'string'" in r.reason for r in bad
    )
    tries = Counter(
        json.dumps(b["messages"]) for b in server.bodies if "find_notes" in b["messages"][0]["content"]
    )
    assert max(tries.values()) == 3


@pytest.mark.parametrize(
    ("what", "planted", "reason"),
    [
        ("plan", lambda plan: plan["turns"][0].update(user="call get_weather"), "the user names the tool"),
        ("plan", lambda plan: plan["turns"][0].update(user=" \n"), "an empty user turn, 3 times"),
        ("reply", lambda reply: reply.update(reply="  "), "an empty reply, 3 times"),
        ("response", lambda response: response.update(text="x" * 6000), "a response of 60"),
    ],
)
def test_what_fits_its_schema_may_still_be_no_good(
    tmp_path: Path, what: str, planted: Any, reason: str
) -> None:
    bad: set[str] = set()

    def script(body: dict[str, Any], number: int) -> str:
        value = json.loads(answer(body))
        if kind(body) == what:
            bad.add(json.dumps(body["messages"]))
            planted(value)
        return json.dumps(value)

    written(tmp_path, SERVERS[:1])
    with serving(script) as server:
        share = run(server.url, tmp_path, 1)
    (record,) = share.quarantined
    assert record.reason.startswith(reason)
    seeds = [b["seed"] for b in server.bodies if json.dumps(b["messages"]) in bad]
    assert len(bad) == 1 and len(seeds) == len(set(seeds)) == 3


def test_a_check_that_is_met_the_second_time(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def script(body: dict[str, Any], number: int) -> str:
        question = json.dumps(body["messages"])
        asked[question] += kind(body) == "reply"
        return json.dumps({"reply": " "}) if asked[question] == 1 else answer(body)

    with serving(script) as server:
        share = run(server.url, tmp_path, 3)
    assert (share.trajectories, share.quarantined) == (3, [])
    assert set(+asked) and set((+asked).values()) == {2}


def test_an_outage_stops_the_run_and_keeps_the_old_output(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("before", encoding="utf-8")
    with pytest.raises(EnvaceError, match=f"no answer to {FAILURES} tasks in a row") as caught:
        run(dead_url(), tmp_path, 20, attempts=1)
    assert "\n" not in str(caught.value) and "all answers so far are in" in caught.value.mend
    assert out.read_text() == "before"


def test_a_task_without_an_answer_is_set_aside_and_asked_again_the_next_time(tmp_path: Path) -> None:
    from fastapi.responses import Response

    down = True

    def script(body: dict[str, Any], number: int) -> Any:
        if down and "find_notes" in body["messages"][0]["content"]:
            return Response("context too long", status_code=400)
        return answer(body)

    with serving(script) as server:
        share = run(server.url, tmp_path, 6)
        assert share.quarantined and all("400: context too long" in r.reason for r in share.quarantined)
        down = False
        assert run(server.url, tmp_path, 6).quarantined == []


def test_broken_lines_and_unusable_servers_are_set_aside_with_their_line(tmp_path: Path) -> None:
    odd = Tool(name="odd", parameters={"type": "object", "properties": {"a": {"type": "text"}}})
    bad = SERVERS[0].model_copy(update={"id": "bad", "tools": (odd,)})
    path = written(tmp_path, (bad, *SERVERS))
    path.write_text(path.read_text() + '{"id": 3}\n')
    with serving(answer) as server:
        share = run(server.url, tmp_path, 6)
    assert share.trajectories == 4
    found = {(Path(r.file).name, r.line, r.reason) for r in share.quarantined}
    assert {(name, line) for name, line, _ in found} == {("servers.jsonl", 4), ("servers.jsonl", 1)}
    assert ("servers.jsonl", 1, "no tool with a usable schema") in found
    path.write_text("{}\n")
    with pytest.raises(EnvaceError, match=r"servers.jsonl:1: .*import mcp-tools"):
        run(server.url, tmp_path, 1)


def test_a_journal_drops_the_line_that_a_kill_cut_off_and_adds_up_the_cost(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    first = Journal(path)
    first.add("a", {"value": {"text": "\ud83d"}}, [1, 5, 3])
    first.add("b", {"value": 2}, [2, 10, 6])
    first.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key":"c","val')
    second = Journal(path)
    assert path.read_bytes() == whole
    assert (second.get("b"), second.get("c")) == (
        {"key": "b", "value": 2, "run": 0, "spent": [2, 10, 6]},
        None,
    )
    assert second.before == {"requests": 2, "prompt_tokens": 10, "completion_tokens": 6}
    second.add("c", {"refused": "no"}, [1, 5, 3])
    second.close()
    third = Journal(path)
    assert (third.run, third.before["requests"]) == (2, 3)
    third.close()


def test_the_rate_is_limited_evenly() -> None:
    clock = Clock()
    limit = RateLimit(120, clock, clock.sleep)
    for _ in range(5):
        limit.wait()
    assert clock.now == pytest.approx(2.0)
    clock.now += 10
    limit.wait()  # a pause is not saved up for a burst
    assert clock.now == pytest.approx(12.0)
    limit.wait()
    assert clock.now == pytest.approx(12.5)
    free = RateLimit(0, clock, clock.sleep)
    free.wait()
    free.wait()
    assert clock.now == pytest.approx(12.5)


@pytest.mark.slow
def test_all_published_tool_servers_can_be_written_for(tmp_path: Path) -> None:
    shared = Path(os.environ.get("ENVACE_SHARED", Path(__file__).parents[2] / "../shared"))
    source = shared / "data/mcp_servers.jsonl"
    if not source.is_file():
        pytest.skip("data/mcp_servers.jsonl is absent")
    import_files("mcp_tools", [source], tmp_path / "servers.jsonl", tmp_path / "q.jsonl")
    with serving(answer) as server:
        share = run(server.url, tmp_path, 240, attempts=1, turns=1)
    made = read_trajectories(tmp_path / "out.jsonl")
    assert share.trajectories + len(share.quarantined) == 240
    # The script knows no patterns, formats or alternatives; whatever it gets wrong has its reason.
    assert all("does not fit the schema" in r.reason for r in share.quarantined)
    assert share.trajectories > 200
    assert isinstance(made[0], Trajectory) and mcp_script.kind(server.bodies[0]) == "plan"
    result = filter_files([tmp_path / "out.jsonl"], tmp_path / "f.jsonl", tmp_path / "g.jsonl", make_rules())
    assert result.quarantined == 0


def test_wrong_options_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    for more, text in (
        ({"turns": 0}, "turns 0"),
        ({"nope": 1}, "source mcp: .*nope"),
        ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set"),
    ):
        with pytest.raises(EnvaceError, match=text) as caught:
            write_source("mcp", options("http://127.0.0.1:1/v1", path, **more), 1, 0, tmp_path / "o.jsonl")
        assert caught.value.mend
    with pytest.raises(EnvaceError, match="no such file"):
        Mcp(str(tmp_path / "gone"), ["http://127.0.0.1:1/v1"], "m").generate(1, 0, tmp_path / "j").__next__()
