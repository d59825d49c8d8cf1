"""The storage report as text: plain for files and pipes, a rich table for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bayplan.view.storage_kernels import COLUMNS as KERNEL_COLUMNS
from bayplan.view.storage_kernels import RIGHT as KERNEL_RIGHT
from bayplan.view.storage_kernels import explain_kernels, make_kernel_rows
from bayplan.view.storage_rows import (
    COLUMNS,
    RIGHT,
    find_shares,
    format_bytes,
    format_loop,
    format_names,
    make_arena_lines,
    make_heading,
    make_place_note,
    make_rows,
    make_totals,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_INDENT = "    "


def render_storage_text(report: Any) -> str:
    """Writes the report as a plain table for ``print`` and for files.

    Below the line of a temporary stand its formula, where that says more than the extents, and
    what there is to note.

    Args:
        report: A ``StorageReport``.

    Returns:
        Lines without trailing blanks, ending in a newline; nothing is cut off.
    """
    rows = make_rows(report)
    lines = [make_heading(report), ""]
    if rows:
        heading, rule, *table = _align(COLUMNS, [row.cells for row in rows])
        lines += [heading, rule]
        for row, line in zip(rows, table, strict=True):
            lines.append(line)
            if row.formula:
                lines.append(f"{_INDENT}= {row.formula}")
            lines += [f"{_INDENT}{note}" for note in row.notes]
        lines += [note for note in [make_place_note(rows)] if note]
        lines.append("")
    if report.terms:
        lines += ["where", *[f"{_INDENT}{name} = {text}" for name, text in report.terms], ""]
    lines += make_arena_lines(report)
    lines += _kernel_lines(report)
    for label, text, formula in make_totals(report):
        lines.append(f"{label:<6}{text}")
        if formula:
            lines.append(f"      = {formula}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _kernel_lines(report: Any) -> list[str]:
    """The table of kernels, with the notes of each below it, between empty lines."""
    rows = make_kernel_rows(report)
    if not rows:
        return []
    used = [i for i in range(len(KERNEL_COLUMNS)) if any(row.cells[i] for row in rows)]
    columns = [KERNEL_COLUMNS[i] for i in used]
    table = [tuple([row.cells[i] for i in used]) for row in rows]
    heading, rule, *found = _align(columns, table, KERNEL_RIGHT)
    lines = ["", heading, rule]
    for row, line in zip(rows, found, strict=True):
        lines += [line, *[f"{_INDENT}{note}" for note in row.notes]]
    return [*lines, ""]


def explain_storage(report: Any) -> str:
    """Writes one line for each temporary: kind, bytes, life, loops, who shares, formula."""
    columns = ("temporary", "kind", "bytes", "life", "between", "shares with", "formula")
    lines = [make_heading(report), ""]
    table = []
    for row in make_rows(report):
        first = row.first
        table.append(
            (
                *row.cells[:2],
                format_bytes(first.bytes),
                row.cells[5],
                _between(report, row.places),
                format_names(_sharers(row.places), 2),
                str(first.formula),
            )
        )
    if table:
        lines += [*_align(columns, table), ""]
    if report.terms:
        lines += ["where", *[f"{_INDENT}{name} = {text}" for name, text in report.terms], ""]
    kernels = explain_kernels(report)
    lines += [*kernels, ""] if kernels else []
    lines += [f"{label:<6}{text}" for label, text, _ in make_totals(report)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _sharers(places: Sequence[Any]) -> tuple[str, ...]:
    """What is replaced in place comes first."""
    replaced = [f"{t.in_place_of} (in place)" for t in places if t.in_place_of]
    return (*dict.fromkeys(replaced), *find_shares(places))


def _between(report: Any, places: Sequence[Any]) -> str:
    """The loops in which a life begins and ends."""
    first = _loop_of(report, places[0].life_begin)
    last = _loop_of(report, places[0].life_end - 1)
    return first if first == last else f"{first} .. {last}"


def _loop_of(report: Any, step: int) -> str:
    if not 0 <= step < len(report.steps):
        return ""
    return format_loop(str(report.steps[step]).partition(" in ")[2])


def _align(
    columns: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    right: frozenset[str] = RIGHT,
) -> list[str]:
    """Pads the cells of each column to one width; the heading and a rule come first."""
    table = [tuple(columns), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    lines = []
    for number, row in enumerate(table):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths)
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
    below: list[Text] = []
    totals: list[Text] = []
    for row in make_rows(report):
        table.add_row(*[Text(cell) for cell in row.cells])
        notes = ([f"= {row.formula}"] if row.formula else []) + list(row.notes)
        if notes:
            below.append(Text.assemble((str(row.first.name), "cyan"), f" {'; '.join(notes)}"))
    below += [Text(f"where {name} = {text}") for name, text in report.terms]
    below += [Text(line) for line in make_arena_lines(report)]
    kernels = _kernel_table(report)
    for label, text, formula in make_totals(report):
        totals.append(Text.assemble((f"{label:<6}", "bold"), text))
        if formula:
            totals.append(Text(f"      = {formula}"))
    head = [table] if report.temporaries else [Text(make_heading(report))]
    return Group(*head, *below, *kernels, *totals)


def _kernel_table(report: Any) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    rows = make_kernel_rows(report)
    if not rows:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0))
    used = [i for i in range(len(KERNEL_COLUMNS)) if any(row.cells[i] for row in rows)]
    for i in used:
        name = KERNEL_COLUMNS[i]
        table.add_column(
            name,
            justify="right" if name in KERNEL_RIGHT else "left",
            style="bold cyan" if name == "kernel" else "",
            overflow="fold",
            no_wrap=name not in {"kernel", "line"},
        )
    below: list[RenderableType] = []
    for row in rows:
        table.add_row(*[Text(row.cells[i]) for i in used])
        below += [Text.assemble((str(row.kernel.name), "cyan"), f" {n}") for n in row.notes]
    return [Text(""), table, *below, Text("")]
