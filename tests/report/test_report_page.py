"""The written folder: whole, self-contained, escaped, the same bytes twice; one line where an input lacks."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import report_run as run

from envace.errors import EnvaceError
from envace.files import read_json, write_json
from envace.params import load_params
from envace.report.inputs import read_inputs
from envace.report.page import escape_markdown, write_report

REPOSITORY = Path(__file__).parents[2]
HOSTILE = "<script>alert(1)</script> | [x](http://evil.example) `a`\nnext"
STAGES = {
    "metrics/model.json": "model",
    "metrics/filter.json": "filter",
    "metrics/train.json": "train",
    "plots/warmup.csv": "warmup",
    "plots/train.csv": "train",
    "quality/warmup.json": "check",
    "quality/trained.json": "recheck",
    "evaluation/worlds/trained_parallel.json": "evaluate_worlds@trained-parallel",
    "evaluation/bfcl_v4/none/result.json": "evaluate@bfcl_v4-none",
    "evaluation/tau2/parallel/result.json": "evaluate@tau2-parallel",
}


def hostile_run(root: Path) -> Path:
    """A run whose refused record carries markup."""
    run.write_run(root)
    file = root / "metrics/filter.json"
    metrics = read_json(file)
    metrics["rules"]["length"]["examples"][0]["reason"] = HOSTILE
    write_json(file, metrics)
    return root


def report(root: Path) -> dict[str, bytes]:
    write_report(root, root / "reports", load_params(root / "params.yaml"))
    return contents(root / "reports")


def contents(out: Path) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = hostile_run(tmp_path_factory.mktemp("run"))
    report(root)
    return root / "reports"


class Page(HTMLParser):
    """Tags that must nest, ids, and every address in the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.cells = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.cells += tag == "td"
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        self._attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert not name.startswith("on")
            self.ids += [value or ""] if name == "id" else []
            self.addresses += [value or ""] if name in ("src", "href", "xlink:href", "action") else []


