"""The pool that temporaries of calls from Python live in: what it holds, and limits for it.

One pool serves all threads of a process. It keeps what calls give back for the calls after them,
up to a quarter of the machine's memory, or less by `set_limit` or `BAYPLAN_MEMORY_LIMIT`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.runtime.binding import Counts

__all__ = ["MemoryStatistics", "last_call", "set_limit", "statistics", "trim"]


class MemoryStatistics:
    """The pool at one moment.

    Attributes:
        asked_bytes: of the temporaries in use, as they were asked for.
        padded_bytes: what size classes add to them, at most an eighth.
        used_bytes: both together.
        kept_bytes: of blocks kept for later calls.
        held_bytes: used and kept ones; a header before each block is not counted.
        limit_bytes: of the held bytes; None where there is no limit.
        requests: for memory, since the process began.
        refusals: requests that were refused.
        system_calls: requests that had to go to the operating system.
    """

    __slots__ = (
        "asked_bytes", "held_bytes", "kept_bytes", "limit_bytes", "padded_bytes", "refusals",
        "requests", "system_calls", "used_bytes",
    )  # fmt: skip

    def __init__(
        self,
        asked_bytes: int,
        used_bytes: int,
        kept_bytes: int,
        limit_bytes: int | None,
        requests: int,
        refusals: int,
        system_calls: int,
    ) -> None:
        self.asked_bytes = asked_bytes
        self.padded_bytes = used_bytes - asked_bytes
        self.used_bytes = used_bytes
        self.kept_bytes = kept_bytes
        self.held_bytes = used_bytes + kept_bytes
        self.limit_bytes = limit_bytes
        self.requests = requests
        self.refusals = refusals
        self.system_calls = system_calls

    def __repr__(self) -> str:
        limit = "no limit" if self.limit_bytes is None else f"limit {self.limit_bytes}"
        return (
            f"MemoryStatistics(asked {self.asked_bytes} B + {self.padded_bytes} B padding, "
            f"kept {self.kept_bytes} B, held {self.held_bytes} B, {limit}; {self.requests} "
            f"requests, {self.refusals} refused, {self.system_calls} to the system)"
        )


def statistics() -> MemoryStatistics:
    """What the pool holds now, for whoever watches a process."""
    from bayplan.driver import runtime

    now = runtime().memory()
    return MemoryStatistics(
        now.asked, now.used, now.kept, now.limit or None, now.requests, now.refusals,
        now.system_calls,
    )  # fmt: skip


def trim() -> int:
    """Gives the memory that is kept for later calls back to the system.

    May run at any time, also while other threads call programs.

    Returns:
        The bytes that were kept.
    """
    from bayplan.driver import runtime

    return runtime().trim()


def set_limit(size_bytes: int | None) -> int | None:
    """Sets the most bytes that the pool holds, in use and kept together.

    A request beyond it first gives kept blocks back to the system; where that is not enough the
    call ends with `OutOfMemory`, and the pool works on. Memory in use stays.

    Args:
        size_bytes: the limit; None for none.

    Returns:
        The limit before.
    """
    from bayplan.driver import runtime

    if size_bytes is not None and size_bytes <= 0:
        raise ValueError(f"a limit of {size_bytes} bytes is not positive; None is no limit")
    return runtime().set_memory_limit(size_bytes or 0) or None


def last_call() -> Counts:
    """What the last call of this thread took: allocations, system calls, peak bytes."""
    from bayplan.driver import context

    return context().counts
