"""Files that are either whole or absent: write beside, then rename."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from envace.errors import EnvaceError


@contextmanager
def atomic_text(path: Path | str) -> Iterator[TextIO]:
    """Open a text file that appears under `path` only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        # The old folder steps aside whole, so that a kill never leaves half of it in place.
        former = path.with_name(f".{path.name}.{os.getpid()}.old")
        if path.exists():
            path.rename(former)
        temporary.rename(path)
        shutil.rmtree(former, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON, atomically, with a final newline."""
    with atomic_text(path) as handle:
        json.dump(value, handle, indent=1, ensure_ascii=False)
        handle.write("\n")


def read_json(path: Path | str) -> Any:
    """Read one JSON file.

    Raises:
        EnvaceError: It does not exist or is no JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EnvaceError(f"{path}: no such file", "run the stage that makes it (`dvc repro`)") from error
    except json.JSONDecodeError as error:
        raise EnvaceError(f"{path}:{error.lineno}: not JSON: {error.msg}", "make it anew") from error


def digest(*parts: Any) -> str:
    """A short stable hash of JSON-serialisable values and files (given as `Path`, read whole)."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
            for file in files:
                content = file.read_bytes()
                name = file.relative_to(part).as_posix() if part.is_dir() else file.name
                sha.update(f"{name}\0{len(content)}\0".encode())
                sha.update(content)
        else:
            sha.update(json.dumps(part, sort_keys=True, default=str).encode())
        sha.update(b"\0")
    return sha.hexdigest()[:16]
