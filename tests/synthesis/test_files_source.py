"""The source of files: all of them in order, a fair sample of them, and what is no trajectory set aside."""

from pathlib import Path

import pytest

from envace.errors import EnvaceError
from envace.synthesis.files import Files
from envace.synthesis.sources import Share, mixed_in, write_source
from envace.trajectory import Message, Quarantined, Trajectory, read_trajectories, write_records


def rows(path: Path, prefix: str, count: int) -> Path:
    """A file of small trajectories."""
    said = (Message(role="user", content="hi"), Message(role="assistant", content="ho", author="recorded"))
    write_records(path, [Trajectory(id=f"{prefix}{i}", source="log", messages=said) for i in range(count)])
    return path


def ids(source: Files, count: int | None, seed: int = 1) -> list[str]:
    return [made.id for made in source.generate(count, seed, Path()) if isinstance(made, Trajectory)]


def test_all_come_in_order_and_a_sample_keeps_it(tmp_path: Path) -> None:
    source = Files([str(rows(tmp_path / "b.jsonl", "b", 30)), str(rows(tmp_path / "a.jsonl", "a", 20))])
    every = [f"b{i}" for i in range(30)] + [f"a{i}" for i in range(20)]
    assert ids(source, None) == every
    assert ids(source, 99) == every
    assert ids(source, 0) == []
    sample = ids(source, 10)
    assert len(sample) == 10 and sample == [id for id in every if id in set(sample)]
    assert sample == ids(source, 10) != ids(source, 10, seed=2)
    drawn = [id for seed in range(200) for id in ids(source, 10, seed)]
    assert 0.54 < sum(id.startswith("b") for id in drawn) / len(drawn) < 0.66  # 30 of 50 lines


def test_a_broken_line_is_set_aside_with_its_place(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", "a", 2)
    path.write_text(path.read_text().replace("\n", "\n{broken\n", 1))
    share = write_source("files", {"paths": str(path)}, None, 1, tmp_path / "out.jsonl")
    assert [t.id for t in read_trajectories(tmp_path / "out.jsonl")] == ["a0", "a1"]
    [aside] = share.quarantined
    assert isinstance(aside, Quarantined) and (aside.line, aside.rule) == (2, "json")


def test_it_mixes_by_weight_as_the_others_do(tmp_path: Path) -> None:
    options = {"paths": [str(rows(tmp_path / "a.jsonl", "a", 50))], "weight": 0.25}
    shares: dict[str, Share] = {}
    assert len(list(mixed_in({"files": options}, 40, 1, tmp_path, shares))) == 10
    assert shares["files"].metrics() == {"trajectories": 10, "quarantined": 0}


def test_no_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvaceError, match="no paths"):
        Files([])
    with pytest.raises(EnvaceError, match="no such file"):
        list(Files(str(tmp_path / "absent.jsonl")).generate(None, 1, tmp_path))
