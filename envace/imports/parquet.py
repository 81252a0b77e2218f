"""Rows of a parquet file as JSON values, row group by row group."""

import json
from collections.abc import Iterator
from pathlib import Path

from envace.errors import EnvaceError

MAGIC = b"PAR1"
"""First and last bytes of a parquet file."""
BATCH = 256
"""Rows decoded at once."""


def rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (row from 1, the row as JSON, or an empty text and why the row cannot be read).

    What JSON has no word for (dates, decimals, bytes) becomes a string, a number that is none null.

    Raises:
        EnvaceError: The file has no readable footer, so that nothing in it can be found.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        # Buffered and not read ahead: a row group may be larger than the memory.
        file = ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise EnvaceError(f"{path}: no readable parquet file: {_line(error)}", "download it again") from error
    first = 1
    with file:
        for group in range(file.num_row_groups):
            count, done = file.metadata.row_group(group).num_rows, 0
            try:
                for batch in file.iter_batches(BATCH, row_groups=[group]):
                    for row in batch.to_pylist():
                        yield first + done, _json(row), ""
                        done += 1
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                # One broken page spoils the rest of its group, and no more.
                fault = f"row group {group} cannot be read on: {_line(error)} (download the file again)"
                yield from ((first + place, "", fault) for place in range(done, count))
            first += count


def _json(row: dict) -> str:
    text = json.dumps(row, ensure_ascii=False, default=str)
    if "NaN" in text or "Infinity" in text:
        return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)
    return text


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
