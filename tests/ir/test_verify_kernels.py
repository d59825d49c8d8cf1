"""The form of kernels: what has it is accepted, and each break of a rule is named."""

from __future__ import annotations

import pytest

from bayplan.ir.build import block, int32, intrinsic, lt, var
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import Evaluate, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.verify import verify

B, T, S = ForKind.GPUBlock, ForKind.GPUThread, ForKind.Serial
STORE = Store("out", var("k.thread_id_x"), var("k.thread_id_x"))
BARRIER = Evaluate(intrinsic(INT32, "gpu_thread_barrier", int32(1)))
ARGUMENTS = ["n", "out"]


def loop(name: str, kind: ForKind, body: Stmt, extent: Expr | int = 4, low: int = 0) -> Stmt:
    extent = int32(extent) if isinstance(extent, int) else extent
    return For(name, int32(low), extent, kind, Partition.Never, body)


def stretch(body: Stmt = STORE, extent: Expr | int = 8) -> Stmt:
    return loop("k.thread_id_x", T, body, extent)


def kernel(body: Stmt) -> Stmt:
    return loop("k.block_id_y", B, loop("k.block_id_x", B, body))


GOOD: dict[str, Stmt] = {
    "one stretch": kernel(stretch()),
    "stretches, a barrier, and a loop": kernel(
        loop("r", S, block([stretch(), BARRIER, IfThenElse(lt(var("r"), 2), stretch())]))
    ),
    "lets around, and extents of the host": kernel(
        LetStmt("a", var("k.block_id_x"), stretch(extent=var("n")))
    ),
    "planes of threads": kernel(
        loop("k.thread_id_y", T, stretch(loop("r", S, STORE)), 2),
    ),
}

BAD: dict[str, tuple[Stmt, str]] = {
    "a store by the whole block": (
        kernel(block([stretch(), Store("out", int32(0), int32(0))])),
        "done in stretches",
    ),
    "extents that differ": (
        kernel(block([stretch(), stretch(extent=9)])),
        "have the same extents",
    ),
    "planes and lines": (
        kernel(block([stretch(), loop("k.thread_id_y", T, stretch(), 2)])),
        "have the same extents",
    ),
    "extents that a block decides": (
        kernel(stretch(extent=var("k.block_id_x"))),
        "threads is known before the kernel",
    ),
    "blocks that a block decides": (
        loop("k.block_id_y", B, loop("k.block_id_x", B, stretch(), var("k.block_id_y"))),
        "blocks is known before the kernel",
    ),
    "a let between the loops over blocks": (
        loop("k.block_id_y", B, LetStmt("a", int32(1), loop("k.block_id_x", B, stretch()))),
        "have the names k.block_id_x",
    ),
    "a loop that does not begin at 0": (
        kernel(loop("k.thread_id_x", T, STORE, low=1)),
        "begin at 0",
    ),
    "other names": (
        kernel(loop("t", T, Store("out", var("t"), var("t")))),
        "have the names k.thread_id_x",
    ),
    "a barrier in a stretch": (kernel(stretch(block([STORE, BARRIER]))), "no barrier stands"),
    "threads in a stretch": (
        kernel(stretch(loop("r", S, loop("k.thread_id_x", T, STORE)))),
        "a loop in a stretch is serial",
    ),
    "a loop of the host": (
        kernel(loop("p", ForKind.Parallel, stretch())),
        "between stretches is serial",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_accepted(name: str) -> None:
    for stage in ("kernels", "final"):
        verify(GOOD[name], stage, ARGUMENTS)


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    stmt, rule = BAD[name]
    with pytest.raises(InternalError, match=rule):
        verify(stmt, "kernels", ARGUMENTS)
    verify(stmt, "vectorized", ARGUMENTS)
