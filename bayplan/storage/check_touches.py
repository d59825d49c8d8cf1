"""What the checker of races notes: where bytes are, and which threads touch them in a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Call, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import Allocate, Evaluate
from bayplan.storage.check_walk import Scope

MANY: Final = -1
SHARED: Final = 1
GLOBAL: Final = 2


class Place:
    """Where an allocation's bytes are: a memory, and the node whose offset says where in it."""

    __slots__ = ("base", "kind", "name", "node", "scope")

    def __init__(
        self, name: str, kind: int, node: Allocate | None, base: Place | None, scope: Scope | None
    ) -> None:
        self.name = name
        self.kind = kind
        self.node = node
        self.base = base
        self.scope = scope

    def memory(self) -> Place:
        """What its bytes are a part of."""
        return self if self.base is None else self.base.memory()


def place_of(s: Allocate, around: Mapping[str, Place], scope: Scope | None) -> Place:
    if s.address is None:
        kind = SHARED if s.memory_type is MemoryType.GPUShared else GLOBAL
        if s.memory_type is MemoryType.Register:
            kind = 0  # each thread has its own
        return Place(s.name, kind, s, None, scope)
    base = s.address.args[-2]
    assert isinstance(base, Variable)
    arena = around.get(base.name)
    if arena is None:
        raise PlanError(f"{s.name} lies in {base.name}, which is not allocated around it")
    return Place(s.name, arena.kind, s, arena, scope)


def fence_of(s: Node) -> int:
    """What a barrier covers; 0: it is none."""
    if isinstance(s, Evaluate) and isinstance(s.value, Call):
        if s.value.name == "gpu_thread_barrier":
            return int(s.value.args[0].value)  # type: ignore[attr-defined]
    return 0


class Group:
    """What one step touches of one temporary, in one way.

    Attributes:
        update: of an atomic update the Func and the operation.
        touched: by byte the thread that touches it; MANY: several.
        anywhere: the same for elements whose index depends on data, with the bytes they can be.
    """

    __slots__ = ("anywhere", "place", "step", "touched", "update", "writes")

    def __init__(self, place: Place, step: Step, writes: bool, update: str) -> None:
        self.place = place
        self.step = step
        self.writes = writes
        self.update = update
        self.touched: dict[int, int] = {}
        self.anywhere: dict[tuple[int, int], int] = {}

    def add(self, byte: int, thread: int) -> None:
        """A thread touches a byte."""
        known = self.touched.get(byte)
        if known is None:
            self.touched[byte] = thread
        elif known != thread:
            self.touched[byte] = MANY

    def add_range(self, begin: int, end: int, thread: int) -> None:
        """A thread touches some of the bytes."""
        known = self.anywhere.get((begin, end))
        self.anywhere[begin, end] = thread if known in (None, thread) else MANY


class Step:
    """A stretch, or what all threads read alike."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def describe(self) -> str:
        """The first line of it."""
        lines = str(self.node).strip().splitlines()
        inner = [line.strip() for line in lines if not line.strip().startswith(("for", "let"))]
        return (inner or lines)[0]
