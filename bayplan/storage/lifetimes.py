"""Reads and writes lists of lifetimes as CSV files, in the format of MiniMalloc.

One buffer a line: `id,lower,upper,size` with the half-open life [lower, upper), and where wanted
`alignment` and `offset`, a place where the buffer must lie. What is written has an `offset` on
every line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from bayplan.ir.errors import LifetimesError
from bayplan.ir.source import SourceLine
from bayplan.storage.requests import Request

_NEEDED = ("id", "lower", "upper", "size")
_KNOWN = (*_NEEDED, "alignment", "offset")


class Lifetimes:
    """A list that was read.

    Attributes:
        file: where it came from.
        columns: as they stand in the file.
        rows: the texts of each line.
        requests: one a row.
    """

    __slots__ = ("columns", "file", "requests", "rows")

    def __init__(
        self, file: str, columns: list[str], rows: list[list[str]], requests: list[Request]
    ) -> None:
        self.file = file
        self.columns = columns
        self.rows = rows
        self.requests = requests


def read_lifetimes(lines: Iterable[str], file: str) -> Lifetimes:
    """Reads the lines of a CSV file, for `bayplan plan`.

    Raises:
        LifetimesError: With the file and line, and what is wrong there.
    """
    reader = csv.reader(lines)
    columns: list[str] = []
    rows: list[list[str]] = []
    requests: list[Request] = []
    seen: dict[str, int] = {}
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            where = SourceLine(file, reader.line_num)
            if not any(cells):
                continue
            if not columns:
                columns = _check_header(cells, where)
                continue
            if len(cells) != len(columns):
                raise LifetimesError(
                    f"{len(cells)} cells on this line; the header has {len(columns)}: "
                    f"{','.join(columns)}",
                    where,
                )
            request = _read_row(dict(zip(columns, cells)), where)
            if request.name in seen:
                raise LifetimesError(
                    f"the id {request.name!r} stands on line {seen[request.name]} already", where
                )
            seen[request.name] = where.line
            rows.append(cells)
            requests.append(request)
    except csv.Error as error:
        raise LifetimesError(str(error), SourceLine(file, reader.line_num)) from None
    if not columns:
        raise LifetimesError(
            f"the file is empty; its first line is {','.join(_NEEDED)}", SourceLine(file, 1)
        )
    return Lifetimes(file, columns, rows, requests)


def _check_header(cells: list[str], where: SourceLine) -> list[str]:
    for name in _NEEDED:
        if name not in cells:
            raise LifetimesError(
                f"no column {name!r}; the header needs {', '.join(_NEEDED)}", where
            )
    for name in cells:
        if name not in _KNOWN:
            raise LifetimesError(
                f"unknown column {name!r}; there may be {', '.join(_KNOWN)}", where
            )
        if cells.count(name) > 1:
            raise LifetimesError(f"the column {name!r} stands there twice", where)
    return cells


def _read_row(cells: dict[str, str], where: SourceLine) -> Request:
    numbers = {name: _read_number(name, cells[name], where) for name in ("lower", "upper", "size")}
    alignment = cells.get("alignment", "")
    offset = cells.get("offset", "")
    try:
        return Request(
            cells["id"],
            numbers["size"],
            numbers["lower"],
            numbers["upper"],
            _read_number("alignment", alignment, where) if alignment else 1,
            _read_number("offset", offset, where) if offset else None,
        )
    except ValueError as error:
        raise LifetimesError(str(error), where) from None


def _read_number(name: str, text: str, where: SourceLine) -> int:
    try:
        return int(text)
    except ValueError:
        raise LifetimesError(f"{name} is {text!r}, which is no whole number", where) from None


def write_lifetimes(lifetimes: Lifetimes, offsets: Sequence[int]) -> str:
    """The same list with the offset of each, as the text of a CSV file."""
    import io

    columns = lifetimes.columns
    place = columns.index("offset") if "offset" in columns else len(columns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns[:place], "offset", *columns[place + 1 :]])
    for row, offset in zip(lifetimes.rows, offsets):
        writer.writerow([*row[:place], offset, *row[place + 1 :]])
    return text.getvalue()
