"""A count of changes to algorithms and schedules, so that compiled programs know they are stale."""

from __future__ import annotations

_count = 0


def bump() -> None:
    """Note that something lowering reads was changed: a definition, a directive, a constraint."""
    global _count
    _count += 1


def count() -> int:
    """The number of changes so far."""
    return _count
