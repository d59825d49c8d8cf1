"""Which allocations and buffers the host and which ones kernels touch, in each statement."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.node import Node
from bayplan.ir.stmts import Allocate, Free, Stmt, Store
from bayplan.ir.walk import iterate
from bayplan.storage.kernels import is_kernel

_NONE: Final[frozenset[str]] = frozenset()
# Calls whose first argument is a Load that stands for memory which a function writes.
_WRITTEN: Final = frozenset(["written_buffer", "callee_workspace"])


class Sides:
    """What one statement touches; names allocated inside are left out.

    Attributes:
        kernels: whether it launches any.
        host, host_stores: what the host loads or stores, and what it stores.
        device, device_stores: the same for kernels.
        freed: the allocations of the host whose life ends in it.
    """

    __slots__ = ("device", "device_stores", "freed", "host", "host_stores", "kernels")

    def __init__(self) -> None:
        self.kernels = False
        self.freed = self.host = self.host_stores = self.device = self.device_stores = _NONE

    def add(self, other: Sides, without: frozenset[str] = _NONE) -> None:
        """Takes over what a part touches."""
        self.kernels = self.kernels or other.kernels
        self.host |= other.host - without
        self.host_stores |= other.host_stores - without
        self.device |= other.device - without
        self.device_stores |= other.device_stores - without
        self.freed |= other.freed - without


class SidesOfStorage:
    """Answers for the statements of one program; each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Node, Sides] = {}
        self._in_kernels: dict[Node, tuple[frozenset[str], frozenset[str]]] = {}

    def of(self, s: Stmt) -> Sides:
        """What a statement of the host touches."""
        found = self._known.get(s)
        if found is None:
            found = self._known[s] = Sides()
            if is_kernel(s):
                found.kernels = True
                found.device, found.device_stores = self._touched(s)
                return found
            without = frozenset([s.name]) if type(s) is Allocate else _NONE
            if type(s) is Store:
                found.host = found.host_stores = frozenset([s.name])
            elif type(s) is Free:
                found.freed = frozenset([s.name])
            for child in s.children():
                if isinstance(child, Stmt):
                    found.add(self.of(child), without)
                elif isinstance(child, Expr):
                    loads, stores = touched_by(child)
                    found.host |= loads
                    found.host_stores |= stores
        return found

    def _touched(self, s: Any) -> tuple[frozenset[str], frozenset[str]]:
        """What a part of a kernel loads or stores, and what it stores."""
        found = self._in_kernels.get(s)
        if found is None:
            touched, stored = _NONE, _NONE
            for child in s.children():
                if isinstance(child, Stmt):
                    inside, inside_stored = self._touched(child)
                else:
                    inside, inside_stored = touched_by(child)
                touched, stored = touched | inside, stored | inside_stored
            if type(s) is Store:
                touched, stored = touched | {s.name}, stored | {s.name}
            elif type(s) is Allocate:
                touched, stored = touched - {s.name}, stored - {s.name}
            found = self._in_kernels[s] = (touched, stored)
        return found


def touched_by(e: Expr) -> tuple[frozenset[str], frozenset[str]]:
    """What an expression loads, or has a function read or write; and what it has written."""
    touched: set[str] = set()
    stored: set[str] = set()
    for node in iterate(e):
        if type(node) is Load:
            touched.add(node.name)
        elif type(node) is Call and node.name in _WRITTEN and type(node.args[0]) is Load:
            stored.add(node.args[0].name)
    return frozenset(touched), frozenset(stored)
