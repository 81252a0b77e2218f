"""The replicate flow over a real throw-away DVC project: same lock as DVC, cached, failed, cancelled."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from throwaway import FAILING, ORDER, SCORE, SLEEPING, cancelled, dvc, flow_states, free_port, latest, start

from envace.errors import EnvaceError


def test_stages_come_in_the_order_they_can_run(project: Path) -> None:
    from flows.pipeline import metrics, stage_names

    assert stage_names() == ORDER
    assert metrics() == []


def test_a_folder_that_dvc_cannot_read_is_a_one_line_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pipeline import stage_names

    (project / "dvc.yaml").write_text("stages:\n  data: {cmd: echo, depz: [x]}\n")
    with pytest.raises(EnvaceError, match=r"dvc\.yaml.*see `dvc status`") as broken:
        stage_names()
    assert "\n" not in str(broken.value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvaceError, match="not inside of a DVC repository"):
        stage_names()


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Running stage 'a':|> x|a.py:1: bad (mend)|ERROR: failed to reproduce 'a': x", "a.py:1: bad (mend)"),
        ("Running stage 'a':|> x|ERROR: failed to reproduce 'a': x", "ERROR: failed to reproduce 'a': x"),
        ("ERROR: unable to acquire lock", "ERROR: unable to acquire lock"),
        ("", "it printed nothing"),
    ],
)
def test_the_reason_of_a_failure_is_the_line_that_says_something(printed: str, expected: str) -> None:
    from flows.reproduce import reason

    assert reason(printed.split("|") if printed else []) == expected


def test_what_dvc_prints_is_told_apart_by_stage() -> None:
    from flows.reproduce import by_stage

    printed = [
        "WARNING: old",
        "Running stage 'data':",
        "> make",
        "Running stage 'elsewhere':",  # a stage's own words
        "",
        "Stage 'score@a' is cached - skipping run, checking out outputs",
        "Running stage 'report':",
        "done",
    ]
    told = [(stage, list(lines)) for stage, lines in by_stage(printed, ORDER)]
    assert told == [("data", ["", *printed[:5]]), ("score@a", [printed[5]]), ("report", printed[6:])]
    assert [(stage, list(lines)) for stage, lines in by_stage([], ORDER)] == [("data", [""])]


def test_a_stage_is_told_of_before_the_next_prints() -> None:
    from flows.reproduce import by_stage

    def printed() -> Iterator[str]:
        yield "Running stage 'data':"
        yield "half"
        raise AssertionError("read too far")

    _, lines = next(by_stage(printed(), ORDER))
    assert [next(lines) for _ in range(3)] == ["", "Running stage 'data':", "half"]


@pytest.mark.filterwarnings("ignore:Artifact creation outside of a flow")
def test_progress_that_nobody_hears_of_is_no_error() -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.progress import Progress

    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}):
        progress = Progress("train")
        for line in ("steps: 1/3, 2 s left", "steps: 2/3, 1 s left"):
            progress.see(line)


@pytest.mark.slow
def test_the_flow_leaves_what_dvc_repro_leaves_and_then_finds_all_cached(
    project: Path, template: Path, tmp_path: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.replicate import replicate
    from flows.terminal import run

    twin = tmp_path / "twin"
    shutil.copytree(template, twin)
    dvc("repro", cwd=twin)

    begun = time.monotonic()
    assert run(replicate) == 0
    elapsed = time.monotonic() - begun
    assert (project / "dvc.lock").read_bytes() == (twin / "dvc.lock").read_bytes()
    assert list(yaml.safe_load((project / "dvc.lock").read_text())["stages"]) == ORDER
    rows = json.loads(str(latest("stages")))
    assert [(row["stage"], row["status"]) for row in rows] == [(name, "Completed") for name in ORDER]
    assert rows[0]["seconds"] > 0  # DVC's own start is in the first; the others are too short to be told
    assert sum(row["seconds"] for row in rows) < elapsed
    assert json.loads(str(latest("metrics"))) == [
        {"file": f"score-{name}.json", "metric": "length.letters", "value": 6} for name in "ab"
    ]
    assert (project / "reports/index.html").as_uri() in str(latest("report"))
    assert (latest("score-a-letters-read"), latest("score-b-half")) == (100, 50)

    before = (project / "dvc.lock").stat().st_mtime_ns
    assert run(replicate) == 0
    assert {row["status"] for row in json.loads(str(latest("stages")))} == {"Cached"}
    assert (project / "dvc.lock").stat().st_mtime_ns == before

    (project / "score.py").write_text(FAILING)
    capsys.readouterr()
    assert run(replicate) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: stage score@a: data.txt:1: not a number (write digits)"
    )
    rows = json.loads(str(latest("stages")))
    assert [(row["stage"], row["status"]) for row in rows] == [("data", "Cached"), ("score@a", "Failed")]
    assert flow_states()[0] == "FAILED"


@pytest.mark.slow
def test_half_of_a_lock_file_is_mended_but_not_a_conflict(project: Path, server: str) -> None:
    from flows.mend import AT_WORK, BROKEN, mend
    from flows.replicate import replicate
    from flows.terminal import run

    dvc("repro", cwd=project)
    lock = project / "dvc.lock"
    whole = lock.read_bytes()
    assert not mend(project)
    # As DVC leaves it that is killed when it has opened the file, and later.
    for length in (0, 30, len(whole) // 2, len(whole) - 20):
        lock.write_bytes(whole[:length])
        assert run(replicate) == 0
        assert lock.read_bytes() == whole
    (project / AT_WORK).write_bytes(b"")
    (project / "score.py").write_text(SCORE + "# changed")
    assert run(replicate) == 0
    (project / "score.py").write_text(SCORE)
    assert run(replicate) == 0
    assert lock.read_bytes() == whole
    lock.write_bytes(whole[:30])
    subprocess.run(["git", "add", "dvc.yaml"], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "without a lock"], check=True)
    assert mend(project)
    assert not lock.exists()
    assert (project / BROKEN).read_bytes() == whole[:30]
    lock.write_bytes(whole)
    subprocess.run(["git", "add", "dvc.lock"], check=True)
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "with it"], check=True)
    lock.write_bytes(b"")
    assert mend(project)
    assert lock.read_bytes() == whole
    conflict = b"<<<<<<< ours\n" + whole
    lock.write_bytes(conflict)
    assert not mend(project)
    assert run(replicate) == 1
    assert lock.read_bytes() == conflict


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_flow_that_may_try_again_goes_on_where_it_failed(
    project: Path, tmp_path: Path, server: str, shared: bool
) -> None:
    failing = "import os\nif not os.path.exists('once'): open('once', 'w').close(); raise SystemExit('lost')"
    (project / "score.py").write_text(failing + SCORE)
    address = {"PREFECT_API_URL": server} if shared else {}
    process = start(tmp_path / "home", PREFECT_FLOWS_DEFAULT_RETRIES="1", **address)
    assert process.stdout
    printed = process.stdout.read()
    assert process.wait() == 0, printed
    assert printed.count("Running stage 'data'") == 1
    assert printed.count("Running stage 'score@a'") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_cancelling_with_a_server_leaves_no_process_and_no_lock(
    project: Path, tmp_path: Path, server: str, number: signal.Signals, code: int
) -> None:
    (project / "score.py").write_text(SLEEPING)
    process = start(tmp_path / "home", PREFECT_API_URL=server)
    assert cancelled(process, number) == []
    assert process.returncode == code
    (project / "score.py").write_text(SCORE)
    dvc("repro", cwd=project)  # no lock is left behind
