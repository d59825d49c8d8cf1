"""The storage report as a page for notebooks: a picture of the lives above the table.

The page is one element with its style inside; it loads nothing, so it opens without a network and
can be pasted into another page.
"""

from __future__ import annotations

from html import escape
from typing import Any

from bayplan.view.storage_rows import (
    COLUMNS,
    RIGHT,
    format_bytes,
    format_bytes_short,
    make_heading,
    make_rows,
    make_totals,
)

_STYLE = """
.bayplan-storage {font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.4;}
.bayplan-storage table {border-collapse: collapse; margin: 8px 0;}
.bayplan-storage th, .bayplan-storage td {text-align: left; padding: 2px 10px 2px 0;
  border-bottom: 1px solid rgba(128, 128, 128, .3); white-space: nowrap;}
.bayplan-storage .number {text-align: right; font-variant-numeric: tabular-nums;}
.bayplan-storage svg {display: block; max-width: 100%; height: auto;}
.bayplan-storage svg text {font: 11px system-ui, sans-serif; fill: currentColor;}
"""

# One colour a kind; what is not listed gets the last.
_COLOURS = {
    "heap": "#4269d0",
    "stack": "#3ca951",
    "register": "#9c6b4e",
    "static": "#a463f2",
    "gpushared": "#efb118",
}
_OTHER_COLOUR = "#97a0ad"

_LEFT, _WIDTH, _BAR, _GAP, _FOOT = 150, 560, 14, 6, 24


def render_storage_html(report: Any) -> str:
    """Draws the report for ``_repr_html_`` and for ``bayplan storage --html``.

    Returns:
        One ``<div>`` with style, an SVG of the lives and the table. Every name is escaped.
    """
    head = "".join(
        f'<th class="number">{name}</th>' if name in RIGHT else f"<th>{name}</th>"
        for name in COLUMNS
    )
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in make_rows(report))
    arenas = "".join(
        f"<div>arena {escape(str(arena.name))}: {format_bytes(arena.bytes)} bytes, "
        f"{escape(str(arena.scope))}</div>"
        for arena in report.arenas
    )
    totals = "".join(
        f"<div><b>{label}</b> {escape(text)}</div>" for label, text in make_totals(report)
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return (
        f'<div class="bayplan-storage"><style>{_STYLE}</style>'
        f"<div><b>{escape(make_heading(report))}</b></div>"
        f"{_draw_lives(report)}{table}{arenas}{totals}</div>"
    )


def _cells(row: tuple[str, ...]) -> str:
    return "".join(
        f'<td class="number">{escape(cell)}</td>' if name in RIGHT else f"<td>{escape(cell)}</td>"
        for name, cell in zip(COLUMNS, row)
    )


def _draw_lives(report: Any) -> str:
    """Draws one bar for each temporary over the steps in which its bytes are live."""
    temporaries = report.temporaries
    if not temporaries:
        return ""
    last = max(max(temporary.life_end for temporary in temporaries), 1)
    height = len(temporaries) * (_BAR + _GAP) + _FOOT
    parts = [
        f'<svg role="img" aria-label="lives of the temporaries" '
        f'viewBox="0 0 {_LEFT + _WIDTH + 10} {height}" width="{_LEFT + _WIDTH + 10}">'
    ]
    scale = _WIDTH / last
    for row, temporary in enumerate(temporaries):
        top = row * (_BAR + _GAP)
        begin = _LEFT + temporary.life_begin * scale
        width = max((temporary.life_end - temporary.life_begin) * scale, 2.0)
        tip = (
            f"{temporary.name}: {format_bytes(temporary.bytes)} bytes, "
            f"steps [{temporary.life_begin}, {temporary.life_end})"
        )
        parts.append(
            f'<text x="{_LEFT - 8}" y="{top + _BAR - 3}" text-anchor="end">'
            f"{escape(_shorten(str(temporary.name)))}</text>"
            f'<rect x="{begin:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" '
            f'fill="{_COLOURS.get(str(temporary.kind).lower(), _OTHER_COLOUR)}">'
            f"<title>{escape(tip)}</title></rect>"
            + _label_in_bar(begin, width, top, format_bytes_short(temporary.bytes))
        )
    base = height - _FOOT + 14
    parts.append(
        f'<text x="{_LEFT}" y="{base}">step 0</text>'
        f'<text x="{_LEFT + _WIDTH}" y="{base}" text-anchor="end">step {last}</text></svg>'
    )
    return "".join(parts)


def _label_in_bar(begin: float, width: float, top: int, text: str) -> str:
    """Writes the bytes into a bar that is wide enough for them."""
    if width < 7 * len(text):
        return ""
    return f'<text x="{begin + 4:.1f}" y="{top + _BAR - 3}" style="fill:#fff">{text}</text>'


def _shorten(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
