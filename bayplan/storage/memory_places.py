"""Which bytes of which memory a name stands for, in the final plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bayplan.ir.exprs import Call, Const, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate
from bayplan.storage.kernel_names import Names
from bayplan.storage.polynomials import Polynomial, polynomial_of, product, times, total

SHARED: Final = 1
GLOBAL: Final = 2
"""Kinds of memory, as the fence of a barrier counts them."""


Placed = tuple[Any, int, Polynomial]


class MemoryPlace:
    """The bytes of an allocation or of a buffer of the call.

    Attributes:
        memory: what the bytes belong to; two memories have no byte in common.
        kind: SHARED or GLOBAL; 0: each thread has its own.
        offset: bytes from the begin of the memory; None: not known.
        size: bytes; None: not known.
        outer: what it is an alias in; None: it has bytes of its own.
        placed: the Placement that gives the offset, the number in it, and what is added to it.
    """

    __slots__ = ("kind", "memory", "offset", "outer", "placed", "size")

    def __init__(
        self,
        memory: str,
        kind: int,
        offset: Polynomial | None,
        size: Polynomial | None,
        placed: Placed | None = None,
        outer: MemoryPlace | None = None,
    ) -> None:
        self.outer = outer
        self.memory = memory
        self.kind = kind
        self.offset = offset
        self.size = size
        self.placed = placed

    def around(self) -> Iterator[MemoryPlace]:
        """Itself and what it is an alias in, innermost first."""
        place: MemoryPlace | None = self
        while place is not None:
            yield place
            place = place.outer


class Memories:
    """The allocations in scope.

    Args:
        same: by buffer of the call, another one that may be the same memory.
    """

    def __init__(self, same: dict[str, str]) -> None:
        self._same = same
        self._open: dict[str, MemoryPlace] = {}
        self._made = 0

    def find(self, name: str) -> MemoryPlace:
        """What the name stands for in a kernel.

        Where the host has bytes of its own for it, those of the device have the name
        `NAME.device`. A name without allocation is a buffer of the call.
        """
        found = self._open.get(f"{name}.device") or self._open.get(name)
        if found is None:
            memory = self._same.get(name)
            offset: Polynomial | None = {} if memory is None else None
            found = MemoryPlace(name if memory is None else memory, GLOBAL, offset, None)
        return found

    def enter(self, s: Allocate, names: Names, private: bool) -> MemoryPlace | None:
        """The allocation's scope begins; gives what its name stood for, for `leave`."""
        hidden = self._open.get(s.name)
        size = _size_of(s, names)
        if s.address is None:
            self._made += 1
            kind = SHARED if s.memory_type is MemoryType.GPUShared else GLOBAL
            place = MemoryPlace(f"{s.name}#{self._made}", 0 if private else kind, {}, size)
        else:
            place = self._alias(s.address, size, names)
        self._open[s.name] = place
        return hidden

    def leave(self, s: Allocate, hidden: MemoryPlace | None) -> None:
        """The allocation's scope ends."""
        if hidden is None:
            del self._open[s.name]
        else:
            self._open[s.name] = hidden

    def _alias(self, address: Call, size: Polynomial | None, names: Names) -> MemoryPlace:
        base, offset = address.args[-2], names.written_out(address.args[-1])
        assert isinstance(base, Variable)
        arena = self.find(base.name)
        if address.name != "offset_pointer":
            # It may lie in an output instead: then neither memory is known to be another one.
            output = self.find(address.args[1].name)  # type: ignore[attr-defined]
            self._same[output.memory] = arena.memory
            return MemoryPlace(arena.memory, arena.kind, None, size)
        begin = None if arena.offset is None else total(arena.offset, polynomial_of(offset))
        return MemoryPlace(arena.memory, arena.kind, begin, size, _placed(begin), arena)


def _placed(begin: Polynomial | None) -> Placed | None:
    """The Placement that an offset comes from, if it is one."""
    for monomial, c in (begin or {}).items():
        call = monomial[0] if len(monomial) == 1 and c == 1 else None
        if isinstance(call, Call) and call.name == "placed_offset":
            which = call.args[0]
            assert begin is not None and isinstance(which, Const)
            return call.target, int(which.value), total(begin, {monomial: 1}, -1)
    return None


def _size_of(s: Allocate, names: Names) -> Polynomial | None:
    count: Polynomial = {(): 1}
    for extent in s.extents:
        extent_of = polynomial_of(names.written_out(extent))
        if len(count) * len(extent_of) > 64:
            return None
        count = product(count, extent_of)
    return times(total(count, {(): 1}, s.padding), s.type.bytes())


def are_apart_by_plan(a: MemoryPlace, b: MemoryPlace) -> bool:
    """Whether a Placement never lets the two share a byte."""
    if a.placed is None or b.placed is None:
        return False
    placement, i, outside = a.placed
    other, j, outside_b = b.placed
    if placement is not other or outside != outside_b or i == j:
        return False
    first, second = placement.lives[i], placement.lives[j]
    together: bool = first[0] < second[1] and second[0] < first[1]
    return together
