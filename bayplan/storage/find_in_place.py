"""Which temporaries may take over the bytes of another, element by element.

Of two temporaries one of which is computed from the other, point by point, both are alive only
while this happens. Where each element of the old one is read for the last time by the statement
that writes the same element of the new one, one set of bytes is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.ir.exprs import Expr, Load, Shuffle, VectorReduce
from bayplan.ir.node import Node
from bayplan.ir.stmts import AssertStmt, Store
from bayplan.ir.walk import iterate
from bayplan.storage.lives import Life, Lives
from bayplan.storage.places import parallel_loop_of


def find_in_place(
    lives: Lives, members: Sequence[Life], stored_once: Callable[[str], bool]
) -> dict[Life, Life]:
    """The pairs new -> old of temporaries of one scope; each old one is taken over at most once.

    Args:
        lives: of the whole statement.
        members: those that may take part, in program order.
        stored_once: whether the temporary of that name has each element stored at most once.
    """
    found: dict[Life, Life] = {}
    taken: set[Life] = set()
    ending: dict[int, list[Life]] = {}
    for life in members:
        for step in range(life.begin, life.end):
            ending.setdefault(step, []).append(life)
    for new in members:
        if not stored_once(new.name):
            continue
        for old in ending.get(new.begin, []):
            if old is new or old in taken or not old.begin < new.begin < old.end < new.end:
                continue
            if old.type is not new.type or _scope(old) is not _scope(new):
                continue
            if _replaces(lives, old, new):
                found[new] = old
                taken.add(old)
                break
    return found


def _scope(life: Life) -> object:
    return parallel_loop_of(life.place)


def _replaces(lives: Lives, old: Life, new: Life) -> bool:
    """Whether all that touches either while both are alive stores one where it reads the other."""
    return all(
        _reads_where_it_stores(leaf, old.name, new.name)
        for step in range(new.begin, old.end)
        for leaf in lives.leaves.get(step, [])
    )


def _reads_where_it_stores(leaf: Node, old: str, new: str) -> bool:
    if not isinstance(leaf, Store | AssertStmt | Expr):
        # Whatever else happens, such as a call, may touch any element.
        return False
    if type(leaf) is Store and leaf.name == old:
        return False
    index = leaf.index if type(leaf) is Store and leaf.name == new else None
    for e in iterate(leaf):
        if type(e) is Load and e.name == old and e.index is not index:
            return False
        if type(e) is Load and e.name == new:
            return False
        if isinstance(e, Shuffle | VectorReduce):
            # Lanes that change places are read after others have been stored.
            return False
    return True
