"""Names that are unique in the process, by the rules that users know from Halide."""

from __future__ import annotations

from typing import Final

_counts: Final[dict[str, int]] = {}


def _next(key: str) -> int:
    count = _counts.get(key, 0)
    _counts[key] = count + 1
    return count


def unique_letter_name(letter: str) -> str:
    """A name for something the user did not name: "v0", "v1", ..."""
    return f"{letter}{_next(' ' + letter)}"


def _looks_generated(stem: str) -> bool:
    return "$" in stem or (len(stem) > 1 and stem[1:].isdigit())


def reserve_name(name: str) -> None:
    """Let no Func that comes later have this name, which something else was given."""
    _counts.setdefault(name.replace("$", "_"), 1)


def unique_name(stem: str) -> str:
    """`stem` itself the first time, then "stem$1", "stem$2", ...

    A stem that looks like a generated name gets a suffix at once, so that no two names given out
    are ever the same.
    """
    plain = stem.replace("$", "_")
    count = _next(plain)
    if count == 0 and not _looks_generated(stem):
        return stem
    return f"{plain}${count}"
