"""States the form of kernels that the passes behind `normalize_kernels` and the targets rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from bayplan.ir.build import is_nothing, is_zero
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    Block,
    Evaluate,
    For,
    Free,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
)
from bayplan.ir.walk import free_variables, iterate

Fail = Callable[[str, Any], NoReturn]

_UNIFORM: Final = (Allocate, Block, Free, IfThenElse, LetStmt, ProducerConsumer)
_AXES: Final = "xyz"


def verify_kernel(outermost: For, fail: Fail) -> None:
    """Check one kernel; `fail(rule, node)` raises.

    A kernel is one to three loops over blocks, directly nested, from 0 on, named TITLE.block_id_z,
    _y, _x. In it stands uniform code, which may branch and loop, and stretches: one to three loops
    over threads, directly nested, from 0 on, named TITLE.thread_id_z, _y, _x. All stretches have
    the same loops with the same extents. Nothing that a kernel binds occurs in the extents of its
    loops over blocks and threads; elements are stored in stretches only.
    """
    title = outermost.name.partition(".block_id_")[0]
    loops, body = _nest(outermost, f"{title}.block_id_", ForKind.GPUBlock, fail)
    bound = {n.name for n in iterate(outermost) if isinstance(n, For | LetStmt)}
    for loop in loops:
        if not free_variables(loop.extent).isdisjoint(bound):
            fail("the number of blocks is known before the kernel runs", loop)
    _Uniform(title, bound, fail).check(body)


def _nest(s: Any, stem: str, kind: ForKind, fail: Fail) -> tuple[list[For], Any]:
    """Loops of a kind that are directly nested, and what is inside."""
    loops: list[For] = []
    while type(s) is For and s.kind is kind:
        loops.append(s)
        s = s.body
    names = [stem + axis for axis in reversed(_AXES[: len(loops)])]
    if [loop.name for loop in loops] != names or len(loops) > len(_AXES):
        fail(f"the loops of a kernel have the names {', '.join(names)}", loops[0])
    for loop in loops:
        if not is_zero(loop.min):
            fail("the loops of a kernel begin at 0", loop)
    return loops, s


class _Uniform:
    """Walks the uniform code of one kernel."""

    def __init__(self, title: str, bound: set[str], fail: Fail) -> None:
        self._title = title
        self._bound = bound
        self._fail = fail
        self._extents: list[Expr] | None = None

    def check(self, s: Any) -> None:
        """Check a statement and what is in it."""
        if type(s) is For and s.kind is ForKind.GPUThread:
            self._stretch(s)
            return
        if type(s) is For:
            if s.kind is not ForKind.Serial:
                self._fail("a loop between stretches is serial", s)
        elif type(s) is Evaluate:
            value = s.value
            is_barrier = type(value) is Call and value.name == "gpu_thread_barrier"
            if not is_barrier and not is_nothing(s):
                self._fail("what is done in a kernel is done in stretches", s)
        elif not isinstance(s, _UNIFORM):
            self._fail("what is done in a kernel is done in stretches", s)
        for child in s.children():
            if not isinstance(child, Expr):
                self.check(child)

    def _stretch(self, s: For) -> None:
        stem = f"{self._title}.thread_id_"
        loops, body = _nest(s, stem, ForKind.GPUThread, self._fail)
        extents = [loop.extent for loop in loops]
        if self._extents is None:
            self._extents = extents
        if extents != self._extents:
            self._fail("all stretches of a kernel have the same extents", s)
        for extent in extents:
            if not free_variables(extent).isdisjoint(self._bound):
                self._fail("the number of threads is known before the kernel runs", s)
        lets = {node.value for node in iterate(body) if type(node) is LetStmt}
        for node in iterate(body):
            if type(node) is Call and node.name.startswith("warp_shuffle") and node not in lets:
                self._fail("an exchange between lanes is the value of a let", node)
            if type(node) is For and node.kind is not ForKind.Serial:
                self._fail("a loop in a stretch is serial", node)
            if type(node) is Call and node.name == "gpu_thread_barrier":
                self._fail("no barrier stands in a stretch", node)
