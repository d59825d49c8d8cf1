"""Short makers of final statements with arenas, as the storage plan leaves them."""

from __future__ import annotations

from typing import Any

from bayplan.ir.build import block as block
from bayplan.ir.build import const, true
from bayplan.ir.build import int32 as int32
from bayplan.ir.build import var as var
from bayplan.ir.exprs import Call, CallKind, Expr, Load, Variable
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, For, Stmt, Store
from bayplan.ir.types import FLOAT32, INT64, Handle, Type, UInt

ARENA = "p.arena"


def size(value: int | Expr) -> Expr:
    """A number of bytes."""
    return value if isinstance(value, Expr) else const(INT64, value)


def call(name: str, *args: Expr, type: Type = INT64, target: Any = None) -> Call:
    """One of the calls that a storage plan makes."""
    return Call(type, name, args, CallKind.INTRINSIC, target)


def arena(bytes: int | Expr, body: Stmt, name: str = ARENA) -> Allocate:
    """A backing allocation."""
    return Allocate(name, UInt(8), MemoryType.Heap, (size(bytes),), true(), 0, body)


def alias(
    name: str,
    extent: int | Expr,
    offset: int | Expr,
    body: Stmt,
    *,
    type: Type = FLOAT32,
    of: str = ARENA,
    alignment: int = 4,
) -> Allocate:
    """A temporary in an arena."""
    extent = extent if isinstance(extent, Expr) else int32(extent)
    address = call("offset_pointer", Variable(Handle(), of), size(offset), type=Handle())
    return Allocate(name, type, MemoryType.Heap, (extent,), true(), 0, body, alignment, address)


def loop(
    name: str, extent: int | Expr, body: Stmt, kind: ForKind = ForKind.Serial, low: int = 0
) -> For:
    """A loop from `low` on."""
    extent = extent if isinstance(extent, Expr) else int32(extent)
    return For(name, int32(low), extent, kind, Partition.Auto, body)


def load(name: str, index: Expr, type: Type = FLOAT32) -> Load:
    """An element of an allocation."""
    return Load(type, name, index)


def copy(target: str, source: str, index: Expr) -> Store:
    """target[index] = source[index] + 1."""
    return Store(target, load(source, index) + 1.0, index)


def fill(target: str, index: Expr, value: float = 1.0) -> Store:
    """target[index] = value."""
    return Store(target, const(FLOAT32, value), index)


def bytes_of(extent: Expr, element_bytes: int = 4) -> Call:
    """The bytes of so many elements."""
    return call("size_in_bytes", const(INT64, element_bytes), const(INT64, 0), extent)
