"""Atomic files under exceptions and under SIGKILL; digests."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envace.files import atomic_folder, atomic_text, digest, read_json, write_json


class PlantedError(Exception):
    """The planted fault."""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with atomic_text(path) as handle:
        handle.write("one")
        handle.flush()
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(PlantedError), atomic_text(path) as handle:
        handle.write("half")
        raise PlantedError
    assert path.read_text() == "one"
    assert files(path.parent) == ["a.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with atomic_folder(path) as folder:
        (folder / "old").write_text("old")
        assert not path.exists()
    with pytest.raises(PlantedError), atomic_folder(path) as folder:
        (folder / "half").write_text("half")
        raise PlantedError
    assert files(path) == ["old"] and files(tmp_path) == ["model"]
    with atomic_folder(path) as folder:
        assert files(folder) == []
        (folder / "new").write_text("new")
    assert files(path) == ["new"] and files(tmp_path) == ["model"]


KILLED = """
import os, signal, sys
from pathlib import Path
from envace.files import atomic_folder, atomic_text
path = Path(sys.argv[1])
if sys.argv[2] == "text":
    with atomic_text(path) as handle:
        handle.write("half")
        handle.flush()
        os.kill(os.getpid(), signal.SIGKILL)
with atomic_folder(path) as folder:
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["text", "folder"])
def test_a_kill_in_the_middle_of_writing_leaves_the_old_content(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out"
    if kind == "text":
        path.write_text("old")
    else:
        path.mkdir()
        (path / "old").write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), kind], cwd=Path(__file__).parents[1])
    assert done.returncode == -signal.SIGKILL
    assert (path if kind == "text" else path / "old").read_text() == "old"
    if kind == "folder":
        assert files(path) == ["old"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(value=VALUES)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.mktemp("json") / "v.json"
    write_json(path, value)
    assert read_json(path) == value
    assert path.read_text(encoding="utf-8").endswith("\n")


def test_a_digest_depends_on_values_names_and_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "a").write_text("1")
        (folder / "b").write_text("2")
    same = digest(one)
    assert same == digest(two) and len(same) == 16  # where a folder lies does not matter
    (two / "b").write_text("3")
    assert digest(two) != same
    (two / "b").write_text("2")
    (two / "b").rename(two / "c")
    assert digest(two) != same
    (two / "c").rename(two / "b")
    (two / "d").write_text("")
    assert digest(two) != same

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    values = [digest(1), digest("1"), digest(1, 2), digest([1, 2]), digest(), digest(None), digest(True)]
    assert len(set(values)) == len(values)
