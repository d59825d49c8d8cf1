"""The words and numbers of a storage report, shared by its text, its tables and its pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.memory import MemoryType

COLUMNS = (
    "temporary", "kind", "type", "extents", "bytes", "life", "place", "inside", "line",
)  # fmt: skip

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


class Row:
    """One line of a table: a temporary, with all the places where it is allocated.

    A loop that is cut into pieces, and a specialisation, repeat the allocations in them; a reader
    thinks of one temporary.

    Attributes:
        first: the record in whose words the line is written: the largest.
        places: all records of that name, in program order.
        cells: the texts of ``COLUMNS``.
        formula: of the bytes; "" where the extents are numbers that say as much.
        notes: sentences below the line: kinds that were moved, who shares bytes.
    """

    __slots__ = ("cells", "first", "formula", "notes", "places")

    def __init__(self, places: Sequence[Any], letters: dict[str, str]) -> None:
        self.places = tuple(places)
        self.first = max(places, key=lambda t: t.bytes)
        self.cells = _make_cells(self.first, self.places, letters)
        self.formula = "" if _is_number(str(self.first.formula)) else str(self.first.formula)
        self.notes = tuple(_make_notes(self.first, self.places))


def make_rows(report: Any) -> list[Row]:
    """Makes one row for each temporary, in the order of the report."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for temporary in report.temporaries:
        groups.setdefault((str(temporary.name), str(temporary.kind)), []).append(temporary)
    letters = letter_arenas(report)
    return [Row(places, letters) for places in groups.values()]


def letter_arenas(report: Any) -> dict[str, str]:
    """Gives each arena but the stack a letter, by which tables and pictures call it."""
    names = [str(a.name) for a in report.arenas if a.scope != "thread"]
    return {name: _letter(i) for i, name in enumerate(names)}


def _letter(number: int) -> str:
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _is_number(formula: str) -> bool:
    return not any(letter.isalpha() for letter in formula)


def _make_cells(
    temporary: Any, places: Sequence[Any], letters: dict[str, str]
) -> tuple[str, ...]:
    kind = str(temporary.kind)
    if temporary.copies > 1:
        kind += f" ×{temporary.copies}"
    life = f"[{places[0].life_begin}, {places[0].life_end})"
    if len(places) > 1:
        life += f" +{len(places) - 1}"
    return (
        str(temporary.name),
        kind,
        str(temporary.element_type),
        " × ".join(str(extent) for extent in temporary.extents) or "scalar",
        format_bytes(temporary.bytes),
        life,
        format_place(temporary, letters),
        format_loop(str(temporary.loops[-1])) if temporary.loops else "",
        format_source(temporary.source),
    )


def format_place(temporary: Any, letters: dict[str, str]) -> str:
    """Says where in its arena a temporary lies: ``A + 4,096``."""
    if temporary.kind in ("stack", "register", "static"):
        return ""
    letter = letters.get(str(temporary.arena))
    if temporary.arena in temporary.shares:
        return f"in {temporary.arena}"  # an output
    if letter is None or temporary.offset is None:
        return "own memory"
    return f"{letter} + {temporary.offset:,}"


def format_kind_note(temporary: Any) -> str:
    """Says that a temporary did not get the kind it asked for, and why; "" where it did."""
    if not temporary.why:
        return ""
    return f"asked {_kind_name(temporary.asked)}, got {_kind_name(temporary.kind)}: {temporary.why}"


def _kind_name(kind: Any) -> str:
    return MemoryType(kind).name


def format_names(names: Sequence[str], most: int) -> str:
    """Lists names, the first few where there are many: ``a, b and 3 more``."""
    shown = [str(name) for name in names[:most]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def find_shares(places: Sequence[Any]) -> tuple[str, ...]:
    """Names of all whose bytes those of a temporary are at other steps.

    Left out are itself and what it replaces in place, which is said apart.
    """
    names = [str(n) for t in places for n in t.shares if n not in (t.name, t.in_place_of)]
    return tuple(dict.fromkeys(names))


def _make_notes(temporary: Any, places: Sequence[Any]) -> list[str]:
    notes = [format_kind_note(t) for t in places]
    notes += [f"in place of {t.in_place_of}" for t in places if t.in_place_of]
    shares = find_shares(places)
    if shares:
        notes.append(f"shares bytes with {format_names(shares, 5)}")
    return [note for note in dict.fromkeys(notes) if note]


def make_place_note(rows: Sequence[Row]) -> str:
    """Says what the `+1` behind a life means, where there is one."""
    if all(len(row.places) == 1 for row in rows):
        return ""
    return "+n: allocated in n more places, for other parts of its loops"


def format_arena(arena: Any, letters: dict[str, str]) -> str:
    """Says of an arena its letter, what it takes, whose it is, and where it lies itself."""
    text = f"arena {letters[str(arena.name)]}: {format_bytes(arena.bytes)} bytes"
    if arena.floor_bytes != arena.bytes:
        text += f" (floor {format_bytes(arena.floor_bytes)})"
    if arena.scope == "call":
        return f"{text}, the call's" + (" on the device" if arena.kind == "gpu_global" else "")
    if arena.kernel:
        text += f", {'shared by' if arena.kind == 'gpu_shared' else 'of'} a block of {arena.kernel}"
    else:
        text += f", of a worker of {format_loop(str(arena.scope))}"
    if arena.copies > 1:
        text += f", ×{arena.copies}"
    if arena.arena:
        text += f", in {letters[str(arena.arena)]} + {arena.offset:,}"
    return text


def make_arena_lines(report: Any) -> list[str]:
    """Makes one line for each arena."""
    letters = letter_arenas(report)
    return [format_arena(a, letters) for a in report.arenas if str(a.name) in letters]


def make_totals(report: Any) -> list[tuple[str, str, str]]:
    """Makes the closing lines: (label, value, formula) for peak, floor, sum, device and stack."""
    lines = [
        ("peak", report.peak_bytes, "heap bytes that a call needs, known before it"),
        ("floor", report.floor_bytes, "the least that any plan could take"),
        ("sum", report.sum_bytes, "all heap temporaries side by side"),
    ]
    if report.device_bytes:
        lines.append(("gpu", report.device_bytes, "device memory that a call needs"))
        lines.append(("least", report.device_floor_bytes, "no plan takes less on the device"))
    if report.stack_bytes:
        lines.append(("stack", report.stack_bytes, "in one thread"))
    floor = report.floor_formula if report.floor_formula != report.formula else ""
    formulas = {"peak": str(report.formula), "floor": str(floor)}
    most = "" if report.exact else "at most "
    totals = []
    for label, count, meaning in lines:
        short = "" if count is None or count < 1024 else f" ({format_bytes_short(count)})"
        text = f"{most}{format_bytes(count)} bytes{short}: {meaning}"
        totals.append((label, text, formulas.get(label, "")))
    return totals


def make_heading(report: Any) -> str:
    """Says how many temporaries and arenas there are, and for how many workers."""
    count = len({str(t.name) for t in report.temporaries})
    if count == 0:
        return "no temporaries: nothing is allocated"
    text = f"{count} temporar{'y' if count == 1 else 'ies'}"
    arenas = len([a for a in report.arenas if a.scope != "thread"])
    if arenas:
        text += f" in {arenas} arena{'' if arenas == 1 else 's'}"
    if report.workers > 1:
        text += f", {report.workers} workers"
    return text
