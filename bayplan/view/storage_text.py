"""The storage report as text: plain for files and pipes, a rich table for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.view.storage_rows import (
    COLUMNS,
    RIGHT,
    format_bytes,
    make_heading,
    make_rows,
    make_totals,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_storage_text(report: Any) -> str:
    """Writes the report as a plain table, one temporary a line, for ``print`` and for files.

    Args:
        report: A ``StorageReport``.

    Returns:
        Lines without trailing blanks, ending in a newline; nothing is cut off.
    """
    rows = make_rows(report)
    lines = [make_heading(report), ""]
    if rows:
        lines += _align([COLUMNS, *rows])
        lines.append("")
    for arena in report.arenas:
        lines.append(f"arena {arena.name}: {format_bytes(arena.bytes)} bytes, {arena.scope}")
    for label, text in make_totals(report):
        lines.append(f"{label:<6}{text}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _align(table: list[tuple[str, ...]]) -> list[str]:
    """Pads the cells of each column to one width; the first row is the heading."""
    widths = [max(len(row[i]) for row in table) for i in range(len(COLUMNS))]
    lines = []
    for number, row in enumerate(table):
        cells = [
            cell.rjust(width) if name in RIGHT else cell.ljust(width)
            for name, cell, width in zip(COLUMNS, row, widths)
        ]
        lines.append("  ".join(cells))
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return lines


def render_storage_rich(report: Any) -> RenderableType:
    """Builds the report as a rich table for a terminal, for ``__rich__`` and the command line."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=make_heading(report),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for name in COLUMNS:
        # Where the terminal is too narrow, only what can be read in pieces is broken.
        table.add_column(
            name,
            justify="right" if name in RIGHT else "left",
            style="bold cyan" if name == "temporary" else "",
            overflow="fold",
            no_wrap=name not in {"temporary", "inside", "line"},
        )
    for row in make_rows(report):
        table.add_row(*[Text(cell) for cell in row])
    below = [
        Text(f"arena {arena.name}: {format_bytes(arena.bytes)} bytes, {arena.scope}")
        for arena in report.arenas
    ]
    for label, text in make_totals(report):
        below.append(Text.assemble((f"{label:<6}", "bold"), text))
    return Group(*([table] if report.temporaries else [Text(make_heading(report))]), *below)
