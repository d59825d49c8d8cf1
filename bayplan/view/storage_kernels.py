"""The words and numbers of the kernels of a storage report, for its text, pages and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.view.storage_rows import (
    format_bytes,
    format_loop,
    format_source,
    letter_arenas,
)

COLUMNS = (
    "kernel", "launches", "blocks", "threads", "registers", "shared", "floor", "slice", "barriers",
    "steps", "line",
)  # fmt: skip

# Columns of numbers, which read better flush right.
RIGHT = frozenset({"launches", "registers", "shared", "floor", "slice", "barriers"})


class KernelRow:
    """One line of a table of kernels.

    Attributes:
        kernel: the record.
        cells: the texts of ``COLUMNS``.
        notes: lines below it: grids as formulas, arenas, barriers, kinds that were moved.
    """

    __slots__ = ("cells", "kernel", "notes")

    def __init__(self, kernel: Any, letters: dict[str, str]) -> None:
        self.kernel = kernel
        self.cells = _make_cells(kernel)
        self.notes = tuple(_make_notes(kernel, letters))


def make_kernel_rows(report: Any) -> list[KernelRow]:
    """Makes one row for each kernel, in the order of the report."""
    letters = letter_arenas(report)
    return [KernelRow(kernel, letters) for kernel in report.kernels]


def format_grid(extents: Sequence[int]) -> str:
    """Writes extents along x, y and z without those that are 1 at the end: ``46 × 160``."""
    kept = [str(extent) for extent in extents]
    while len(kept) > 1 and kept[-1] == "1":
        kept.pop()
    return " × ".join(kept)


def _make_cells(kernel: Any) -> tuple[str, ...]:
    most = "" if kernel.exact else "≤ "
    return (
        str(kernel.name),
        f"{most}{kernel.launches}",
        format_grid(kernel.blocks),
        format_grid(kernel.threads),
        format_bytes(kernel.register_bytes) if kernel.register_bytes else "",
        format_bytes(kernel.shared_bytes) if kernel.shared else "",
        format_bytes(kernel.shared_floor_bytes) if kernel.shared else "",
        format_bytes(kernel.slice_bytes) if kernel.device else "",
        str(len(kernel.barriers)) if kernel.barriers else "",
        f"[{kernel.life_begin}, {kernel.life_end})",
        format_source(kernel.source),
    )


def _make_notes(kernel: Any, letters: dict[str, str]) -> list[str]:
    notes = []
    for word, numbers, formulas in (
        ("blocks", kernel.blocks, kernel.blocks_formula),
        ("threads", kernel.threads, kernel.threads_formula),
    ):
        text = _format_formulas(numbers, formulas)
        if text:
            notes.append(f"{word} = {text}")
    if kernel.shared:
        notes.append(f"shared memory of a block: arena {letters.get(str(kernel.shared), '?')}")
    if kernel.device:
        floor = kernel.slice_floor_bytes
        less = "" if floor == kernel.slice_bytes else f" (floor {format_bytes(floor)})"
        notes.append(
            f"slice of a block in global memory: arena {letters.get(str(kernel.device), '?')}"
            f"{less}"
        )
    notes += format_barriers(kernel.barriers)
    return notes + [str(note) for note in kernel.notes]


def _format_formulas(numbers: Sequence[int], formulas: Sequence[str]) -> str:
    """The formulas of a grid; "" where they say no more than the numbers."""
    kept = [str(formula) or "?" for formula in formulas]
    while len(kept) > 1 and kept[-1] == "1":
        kept.pop()
    if not any(letter.isalpha() or letter == "?" for text in kept for letter in text):
        return ""
    if all(text == "?" or text.isdigit() for text in kept):
        return ""
    return " × ".join([text if " " not in text or len(kept) == 1 else f"({text})" for text in kept])


def format_barriers(barriers: Sequence[Any]) -> list[str]:
    """Says where barriers stand: ``barriers (shared) before steps 8, 9 (in each f.r)``."""
    lines = []
    for fence in dict.fromkeys([str(b.fence) for b in barriers]):
        mine = [b for b in barriers if str(b.fence) == fence]
        places = []
        for barrier in mine:
            inside = f" in each {format_loop(str(barrier.loops[-1]))}" if barrier.loops else ""
            places.append(f"{barrier.step}{inside}")
        one = len(mine) == 1
        lines.append(
            f"{'barrier' if one else 'barriers'} ({fence}) before "
            f"{'step' if one else 'steps'} {', '.join(places)}"
        )
    return lines


def explain_kernels(report: Any) -> list[str]:
    """Writes one line for each kernel: ``blur_y.s0.kernel: 1 launch of 80 × 60 blocks of ...``."""
    lines = []
    for kernel in report.kernels:
        count = kernel.launches
        text = f"{kernel.name}: {'' if kernel.exact else 'at most '}{count} launch"
        text += "" if count == 1 else "es"
        if count:
            text += (
                f" of {format_grid(kernel.blocks)} blocks of {format_grid(kernel.threads)} threads"
            )
        if kernel.shared:
            text += f", {format_bytes(kernel.shared_bytes)} bytes shared"
        if kernel.device:
            text += f", {format_bytes(kernel.slice_bytes)} bytes a block in global memory"
        if kernel.register_bytes:
            text += f", {format_bytes(kernel.register_bytes)} bytes of arrays a thread"
        if kernel.barriers:
            number = len(kernel.barriers)
            text += f", {number} barrier{'' if number == 1 else 's'}"
        lines.append(text)
    return lines
