"""The base of all nodes and the interning table that makes equal nodes the same object.

A node is made by calling its class; the call returns the node already in the table when one with
the same fields is there. So `==` and `hash` are identity, walkers memoise by node, and common
subexpressions cost nothing.

The table belongs to one compilation (`compilation()`), which frees it at its end. What the user
writes outside a compilation goes to a front table that may be emptied at any time: identity there
is only a saving, never relied upon. A compilation re-interns the definitions it reads.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

_FRONT_TABLE_LIMIT = 200_000

# Python frames live on the heap since 3.11, so the limit guards only against runaway recursion.
_RECURSION_LIMIT = 1_000_000


class Node:
    """Base of expressions and statements: immutable, interned, compared by identity."""

    __slots__ = ()

    table: ClassVar[dict[Any, Any]] = {}

    def children(self) -> tuple[Node, ...]:
        """The child nodes in evaluation order."""
        raise NotImplementedError

    def with_children(self, children: list[Any]) -> Node:
        """This node with other children, given in the order of `children()`."""
        raise NotImplementedError

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: object) -> Node:
        return self

    def __str__(self) -> str:
        from bayplan.ir.printer import print_node

        return print_node(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


_lock = threading.RLock()


class _Depth:
    """How many places on the stack need room to recurse, and the limit to go back to."""

    users = 0
    saved_limit = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Give walkers room to recurse over expressions as deep as the user likes; re-entrant."""
    with _lock:
        if not _Depth.users:
            _Depth.saved_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_RECURSION_LIMIT, _Depth.saved_limit))
        _Depth.users += 1
    try:
        yield
    finally:
        with _lock:
            _Depth.users -= 1
            if not _Depth.users:
                sys.setrecursionlimit(_Depth.saved_limit)


@contextmanager
def compilation() -> Iterator[None]:
    """Give one compilation its own interning table and room to recurse; one at a time.

    Re-entrant: a compilation that starts another on the same thread gets its own table back.
    """
    with _lock:
        saved = Node.table
        Node.table = {}
        # Nodes are many, live as long as the table and form no cycles: looking for garbage among
        # them would take a third of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            with deep_recursion():
                yield
        finally:
            if collecting:
                gc.enable()
            Node.table = saved


def trim_front_table() -> None:
    """Empty the front table once it has grown large; called where users define Funcs."""
    if len(Node.table) > _FRONT_TABLE_LIMIT:
        with _lock:
            Node.table = {}
