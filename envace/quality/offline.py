"""Data Docs that can be read without a network, and that are the same files after the same run.

Great Expectations takes styles and scripts from the web and lets a script fill the index. What is added
here comes first on each page, so that where the web is reached its styles have the last word. It also
writes the hour and random ids into each page; a stage whose output is never twice the same would make
everything after it stale.
"""

import html
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Run time to give to every validation; it names folders and is not shown."""
_NAMED = f"{NO_TIME:%Y%m%dT%H%M%S.%fZ}"
_STAMP = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
_SHOWN = re.compile(r"19(?:69-12-31|70-01-01)T[\d:]{8}Z|(?<='run_time': ')[^']*")
"""Where the page says the run time, in the machine's own zone."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; margin: 0 1.5rem 4rem; }
h1, h2, h3, h4, h5, h6 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; }
table { border-collapse: collapse; margin: .4rem 0 1rem; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #dde3ea; }
th, td { text-align: left; vertical-align: top; }
a { color: #1f5fa8; }
ul { padding-left: 1.2rem; }
.ge-section { border-top: 2px solid #dde3ea; }
.envace-box { margin: 1.2rem 0; padding: .8rem 1.2rem; background: #f3f6f9; border-radius: .4rem; }
i.fas { font-style: normal; }
i.fa-check-circle::before { content: "\\2713"; color: #1b7f3b; }
i.fa-times::before { content: "\\2717"; color: #b3261e; }
"""


def settle(site: Path, verdict: str, lines: Sequence[str]) -> None:
    """Take times and random ids out of every page of a site; add style, verdict, and links to the index.

    Args:
        site: Its folder.
        verdict: Of the whole check; the pages' own one counts what is only reported as failed.
        lines: What is behind it.
    """
    pages = sorted(site.rglob("*.html"))
    for page in pages:
        text = _timeless(page.read_text(encoding="utf-8"))
        text = text.replace("<head>", f"<head>\n<style>{STYLE}</style>", 1)
        boxes = _box(verdict, [html.escape(line) for line in lines])
        if page == site / "index.html":
            boxes += _box("Pages", _links(site, pages))
        text = text.replace("<body>", f"<body>\n{boxes}", 1)
        page.write_text(text, encoding="utf-8")


def _timeless(text: str) -> str:
    """A page without the time it was written at; its ids are numbered as they first appear."""
    text = _SHOWN.sub("not kept", _STAMP.sub(_NAMED, text)).replace(f">{_NAMED}<", ">not kept<")
    ids: dict[str, str] = {}
    return _ID.sub(lambda found: ids.setdefault(found[0], f"id-{len(ids)}"), text)


def _box(title: str, items: Sequence[str]) -> str:
    """A title over a list; items are HTML."""
    listed = "".join(f"<li>{item}</li>" for item in items)
    return f'<div class="envace-box"><strong>{html.escape(title)}</strong><ul>{listed}</ul></div>'


def _links(site: Path, pages: Sequence[Path]) -> list[str]:
    """The other pages by their folders: what was validated, and what was expected."""
    rows = []
    for page in pages:
        path = page.relative_to(site)
        if len(path.parts) > 1:
            shown = html.escape(" / ".join(part for part in path.with_suffix("").parts if part != _NAMED))
            rows.append(f'<a href="{html.escape(path.as_posix())}">{shown}</a>')
    return rows
