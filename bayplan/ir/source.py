"""The user's file and line: remembered by every Func, update, directive and error."""

from __future__ import annotations

import os
import sys
from typing import Final

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class SourceLine:
    """A line of a user's file."""

    __slots__ = ("file", "line")

    def __init__(self, file: str, line: int) -> None:
        self.file = file
        self.line = line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def __repr__(self) -> str:
        return f"SourceLine({self.file!r}, {self.line})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SourceLine) and self.file == other.file and self.line == other.line
        )

    def __hash__(self) -> int:
        return hash((self.file, self.line))


def user_line() -> SourceLine | None:
    """The innermost line on the stack that is outside this package, or None."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            return SourceLine(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None
