"""The folder in which a run keeps what it has so far, until its result is written."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envace.files import atomic_text


@contextmanager
def unfinished(out: Path, key: str | None) -> Iterator[Path]:
    """Yield a folder that outlives a run which fails or is killed, and goes when the block ends well.

    Args:
        out: Where the result will be; the folder lies beside it.
        key: What the run is about: what another one left is thrown away. None keeps nothing.
    """
    if key is None:
        with tempfile.TemporaryDirectory() as fresh:
            yield Path(fresh)
        return
    folder = out.with_name(f".{out.name}.unfinished")
    stamp = folder / "key"
    if not stamp.is_file() or stamp.read_text("utf-8") != key:
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_text(stamp) as handle:
            handle.write(key)
    yield folder
    shutil.rmtree(folder)
