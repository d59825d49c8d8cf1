"""Tightens loops to the iterations that do something.

Where all that a loop's body does stands behind conditions (`RDom.where`, guards of tails), the
loop runs only from the first to the last iteration in which one of them can hold.
"""

from __future__ import annotations

from typing import Any

from bayplan.analysis.bounder import Bounder
from bayplan.analysis.facts import Facts, without_likely
from bayplan.analysis.interval import Interval
from bayplan.analysis.purity import has_side_effect, is_pure
from bayplan.analysis.simplify import simplify
from bayplan.analysis.solve import solve_for_outer_interval
from bayplan.ir import build
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    Block,
    Evaluate,
    For,
    Free,
    HoistedStorage,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
)
from bayplan.ir.walk import free_variables
from bayplan.lower.context import Lowering


def trim_no_ops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Leave out the iterations at the ends of loops that do nothing."""
    return _Trim().run(stmt, Facts.none())


class _Trim:
    """Treats outer loops first; facts of enclosing loops and lets are at hand."""

    def run(self, s: Any, facts: Facts) -> Stmt:
        cls = type(s)
        if cls is For:
            return self._loop(s, facts)
        if cls is LetStmt:
            body = self.run(s.body, facts.let(s.name, s.value))
            return s if body is s.body else LetStmt(s.name, s.value, body)
        children = s.children()
        results = [self.run(c, facts) if isinstance(c, Stmt) else c for c in children]
        for old, new in zip(children, results):
            if old is not new:
                return s.with_children(results)  # type: ignore[no-any-return]
        return s  # type: ignore[no-any-return]

    def _loop(self, s: For, facts: Facts) -> Stmt:
        minimum, extent = s.min, s.extent
        if s.kind in (ForKind.Serial, ForKind.Parallel):
            interval = _Region(s.name).of(s.body)
            minimum, extent = _trimmed(s, interval, facts)
        body = self.run(s.body, facts.loop(s.name, minimum, extent))
        if body is s.body and minimum is s.min and extent is s.extent:
            return s
        return For(s.name, minimum, extent, s.kind, s.partition, body)


def _trimmed(s: For, interval: Interval, facts: Facts) -> tuple[Expr, Expr]:
    """The loop's minimum and extent within the interval."""
    if interval.is_everything():
        return s.min, s.extent
    if interval.empty:
        return s.min, build.const(s.extent.type, 0)
    first = s.min
    last = simplify(build.add(build.add(s.min, s.extent), -1), facts)
    low, high = first, last
    if interval.min is not None:
        low = simplify(build.maximum(first, interval.min), facts)
    if interval.max is not None:
        high = simplify(build.minimum(last, interval.max), facts)
    if low is first and high is last:
        return s.min, s.extent
    extent = simplify(build.add(build.sub(high, low), 1), facts)
    return low, simplify(build.maximum(extent, 0), facts)


class _Region:
    """Finds an interval of a loop's variable outside of which a statement does nothing."""

    def __init__(self, var: str) -> None:
        self._var = var
        self._scope: dict[str, Interval] = {}
        self._bound: set[str] = set()

    def of(self, s: Any) -> Interval:
        """The interval; its ends use only what is defined outside of the loop."""
        cls = type(s)
        if cls is IfThenElse:
            return self._branch(s)
        if cls is Block:
            found = Interval.nothing()
            for inner in s.stmts:
                found = found.union(self.of(inner))
                if found.is_everything():
                    break
            return found
        if cls is LetStmt:
            if has_side_effect(s.value):
                return Interval.everything()
            return self._inside(s.name, Bounder(self._scope)(s.value), s)
        if cls is For:
            scope = Bounder(self._scope)
            last = build.add(build.add(s.min, s.extent), -1)
            return self._inside(s.name, Interval(scope(s.min).min, scope(last).max), s)
        if cls in (ProducerConsumer, Allocate, HoistedStorage):
            return self.of(s.body)
        if cls is Free or (cls is Evaluate and not has_side_effect(s.value)):
            return Interval.nothing()
        return Interval.everything()

    def _inside(self, name: str, interval: Interval, s: Any) -> Interval:
        saved = self._scope
        if self._depends(interval):
            # Its range moves with the loop itself: nothing is known of it.
            interval = Interval.everything()
        self._scope = {**saved, name: interval}
        self._bound.add(name)
        found = self.of(s.body)
        self._scope = saved
        return found

    def _depends(self, interval: Interval) -> bool:
        ends = [e for e in (interval.min, interval.max) if e is not None]
        return any(self._var in free_variables(e) for e in ends)

    def _branch(self, s: IfThenElse) -> Interval:
        condition = without_likely(s.condition)
        if has_side_effect(condition):
            return Interval.everything()
        when_true = self.of(s.then_case)
        when_false = Interval.nothing() if s.else_case is None else self.of(s.else_case)
        if is_pure(condition):
            when_true = when_true.intersection(self._where(condition))
            if not when_false.empty:
                negated = build.logical_not(condition)
                when_false = when_false.intersection(self._where(negated))
        return when_true.union(when_false)

    def _where(self, condition: Expr) -> Interval:
        """Where the condition can hold for some value of the inner variables."""
        solved = solve_for_outer_interval(condition, self._var)
        if solved.empty or solved.is_everything():
            return solved
        bounder = Bounder(self._scope)
        low = None if solved.min is None else bounder(solved.min).min
        high = None if solved.max is None else bounder(solved.max).max
        return Interval(self._outside(low), self._outside(high))

    def _outside(self, e: Expr | None) -> Expr | None:
        """The end, if it can be computed in front of the loop."""
        if e is None or not is_pure(e):
            return None
        free = free_variables(e)
        return None if self._var in free or not free.isdisjoint(self._bound) else e
