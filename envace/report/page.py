"""Render the report: one content, as a self-contained HTML page and as Markdown with figure files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envace.files import atomic_folder, write_json
from envace.params import Params
from envace.report import background, external, results
from envace.report.blocks import Section
from envace.report.figures import draw
from envace.report.inputs import read_inputs
from envace.report.summary import summarize

TITLE = "EnvACE replication report"
SECTIONS: tuple[Callable[[Mapping[str, Any]], Section], ...] = (
    results.findings,
    background.provenance,
    results.curves,
    results.worlds,
    results.rehearsal,
    results.gate,
    background.data,
    background.leakage,
    external.benchmarks,
    external.published,
    background.costs,
    background.limits,
)
"""The page, in order."""
FILE_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
"""Ink of a figure that stands in a file of its own, where no page sets it."""
MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*[]<>|#&"} | {"\n": " ", "\r": " "})


def write_report(root: Path, out: Path, params: Params) -> dict[str, Any]:
    """Write `index.html`, `report.md`, `figures/` and `summary.json`; the folder appears whole.

    Args:
        root: Project folder with the outputs of the other stages.
        out: Folder to write; replaced.
        params: Parameters of the run.

    Returns:
        The summary.

    Raises:
        EnvaceError: An input is absent or malformed; the line names the file and its stage.
    """
    inputs = read_inputs(root, params)
    summary = summarize(inputs)
    figures = draw(summary, inputs.curves)
    sections = [make(summary) for make in SECTIONS]
    with atomic_folder(out) as folder:
        write_json(folder / "summary.json", summary)
        (folder / "index.html").write_text(html(sections, figures), encoding="utf-8")
        (folder / "report.md").write_text(markdown(sections), encoding="utf-8")
        (folder / "figures").mkdir()
        for name, svg in figures.items():
            head, mark, rest = svg.partition(">")
            (folder / "figures" / f"{name}.svg").write_text(head + mark + FILE_STYLE + rest, encoding="utf-8")
    return summary


def html(sections: list[Section], figures: Mapping[str, str]) -> str:
    """One page without any reference to a network; all text is escaped, the drawn SVG is not."""
    return _render("report.html.j2", None, title=TITLE, sections=sections, figures=figures)


def markdown(sections: list[Section]) -> str:
    """The same for a reader of text; what could be read as markup is escaped."""
    return _render("report.md.j2", escape_markdown, title=TITLE, sections=sections)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return text.translate(MARKDOWN)


def _render(template: str, escape: Callable[[str], str] | None, **values: Any) -> str:
    """Render a template; every value passes through `escape`, or is escaped as HTML without one."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("envace.report"),
        autoescape=escape is None,
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
