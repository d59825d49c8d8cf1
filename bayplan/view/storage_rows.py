"""The words and numbers of a storage report, shared by its text, its table and its page."""

from __future__ import annotations

from typing import Any

COLUMNS = ("temporary", "kind", "type", "extents", "bytes", "life", "inside", "line")

# Columns of numbers, which read better flush right.
RIGHT = frozenset({"bytes"})


def format_bytes(count: int | None) -> str:
    """Writes a byte count in full with thousands marks, so that sums can be checked by hand."""
    return "unknown" if count is None else f"{count:,}"


def format_bytes_short(count: int | None) -> str:
    """Writes a byte count with a unit for a reader in a hurry: ``229.6 KiB``."""
    if count is None:
        return "unknown"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_source(source: str | None) -> str:
    """Shortens ``/long/path/file.py:12`` to ``file.py:12``."""
    if not source:
        return ""
    return str(source).replace("\\", "/").rsplit("/", 1)[-1]


def format_loop(loop: str) -> str:
    """Shortens ``blur_y.s0.y.yi`` to ``blur_y.yi``: the Func and the loop's own name.

    The stage stays where it is an update: ``hist.s1.r`` becomes ``hist.update(0).r``.
    """
    func, dot, rest = loop.partition(".s")
    stage, _, path = rest.partition(".")
    if not dot or not stage.isdigit() or not path:
        return loop
    update = "" if stage == "0" else f".update({int(stage) - 1})"
    return f"{func}{update}.{path.rsplit('.', 1)[-1]}"


def make_rows(report: Any) -> list[tuple[str, ...]]:
    """Makes one row of ``COLUMNS`` for each temporary, in the order of the report."""
    rows: list[tuple[str, ...]] = []
    for temporary in report.temporaries:
        kind = str(temporary.kind)
        if temporary.copies > 1:
            kind += f" ×{temporary.copies}"
        extents = " × ".join(str(extent) for extent in temporary.extents) or "scalar"
        rows.append(
            (
                str(temporary.name),
                kind,
                str(temporary.element_type),
                extents,
                format_bytes(temporary.bytes),
                f"[{temporary.life_begin}, {temporary.life_end})",
                " ".join(format_loop(str(loop)) for loop in temporary.loops),
                format_source(temporary.source),
            )
        )
    return rows


def make_totals(report: Any) -> list[tuple[str, str]]:
    """Makes the closing lines: (label, value) for peak, floor, sum and stack."""
    lines = [
        ("peak", report.peak_bytes, "heap bytes that a call takes"),
        ("floor", report.floor_bytes, "the least that any plan could take"),
        ("sum", report.sum_bytes, "all heap temporaries side by side"),
    ]
    if report.stack_bytes:
        lines.append(("stack", report.stack_bytes, "in one thread"))
    most = "" if report.exact else "at most "
    totals = []
    for label, count, meaning in lines:
        short = "" if count is None or count < 1024 else f" ({format_bytes_short(count)})"
        totals.append((label, f"{most}{format_bytes(count)} bytes{short}: {meaning}"))
    return totals


def make_heading(report: Any) -> str:
    """Says how many temporaries and arenas there are, and for how many workers."""
    count = len(report.temporaries)
    if count == 0:
        return "no temporaries: nothing is allocated"
    text = f"{count} temporar{'y' if count == 1 else 'ies'}"
    if report.arenas:
        text += f" in {len(report.arenas)} arena{'' if len(report.arenas) == 1 else 's'}"
    if report.workers > 1:
        text += f", {report.workers} workers"
    return text
