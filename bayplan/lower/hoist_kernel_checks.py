"""Moves checks out of kernels: the host asks before the launch what no thread can report."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    block,
    constant_value,
    eq,
    gt,
    int32,
    is_one,
    le,
    logical_not,
    nothing,
    select,
    sub,
)
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import GE, GT, LE, LT, Call, CallKind, Expr, StringImm
from bayplan.ir.stmts import AssertStmt, For, IfThenElse, LetStmt, Stmt
from bayplan.ir.types import INT32
from bayplan.ir.walk import free_variables, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_loop
from bayplan.lower.rewrite_kernels import rewrite_kernels
from bayplan.lower.scoped import strip_likely
from bayplan.storage.places import Place, outward
from bayplan.storage.sizes import SizesOutside


def hoist_kernel_checks(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which kernels have no checks; what they would find is asked before.

    A check holds if it does in every iteration of the kernel's loops: where it is not known which
    one decides, the host goes through them.

    Order: after all that makes checks inside of loops; before normalize_kernels.

    Raises:
        ScheduleError: A check depends on data.
    """

    def checks_first(node: For) -> Stmt:
        taker = _TakeChecks(func_of_loop(node.name, lowering))
        kernel = taker.walk(node, None)
        return block([*taker.checks, kernel])

    return rewrite_kernels(stmt, checks_first)


class _TakeChecks:
    """Takes the checks out of one kernel."""

    def __init__(self, func: str) -> None:
        self._func = func
        self._sizes = SizesOutside(set())
        self.checks: list[AssertStmt] = []

    def walk(self, s: Any, place: Place | None) -> Stmt:
        """The statement without checks."""
        if type(s) is AssertStmt:
            self._take(s, place)
            return nothing()
        if type(s) is IfThenElse:
            then_case = self.walk(s.then_case, Place(place, None, s.condition))
            else_case = s.else_case
            if else_case is not None:
                else_case = self.walk(else_case, Place(place, None, logical_not(s.condition)))
            return IfThenElse(s.condition, then_case, else_case)
        inner = Place(place, s) if isinstance(s, For | LetStmt) else place
        children = s.children()
        results = [self.walk(c, inner) if isinstance(c, Stmt) else c for c in children]
        for old, new in zip(children, results, strict=True):
            if old is not new:
                return s.with_children(results)  # type: ignore[no-any-return]
        return s  # type: ignore[no-any-return]

    def _take(self, s: AssertStmt, place: Place | None) -> None:
        condition = self._by_ends(s.condition, place)
        if condition is None:
            condition = eq(self._broken(s.condition, place), int32(0))
        args = [self._value(arg, place) for arg in s.args]
        given = [arg for arg in args if arg is not None]
        if not is_pure(condition) or len(given) < len(args):
            raise ScheduleError(
                f"in the kernel of {self._func} it would have to be checked that {s.condition}, "
                "and that depends on data",
                s.site.where,
                hint="compute the Func outside of the kernel",
            )
        condition = simplify(condition)
        if not is_one(condition):
            self.checks.append(AssertStmt(condition, s.site, tuple(given)))

    def _value(self, arg: Expr, place: Place | None) -> Expr | None:
        """What a message says: the largest value."""
        return arg if isinstance(arg, StringImm) else self._sizes.bound(arg, place)

    def _by_ends(self, condition: Expr, place: Place | None) -> Expr | None:
        """The condition where the largest difference of its sides is known; else None."""
        if any(around.condition is not None for around in outward(place)):
            return None
        if any(type(p.node) is For and _may_be_empty(p.node) for p in outward(place)):
            return None
        if isinstance(condition, LE | LT) and condition.a.type is INT32:
            most = self._sizes.largest(sub(condition.a, condition.b), place)
            limit = 0 if type(condition) is LE else -1
        elif isinstance(condition, GE | GT) and condition.a.type is INT32:
            most = self._sizes.largest(sub(condition.b, condition.a), place)
            limit = 0 if type(condition) is GE else -1
        else:
            return None
        return None if most is None else le(most, limit)

    def _broken(self, condition: Expr, place: Place | None) -> Expr:
        """1 where the condition does not hold in some iteration, else 0."""
        broken = simplify(select(strip_likely(condition), int32(0), int32(1)))
        for around in outward(place):
            node = around.node
            if around.condition is not None:
                broken = select(strip_likely(around.condition), broken, int32(0))
            elif type(node) is LetStmt:
                broken = simplify(substitute({node.name: strip_likely(node.value)}, broken))
            elif type(node) is For and node.name in free_variables(broken):
                args = (StringImm(node.name), node.min, node.extent, broken)
                broken = Call(INT32, "largest_over", args, CallKind.PURE_INTRINSIC)
            elif type(node) is For and _may_be_empty(node):
                broken = select(gt(node.extent, int32(0)), broken, int32(0))
        return broken


def _may_be_empty(loop: For) -> bool:
    extent = constant_value(loop.extent)
    return extent is None or extent <= 0
