"""Exchanges between the lanes of a warp, in the interpreter that runs kernels thread by thread.

A lane that comes to an exchange shows its value and stops. When all lanes that take part are at
the same one, for the same time, each gets the value that the lane shows it asks for.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.walk import iterate
from tests.storage.interpret_values import Faulty, Undefined

WARP = 32


def is_exchange(s: Any) -> bool:
    """Whether a statement is the let of an exchange."""
    return (
        isinstance(s, S.LetStmt)
        and isinstance(s.value, E.Call)
        and s.value.name.startswith("warp_shuffle")
    )


def has_exchange(s: S.Stmt) -> bool:
    """Whether lanes exchange anything in a statement."""
    return any(is_exchange(n) for n in iterate(s))


class Exchange:
    """One lane at an exchange.

    Attributes:
        statement: the let.
        visit: how often the lane was there before.
        shown: the value that others can have.
        which: the lane, or how far it is.
        lanes: how many take part.
        result: what the lane gets, once all have come.
    """

    def __init__(
        self, statement: S.LetStmt, visit: int, shown: Any, which: Any, lanes: int
    ) -> None:
        self.statement = statement
        self.visit = visit
        self.shown = shown
        self.which = which
        self.lanes = lanes
        self.result: Any = None

    def source(self, lane: int) -> Any:
        """The lane whose value this one gets; may be none of those that take part."""
        if isinstance(self.which, Undefined):
            return self.which
        assert isinstance(self.statement.value, E.Call)
        name, which = self.statement.value.name, int(self.which)
        if name == "warp_shuffle_up":
            return lane - which
        if name == "warp_shuffle_down":
            return lane + which
        return lane ^ which if name == "warp_shuffle_xor" else which


class Lane:
    """Where a thread is in its block: its warp, and which lane of it."""

    def __init__(self, ids: dict[str, int]) -> None:
        x = next(i for name, i in ids.items() if name.endswith("_x"))
        others = [i for name, i in ids.items() if not name.endswith("_x")]
        self.warp = (*others, x // WARP)
        self.number = x % WARP


def answer(waiting: list[tuple[Any, Lane, Exchange]]) -> list[Any]:
    """Gives lanes what they ask for, where all of theirs have come; the threads that can go on.

    Raises:
        Faulty: lanes of a warp are at different places.
    """
    warps: dict[Any, list[tuple[Any, Lane, Exchange]]] = {}
    for entry in waiting:
        warps.setdefault(entry[1].warp, []).append(entry)
    ready: list[Any] = []
    for entries in warps.values():
        first = entries[0][2]
        came = {lane.number: exchange for _, lane, exchange in entries}
        together = all(
            e.statement is first.statement and e.visit == first.visit for e in came.values()
        )
        if not together or not set(range(first.lanes)) <= set(came):
            raise Faulty(
                f"lanes {sorted(came)} of a warp are at exchanges, of which not all take part: "
                f"{str(first.statement).strip().splitlines()[0]}"
            )
        for thread, lane, exchange in entries:
            source = exchange.source(lane.number)
            if isinstance(source, Undefined):
                exchange.result = source
            elif source in came and source < first.lanes:
                exchange.result = came[source].shown
            else:
                exchange.result = Undefined(f"lane {source} takes no part in the exchange")
            ready.append(thread)
    return ready
