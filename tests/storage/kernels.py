"""Short makers of kernels as the passes leave them before barriers are inserted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.build import block as block
from bayplan.ir.build import const, int32, lt, true, var
from bayplan.ir.exprs import Call, CallKind, Expr, Load, Variable
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, Evaluate, For, IfThenElse, Stmt, Store
from bayplan.ir.types import INT32, INT64, Handle, Type, UInt
from bayplan.ir.walk import iterate
from bayplan.storage.barriers import BARRIER, place_barriers
from bayplan.storage.kernel_names import Names
from bayplan.storage.kernel_steps import KernelSteps
from bayplan.storage.memory_places import Memories

X = var("k.thread_id_x")
Y = var("k.thread_id_y")
Z = var("k.thread_id_z")
BLOCK = var("k.block_id_x")
ARENA = "k.shared_alloc"


def integer(value: int | Expr) -> Expr:
    """An int32."""
    return value if isinstance(value, Expr) else int32(value)


def threads(body: Stmt, *extents: int | Expr, kind: ForKind = ForKind.GPUThread) -> Stmt:
    """A stretch: loops over the threads, x innermost."""
    for name, extent in zip("xyz", extents, strict=False):
        thread = f"k.thread_id_{name}"
        body = For(thread, int32(0), integer(extent), kind, Partition.Auto, body)
    return body


def stage_of(n: int, target: str, *sources: str, index: Expr | None = None) -> Stmt:
    """A stretch of `n` threads, each of which needs what another one made of the sources.

    Args:
        index: where it reads; from the other end when not said.
    """
    at = n - 1 - X if index is None else index
    value = sum([load(s, at) for s in sources[1:]], load(sources[0], at))
    return threads(store(target, X, value), n)


def serial(name: str, extent: int | Expr, body: Stmt, low: int | Expr = 0) -> For:
    """A loop that all threads go through together, or one in a stretch."""
    return For(name, integer(low), integer(extent), ForKind.Serial, Partition.Auto, body)


def when(condition: Expr, body: Stmt) -> IfThenElse:
    """A guard."""
    return IfThenElse(condition, body)


def kernel(body: Stmt, blocks: int | Expr = 1) -> For:
    """The loop over blocks."""
    extent = integer(blocks)
    return For("k.block_id_x", int32(0), extent, ForKind.GPUBlock, Partition.Auto, body)


def shared(name: str, extent: int | Expr, body: Stmt, type: Type = INT32) -> Allocate:
    """Shared memory of its own."""
    kind = MemoryType.GPUShared
    return Allocate(name, type, kind, (integer(extent),), true(), 0, body)


def arena(bytes: int | Expr, body: Stmt, kind: MemoryType = MemoryType.GPUShared) -> Allocate:
    """The arena of the block."""
    return Allocate(ARENA, UInt(8), kind, (integer(bytes),), true(), 0, body)


def alias(
    name: str, extent: int | Expr, offset: int | Expr, body: Stmt, type: Type = INT32
) -> Allocate:
    """A temporary in the arena of the block."""
    begin = offset if isinstance(offset, Expr) else const(INT64, offset)
    place = (Variable(Handle(), ARENA), begin)
    address = Call(Handle(), "offset_pointer", place, CallKind.INTRINSIC)
    kind, size = MemoryType.GPUShared, (integer(extent),)
    return Allocate(name, type, kind, size, true(), 0, body, type.bytes(), address)


def load(name: str, index: int | Expr, type: Type = INT32) -> Load:
    """An element."""
    return Load(type, name, integer(index))


def store(name: str, index: int | Expr, value: int | Expr) -> Store:
    """name[index] = value."""
    return Store(name, integer(value), integer(index))


def steps_of(body: Stmt) -> KernelSteps:
    """The body of a kernel as steps."""
    return KernelSteps(body, Names(), Memories({}))


def fences(body: Stmt) -> list[int]:
    """The fences of the barriers that the body needs, in order."""
    return [fence for _, fence in sorted(place_barriers(steps_of(body)).items())]


def is_barrier(s: Any) -> bool:
    """Whether a statement is a barrier."""
    return isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.name == BARRIER


def count_barriers(s: Stmt) -> int:
    """How many barriers stand in a statement (each place counts)."""
    return int(is_barrier(s)) + sum(count_barriers(c) for c in s.children() if isinstance(c, Stmt))


def has_barriers(s: Stmt) -> bool:
    """Whether any barrier stands in a statement."""
    return any(is_barrier(n) for n in iterate(s))


def fill_at(offset: int, n: int = 64, filled: int = 6) -> Sequence[Stmt]:
    """The stretches of case B25: S[t] = in[t]; S[offset + t] = 0; out[t] = S[t]."""
    return (
        threads(store("S", X, load("in", X)), n),
        threads(when(lt(X, filled), store("S", X + offset, 0)), n),
        threads(store("out", X, load("S", X)), n),
    )