def test_the_gate_shows_what_either_role_was_judged_by(folder: Path) -> None:
    text = (folder / "report.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "| agreement, courier | 25.0 % of 4 | 100.0 % of 4 |" in text
    assert "| first calls that courier accepts | 75.0 % of 4 | 75.0 % of 4 |" in text


def test_the_page_is_self_contained_and_well_formed(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert page.addresses and all(address.startswith("#") for address in page.addresses)
    assert len(page.ids) == len(set(page.ids))
    assert {address[1:] for address in page.addresses} <= set(page.ids)
    assert not re.search(r"@import|url\((?!#)", text)
    assert text.count("<svg") == 6


def test_markup_in_the_data_stays_text(folder: Path) -> None:
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert r"\<script\>alert(1)\</script\> \| \[x\](http://evil.example) \`a\` next" in markdown


def test_markdown_tables_keep_their_columns() -> None:
    assert escape_markdown("a|b\nc") == r"a\|b c"


def test_markdown_says_what_the_page_says(folder: Path) -> None:
    html = (folder / "index.html").read_text(encoding="utf-8")
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert re.findall(r"<h2>(.*?)</h2>", html) == re.findall(r"^## (.*)$", markdown, re.MULTILINE)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    heads = [i for i, line in enumerate(rows) if re.fullmatch(r"\|( -+:? \|)+", line)]
    body = [line for i, line in enumerate(rows) if i not in heads and i + 1 not in heads]
    assert sum(len(re.findall(r"(?<!\\)\|", line)) - 1 for line in body) == Page(html).cells
    for figure in re.findall(r"\]\((figures/.*?)\)", markdown):
        assert (folder / figure).is_file()


def test_figures_are_drawn_in_the_readers_ink(folder: Path) -> None:
    figures = sorted((folder / "figures").glob("*.svg"))
    assert len(figures) == 6
    for figure in figures:
        text = figure.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "currentColor" in text and "#010203" not in text
        assert "prefers-color-scheme" in text and "<dc:date>" not in text


def test_published_numbers_stand_apart_with_a_warning(folder: Path) -> None:
    text = (folder / "report.md").read_text(encoding="utf-8")
    section = text.partition("## Published numbers")[2].partition("\n## ")[0]
    assert section.count("Not comparable: other model scale, other protocol.") == 3
    assert "| EnvACE-8B | 46.04 | 36.7 | 16.0 | 32.91 |" in section
    assert "46.04" not in text.replace(section, "")


def test_equal_runs_give_equal_bytes_wherever_they_lie(tmp_path: Path) -> None:
    here = report(hostile_run(tmp_path / "here"))
    there = hostile_run(tmp_path / "elsewhere/deep")
    assert stage(there).returncode == 0
    assert here == contents(there / "reports")
    assert not any(str(tmp_path).encode() in content for content in here.values())


def test_the_lock_digest_ignores_the_entry_of_the_report_itself(tmp_path: Path) -> None:
    root = run.write_run(tmp_path)
    params = load_params(root / "params.yaml")
    digests = []
    for entries in ("  model: {cmd: a}\n", "  model: {cmd: a}\n  report: {cmd: b}\n", "  model: {cmd: c}\n"):
        (root / "dvc.lock").write_text(f"schema: '2.0'\nstages:\n{entries}", encoding="utf-8")
        digests.append(read_inputs(root, params).provenance["lock"])
    assert digests[0] == digests[1] != digests[2]


def test_the_revision_says_when_the_code_was_changed(tmp_path: Path) -> None:
    root = run.write_run(tmp_path)
    params = load_params(root / "params.yaml")
    assert read_inputs(root, params).provenance["revision"] is None
    git = [
        "git",
        "-C",
        str(root),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
    ]
    for command in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert read_inputs(root, params).provenance["revision"] == head
    with (root / "params.yaml").open("a", encoding="utf-8") as handle:
        handle.write("# changed\n")
    assert read_inputs(root, params).provenance["revision"] == f"{head}, changed"


@pytest.mark.parametrize(("file", "stage"), STAGES.items())
def test_a_missing_input_names_the_file_and_its_stage(tmp_path: Path, file: str, stage: str) -> None:
    (run.write_run(tmp_path) / file).unlink()
    with pytest.raises(EnvaceError) as caught:
        read_inputs(tmp_path, load_params(tmp_path / "params.yaml"))
    assert str(caught.value) == f"{file}: no such file (run `dvc repro {stage}`)"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("metrics/train.json", '{\n "steps": 3,\n oops}', "metrics/train.json:3: "),
        ("quality/trained.json", '{"policy": "trained"}', "quality/trained.json: rows: Field required"),
        ("plots/train.csv", "step,success\n1,much\n", "plots/train.csv: could not convert string to float"),
    ],
)
def test_a_malformed_input_is_one_line(tmp_path: Path, file: str, content: str, words: str) -> None:
    (run.write_run(tmp_path) / file).write_text(content, encoding="utf-8")
    with pytest.raises(EnvaceError) as caught:
        read_inputs(tmp_path, load_params(tmp_path / "params.yaml"))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_an_alarm_is_shown_as_a_warning(tmp_path: Path) -> None:
    root = run.write_run(tmp_path)
    file = root / "metrics/train.json"
    line = "collusion: success rises while predictions stop being true"
    write_json(file, read_json(file) | {"collusion_alarms": 1, "alarms": {"courier": line}})
    assert f"> courier: {line}" in report(root)["report.md"].decode()


def stage(root: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    command = ["-c", code] if code else ["-m", "stages.report"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True
    )


def test_the_stage_writes_the_folder_and_fails_in_one_line(tmp_path: Path) -> None:
    root = run.write_run(tmp_path)
    assert stage(root).returncode == 0
    before = (root / "reports/index.html").read_bytes()
    (root / "quality/trained.json").unlink()
    failed = stage(root)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "error: quality/trained.json: no such file (run `dvc repro recheck`)\n"
    assert (root / "reports/index.html").read_bytes() == before


def test_importing_the_report_costs_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, envace.report.page, stages.report; "
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'jinja2', 'pandas', 'great_expectations') "
        "if m in sys.modules])"
    )
    assert stage(tmp_path, code).stdout == "[]\n"
