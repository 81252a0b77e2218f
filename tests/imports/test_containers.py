"""Files are read part by part: lines, arrays, other JSON, parquet; memory holds one part."""

import io
import json
import subprocess
import sys

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_samples import chat, write_lines
from peak_memory import PEAK
from pyarrow import parquet

from envace.imports import documents
from envace.imports.containers import raw_records
from envace.imports.documents import parts
from envace.imports.importing import _Seen

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('ab"\\[]{},: \né')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, min_size=1), st.sampled_from([None, 1]), st.integers(1, 20))
def test_parts_are_what_the_json_module_reads_at_the_lines_where_they_begin(values, indent, chunk) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "CHUNK", chunk)
        found = list(parts(io.StringIO(text), "f", array=True))
    assert [json.loads(part.text) for part in found] == values
    assert not any(part.fault for part in found)
    lines = text.split("\n")
    for part in found:
        assert part.text.split("\n")[0] in lines[part.line - 1]
    assert [part.line for part in found] == sorted(part.line for part in found)


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3)), st.integers(1, 20))
def test_values_that_follow_each_other_are_told_apart(values, chunk) -> None:
    text = "\n".join(json.dumps(value, indent=1) for value in values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "CHUNK", chunk)
        found = list(parts(io.StringIO(text), "f", array=False))
    assert [json.loads(part.text) for part in found] == values
    begins = [1 + text.count("\n", 0, text.find(part.text)) for part in found[:1]]
    assert [part.line for part in found[:1]] == begins


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("lines", '{"a": 1}\n\n{"a": 2}\n', [(1, {"a": 1}), (3, {"a": 2})]),
        ("windows", '\ufeff{"a": 1}\r\n{"a": 2}\r\n', [(1, {"a": 1}), (2, {"a": 2})]),
        ("array", ' \n[{"a": 1},\n{"a": 2}]\n', [(2, {"a": 1}), (3, {"a": 2})]),
        ("marked", '\ufeff[{"a": 1}]', [(1, {"a": 1})]),
        ("empty array", "[\n]", []),
        ("whole.json", '{\n"a": 1\n}\n{\n"a": 2\n}', [(1, {"a": 1}), (4, {"a": 2})]),
        ("lines.json", '{"a": 1}\n{"a": 2}', [(1, {"a": 1}), (2, {"a": 2})]),
        ("separators", '{"a": "\u2028\x85"}\n', [(1, {"a": "\u2028\x85"})]),
        ("empty", "\n \n", []),
    ],
)
def test_the_content_tells_the_kind_of_a_file(tmp_path, name, content, found) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    raws = list(raw_records(tmp_path / name))
    assert [(raw.line, raw.value) for raw in raws] == found
    assert not any(raw.error for raw in raws)


def test_parquet_rows_are_json_values_with_their_rows(tmp_path) -> None:
    from datetime import date

    rows = [{"n": n, "day": date(2024, 1, n + 1), "x": float("nan"), "s": "é"} for n in range(5)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "any name", row_group_size=2)
    raws = list(raw_records(tmp_path / "any name"))
    assert [raw.line for raw in raws] == [1, 2, 3, 4, 5]
    assert raws[2].value == {"n": 2, "day": "2024-01-03", "x": None, "s": "é"}
    assert json.loads(raws[2].text) == raws[2].value


def test_ids_met_before_are_known_and_others_are_not() -> None:
    seen = _Seen()
    assert not any(seen.add(f"id-{n}") for n in range(2000))
    assert all(seen.add(f"id-{n}") for n in range(2000))


GROWTH = f"""{PEAK}
import sys
from pathlib import Path
from envace.imports import import_files

small, large = map(Path, sys.argv[1:3])
import_files("openai_messages", [small], small.with_name("out"), small.with_name("aside"))
before = peak()
counts = import_files("openai_messages", [large], small.with_name("out"), small.with_name("aside"))
print(counts.kept, counts.quarantined, (peak() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "array", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind) -> None:
    def written(count: int) -> str:
        """A file of `count` records with ids, every tenth of them broken."""
        path = tmp_path / f"{kind}-{count}"
        records = (chat(id=f"id-{n}") | ({"tools": 3} if n % 10 == 0 else {}) for n in range(count))
        if kind == "parquet":
            rows = [{name: json.dumps(value) for name, value in record.items()} for record in records]
            parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=5000)
        elif kind == "array":
            path.write_text(f"[{','.join(map(json.dumps, records))}]", encoding="utf-8")  # one line
        else:
            write_lines(path, *records)
        return str(path)

    command = [sys.executable, "-c", GROWTH, written(10_000), written(200_000)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    kept, quarantined, grown = map(int, done.stdout.split())
    assert (kept, quarantined) == (180_000, 20_000)
    assert grown < 16  # MiB; the records together are more than 100
