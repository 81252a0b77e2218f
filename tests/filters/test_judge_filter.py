"""The judge is a real server on loopback: passes are independent, outages are never verdicts."""

import json
import threading

import pytest
from filter_samples import run, talk
from scripted_server import dead_url, serving

from envace.errors import EnvaceError
from envace.filters import filter_files, make_rules
from envace.filters.judge import FAILURES
from envace.trajectory import write_records


def graded(*passed: bool, reason: str = "seen") -> str:
    return json.dumps({str(n): {"reason": reason, "pass": held} for n, held in enumerate(passed, 1)})


def rules(url: str, **options) -> dict:
    return make_rules({"judge": {"endpoints": [url], "model": "j", **options}})


def test_the_first_fail_of_several_passes_discards() -> None:
    seeds: dict[str, list[int]] = {}
    lock = threading.Lock()

    def script(body, _):
        record = body["messages"][-1]["content"]
        name = next(name for name in ("good", "bad", "late") if f"about {name}" in record)
        with lock:
            seeds.setdefault(name, []).append(body["seed"])
            late = len(seeds[name]) == 3
        return graded(name == "good" or (name == "late" and not late), reason="invented\nvalue")

    talks = [talk(f"about {name}", id_=name) for name in ("good", "bad", "late")]
    with serving(script) as server:
        kept, quarantined, _ = run(talks, rules(server.url))
    assert [t.id for t in kept] == ["good"]
    assert [(q.line, q.rule, q.reason) for q in quarantined] == [
        (2, "judge", "turn 0, pass 1: invented value"),
        (3, "judge", "turn 0, pass 3: invented value"),
    ]
    assert {name: len(found) for name, found in seeds.items()} == {"good": 3, "bad": 1, "late": 3}
    assert len(set(seeds["good"])) == 3
    assert server.bodies[0]["temperature"] == 0.7


def test_only_survivors_are_judged_and_several_at_once() -> None:
    gate = threading.Barrier(4, timeout=5)

    def script(body, _):
        gate.wait()
        return graded(True)

    talks = [talk(f"q{n}") for n in range(4)] + [talk("empty", "")]
    with serving(script) as server:
        options = {"judge": {"endpoints": [server.url], "model": "j", "passes": 1, "concurrency": 4}}
        kept, _, result = run(talks, make_rules({"empty": None} | options))
    assert len(kept) == 4 and len(server.bodies) == 4
    assert result.rules["judge"].entered == 4


def test_what_could_not_be_judged_is_set_aside_as_that() -> None:
    def script(body, _):
        return graded(True) if "fine" in body["messages"][-1]["content"] else "no JSON"

    with serving(script) as server:
        kept, (bad,), _ = run([talk("fine"), talk("odd")], rules(server.url, attempts=2, passes=1))
    assert len(kept) == 1
    assert bad.reason.startswith("no judgment: j: no usable reply in 2 attempts")
    assert len(server.bodies) == 3


def test_an_outage_stops_the_filter_and_leaves_the_old_output(tmp_path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_records(source, [talk(f"q{n}") for n in range(FAILURES + 5)])
    out.write_text("before", encoding="utf-8")
    with pytest.raises(EnvaceError, match=f"no judgment {FAILURES} times in a row") as caught:
        filter_files([source], out, tmp_path / "bad.jsonl", rules(dead_url(), attempts=1))
    assert "\n" not in str(caught.value)
    assert out.read_text(encoding="utf-8") == "before"


def test_a_judge_without_an_address_is_one_line() -> None:
    with pytest.raises(EnvaceError, match=r"filter judge: .*endpoints"):
        make_rules({"judge": None})
