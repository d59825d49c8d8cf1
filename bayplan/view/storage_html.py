"""The storage report as a page: pictures of the arenas above tables that open loop by loop.

The page is one element with its style inside; it loads nothing and runs nothing, so it opens
without a network and can be pasted into another page.
"""

from __future__ import annotations

from html import escape
from typing import Any

from bayplan.view.storage_kernels import COLUMNS as KERNEL_COLUMNS
from bayplan.view.storage_kernels import RIGHT as KERNEL_RIGHT
from bayplan.view.storage_kernels import make_kernel_rows
from bayplan.view.storage_rows import (
    COLUMNS,
    RIGHT,
    Row,
    format_bytes,
    format_loop,
    make_heading,
    make_place_note,
    make_rows,
    make_totals,
)
from bayplan.view.storage_svg import STYLE, draw_arenas, wrap_panel

_STYLE = """
.bayplan-storage {font: 13px/1.45 system-ui, sans-serif;}
.bayplan-storage table {border-collapse: collapse; margin: 4px 0 10px;}
.bayplan-storage th, .bayplan-storage td {text-align: left; padding: 2px 12px 2px 0;
  white-space: nowrap; vertical-align: top;}
.bayplan-storage th {font-weight: 600; opacity: .7; border-bottom: 1px solid rgba(128,128,128,.5);}
.bayplan-storage .number {text-align: right; font-variant-numeric: tabular-nums;}
.bayplan-storage .note td {white-space: normal; padding: 0 0 5px 16px; opacity: .75;}
.bayplan-storage svg {display: block; max-width: 100%; height: auto;}
.bayplan-storage summary {cursor: pointer; padding: 3px 0;}
.bayplan-storage details details {margin-left: 16px;}
.bayplan-storage code {font: 12px ui-monospace, monospace;}
.bayplan-storage dl {display: grid; grid-template-columns: max-content auto; gap: 2px 12px;}
.bayplan-storage dt {font-weight: 600;} .bayplan-storage dd {margin: 0;}
"""

_PAGE_STYLE = """
:root {color-scheme: light dark;}
body {margin: 24px auto; max-width: 1000px; padding: 0 16px; background: #fff; color: #1f2328;}
@media (prefers-color-scheme: dark) {body {background: #12161c; color: #e3e8ee;}}
h1 {font: 600 18px system-ui, sans-serif;}
"""


def render_storage_page(report: Any) -> str:
    """Writes a file of HTML with the report, for ``bayplan storage --html``."""
    title = escape(f"storage of {report.pipeline}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_PAGE_STYLE}</style></head>"
        f"<body><h1>{title}</h1>{render_storage_html(report)}</body></html>\n"
    )


def render_storage_html(report: Any) -> str:
    """Draws the report for ``_repr_html_`` and for pages.

    Returns:
        One ``<div>`` with style, an SVG of each arena and the tables. Every name is escaped.
    """
    parts = [
        f'<div class="bayplan-storage"><style>{_STYLE}{STYLE}</style>',
        f"<div><b>{escape(make_heading(report))}</b></div>",
        _write_totals(report),
    ]
    for title, drawing, height in draw_arenas(report):
        parts.append(
            f"<details open><summary>{escape(title)}</summary>"
            f"{wrap_panel(drawing, height, title)}</details>"
        )
    parts.append(_write_kernels(report))
    rows = make_rows(report)
    if rows:
        parts.append(_write_loop("the call", _Loop.around(rows)))
        note = make_place_note(rows)
        parts += [f"<div>{escape(note)}</div>"] if note else []
    if report.terms:
        terms = [f"<dt>{escape(n)}</dt><dd>{_code(text)}</dd>" for n, text in report.terms]
        parts.append(f"<div>where</div><dl>{''.join(terms)}</dl>")
    return "".join(parts) + "</div>"


def _write_kernels(report: Any) -> str:
    rows = make_kernel_rows(report)
    if not rows:
        return ""
    kept = [i for i in range(len(KERNEL_COLUMNS)) if any(row.cells[i] for row in rows)]
    lines = [([row.cells[i] for i in kept], [escape(n) for n in row.notes]) for row in rows]
    columns = [KERNEL_COLUMNS[i] for i in kept]
    plural = "" if len(rows) == 1 else "s"
    return (
        f"<details open><summary><b>{len(rows)} kernel{plural}</b></summary>"
        f"{_write_lines(columns, lines, KERNEL_RIGHT)}</details>"
    )


def _write_totals(report: Any) -> str:
    items = []
    for label, text, formula in make_totals(report):
        more = f"<br>{_code('= ' + formula)}" if formula else ""
        items.append(f"<dt>{label}</dt><dd>{escape(text)}{more}</dd>")
    return f"<dl>{''.join(items)}</dl>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


class _Loop:
    """The temporaries allocated directly in a loop, and the loops in it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.inner: dict[str, _Loop] = {}

    @classmethod
    def around(cls, rows: list[Row]) -> _Loop:
        """The tree of all loops that temporaries are allocated in."""
        root = cls()
        for row in rows:
            at = root
            for loop in row.places[0].loops:
                at = at.inner.setdefault(str(loop), cls())
            at.rows.append(row)
        return root

    def count(self) -> tuple[int, int]:
        """How many temporaries are in it, and their bytes side by side."""
        number, size = len(self.rows), sum([row.first.bytes for row in self.rows])
        for loop in self.inner.values():
            more, bytes_more = loop.count()
            number, size = number + more, size + bytes_more
        return number, size


def _write_loop(name: str, loop: _Loop) -> str:
    """A loop that can be closed, with its table and the loops inside."""
    number, size = loop.count()
    plural = "y" if number == 1 else "ies"
    summary = f"<b>{escape(name)}</b>: {number} temporar{plural}, {format_bytes(size)} bytes"
    inner = [_write_loop(format_loop(n), inside) for n, inside in loop.inner.items()]
    return (
        f"<details open><summary>{summary}</summary>{_write_table(loop.rows)}"
        f"{''.join(inner)}</details>"
    )


def _write_table(rows: list[Row]) -> str:
    if not rows:
        return ""
    used = [any(row.cells[i] for row in rows) for i in range(len(COLUMNS))]
    kept = [i for i, name in enumerate(COLUMNS) if used[i] and name != "inside"]
    lines = []
    for row in rows:
        formula = [_code(f"= {row.formula}")] if row.formula else []
        notes = formula + [escape(note) for note in row.notes]
        lines.append(([row.cells[i] for i in kept], notes))
    return _write_lines([COLUMNS[i] for i in kept], lines, RIGHT)


def _write_lines(
    columns: list[str], lines: list[tuple[list[str], list[str]]], right: frozenset[str]
) -> str:
    """A table; below each line its notes, which are escaped already."""
    head = "".join([_cell("th", name, name in right) for name in columns])
    body = []
    for cells, notes in lines:
        row = [_cell("td", text, n in right) for n, text in zip(columns, cells, strict=True)]
        body.append(f"<tr>{''.join(row)}</tr>")
        if notes:
            text = "<br>".join(notes)
            body.append(f'<tr class="note"><td colspan="{len(columns)}">{text}</td></tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cell(tag: str, text: str, is_number: bool) -> str:
    number = ' class="number"' if is_number else ""
    return f"<{tag}{number}>{escape(text)}</{tag}>"
