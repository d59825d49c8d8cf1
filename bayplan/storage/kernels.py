"""Kernels in the statement: their loops over blocks, their threads, and the names made of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Evaluate, For, LetStmt, Stmt
from bayplan.ir.types import INT32, INT64, Type
from bayplan.ir.walk import iterate

_THREADS: Final = (ForKind.GPUThread, ForKind.GPULane)
_BLOCK_ID: Final = ".block_id_"
BARRIER: Final = "gpu_thread_barrier"
"""The intrinsic that the threads of a block wait for each other with."""

ON_DEVICE: Final = ".device"
"""What the name of a temporary that the host has too is followed by for its bytes on the device."""


def is_kernel(s: object) -> bool:
    """Whether a statement of the host is a launch: a loop over blocks."""
    return type(s) is For and s.kind is ForKind.GPUBlock


def title_of(loop: str) -> str:
    """The title of the kernel over whose blocks a loop of that name is, "" for other loops."""
    title, found, _ = loop.partition(_BLOCK_ID)
    return title if found else ""


def fence_of_barrier(s: object) -> int:
    """The fence of a barrier (1: shared memory, 2: global, 3: both), 0 for other statements."""
    if type(s) is not Evaluate or type(s.value) is not Call or s.value.name != BARRIER:
        return 0
    return int(build.constant_value(s.value.args[0]) or 0)


def is_stretch(s: object) -> bool:
    """Whether a statement is a loop over threads, inside of which no barrier can stand."""
    return type(s) is For and s.kind in _THREADS


class Kernel:
    """One kernel, in the form that `normalize_kernels` gives it.

    Attributes:
        title: what its loops are named after: "blur.s0.kernel".
        loops: over blocks, outermost first, directly nested.
        lets: those that stand between the loops, outermost first; none in the proper form.
        body: what one block does.
        threads: the loops over threads of its first stretch, outermost first; all stretches have
            the same. Empty where it has none.
    """

    __slots__ = ("body", "lets", "loops", "threads", "title")

    def __init__(self, node: For) -> None:
        loops = [node]
        inside: list[LetStmt] = []
        lets: list[LetStmt] = []
        body = node.body
        while True:
            if type(body) is LetStmt:
                inside.append(body)
                body = body.body
            elif type(body) is For and body.kind is ForKind.GPUBlock:
                lets += inside
                inside = []
                loops.append(body)
                body = body.body
            else:
                break
        self.loops = tuple(loops)
        self.lets = tuple(lets)
        self.body = loops[-1].body
        self.title = title_of(node.name) or node.name
        self.threads = _find_threads(self.body)

    def blocks(self) -> Expr:
        """How many blocks a launch has."""
        return _product([loop.extent for loop in self.loops], INT64)

    def block(self) -> Expr:
        """The number of this block among all of the launch."""
        return _linear(self.loops, INT64)

    def thread_count(self) -> Expr:
        """How many threads a block has."""
        return _product([loop.extent for loop in self.threads], INT32)

    def thread(self) -> Expr:
        """The number of this thread in its block."""
        return _linear(self.threads, INT32)


def _find_threads(body: Stmt) -> tuple[For, ...]:
    threads: list[For] = []
    for node in iterate(body):
        if type(node) is For and node.kind in _THREADS:
            loop: Stmt = node
            while type(loop) is For and loop.kind in _THREADS:
                threads.append(loop)
                loop = loop.body
            break
    return tuple(threads)


def _product(extents: list[Expr], t: Type) -> Expr:
    result: Expr = build.const(t, 1)
    for extent in extents:
        result = build.mul(result, build.cast(t, extent))
    return result


def _linear(loops: tuple[For, ...], t: Type) -> Expr:
    result: Expr = build.const(t, 0)
    for loop in loops:
        here = build.cast(t, Variable(INT32, loop.name))
        result = build.add(build.mul(result, build.cast(t, loop.extent)), here)
    return result


def kernels_in(stmt: Stmt) -> Iterator[For]:
    """The outermost loops over blocks of a statement, each once."""
    stack = [stmt]
    seen: set[Stmt] = set()
    while stack:
        s = stack.pop()
        if s in seen:
            continue
        seen.add(s)
        if is_kernel(s):
            assert type(s) is For
            yield s
            continue
        stack.extend([c for c in reversed(s.children()) if isinstance(c, Stmt)])


def around_blocks(kernel: Kernel, body: Stmt) -> Stmt:
    """The kernel with another body."""
    result = body
    for loop in reversed(kernel.loops):
        result = loop.with_children([loop.min, loop.extent, result])
    return result
