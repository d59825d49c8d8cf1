"""Bounds of expressions by interval arithmetic, with correlated parts kept together.

An expression that rises or falls with each of its variables is bounded by putting the ends of
their intervals in; sums are cut into the part for which that works and the rest. So `x - x` and
`x + (8 - x % 8)` stay tight where plain interval arithmetic would not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bayplan.analysis.bounds_of_division import bounds_of_quotient, bounds_of_remainder
from bayplan.analysis.decide import DECISIONS
from bayplan.analysis.ends import (
    bounds_of_type,
    constant_ends,
    is_not_negative,
    is_not_positive,
    map_ends,
    nearer,
    simplified,
    within_type,
)
from bayplan.analysis.facts import Facts
from bayplan.analysis.interval import Interval
from bayplan.analysis.linear import Linear, build_linear, is_index_type, linear_of
from bayplan.analysis.monotonic import Monotonic, flipped, is_monotonic, joined
from bayplan.analysis.purity import is_pure
from bayplan.analysis.ranges import range_of
from bayplan.analysis.simplify import simplify
from bayplan.analysis.solve import solve_for_outer_interval
from bayplan.ir import build, exprs
from bayplan.ir.build import const
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Const,
    Expr,
    Let,
    Not,
    Or,
    Variable,
)
from bayplan.ir.walk import Rewriter, Substitute, free_variables, iterate, substitute

Scope = Mapping[str, Interval]
FuncBounds = Mapping[tuple[str, int], Interval]

_EVERYTHING: Final = Interval.everything()


SMALL: Final = 40
"""Values of lets with at most this many nodes are put in where they are used."""


def is_larger(e: Expr, nodes: int) -> bool:
    """Whether the expression consists of more than so many nodes."""
    return any(count >= nodes for count, _ in enumerate(iterate(e)))


class _KeepPromises(Rewriter):
    """Makes promises true by clamping: what holds inside a loop need not hold at its ends."""

    def rewrite_Call(self, node: Call) -> Expr:
        found: Call = self.rebuild(node)
        if found.name in ("promise_clamped", "unsafe_promise_clamped"):
            return build.clamp(found.args[0], found.args[1], found.args[2])
        return found


class Bounder:
    """Bounds of expressions while the variables of a scope move in their intervals."""

    __slots__ = ("scope", "func_bounds", "_memo", "_facts", "_substitutions", "_keep_promises")

    def __init__(self, scope: Scope, func_bounds: FuncBounds | None = None) -> None:
        self.scope = dict(scope)
        self.func_bounds: FuncBounds = {} if func_bounds is None else func_bounds
        self._memo: dict[Expr, Interval] = {}
        self._facts: Facts | None = None
        self._keep_promises = _KeepPromises()
        # Substitutions of ends for variables, kept for what they remember.
        self._substitutions: dict[frozenset[tuple[str, bool]], Substitute] = {}

    def with_scope(self, extra: Scope) -> Bounder:
        """Bounds with other intervals for some variables."""
        return Bounder({**self.scope, **extra}, self.func_bounds)

    def __call__(self, e: Expr) -> Interval:
        """The interval of `e` over all of its lanes."""
        found = self._memo.get(e)
        if found is None:
            found = self._memo[e] = self._bound(e)
        return found

    def _bound(self, e: Any) -> Interval:
        if type(e) is Const:
            return Interval(e, e)
        varying = [v for v in free_variables(e) if v in self.scope]
        pure = is_pure(e)
        if not varying and pure and e.type.lane_count == 1:
            return Interval.single_point(e)
        if pure and is_index_type(e.type):
            varying.sort()
            by_ends = self._by_ends(e, varying)
            if by_ends is not None:
                return by_ends
        return self._by_rule(e)

    def _by_ends(self, e: Expr, varying: list[str], part: bool = False) -> Interval | None:
        """Bounds of an expression that is monotonic in all its varying variables.

        A `part` of a sum whose variables have no end on a side is not looked into further.
        """
        directions: list[tuple[str, bool]] = []
        for name in varying:
            m = is_monotonic(e, name)
            if m is Monotonic.Unknown:
                return None
            if m is not Monotonic.Constant:
                directions.append((name, m is Monotonic.Increasing))
        low = self._at(e, directions, False)
        high = self._at(e, directions, True)
        if (low is None or high is None) and not part:
            found = self._by_rule(e)
            low = found.min if low is None else low
            high = found.max if high is None else high
        return Interval(low, high)

    def _by_rule(self, e: Any) -> Interval:
        rule = _RULES.get(type(e))
        found = bounds_of_type(e.type) if rule is None else rule(self, e)
        return _within_range(e, found, self.facts())

    def facts(self) -> Facts:
        """The constants between which the variables of the scope move."""
        if self._facts is None:
            known = self._facts = Facts()
            for name, interval in self.scope.items():
                ends = [end for end in (interval.min, interval.max) if end is not None]
                if ends and ends[0].type.kind in ("int", "uint"):
                    known.bound_variable(name, *constant_ends(interval))
        return self._facts

    def _at(self, e: Expr, directions: list[tuple[str, bool]], upper: bool) -> Expr | None:
        ends = [(name, rising is upper) for name, rising in directions]
        key = frozenset(ends)
        substitution = self._substitutions.get(key)
        if substitution is None:
            values: dict[str, Expr] = {}
            for name, take_max in ends:
                interval = self.scope[name]
                end = interval.max if take_max else interval.min
                if end is None:
                    return None
                values[name] = end
            substitution = self._substitutions[key] = Substitute(values)
        found: Expr = simplify(self._keep_promises(substitution(e)))
        return found

    # Rules, by class of node.

    def variable(self, e: Variable) -> Interval:
        found = self.scope.get(e.name)
        if found is None:
            # A vector has no single value, and its lanes are not known here.
            return Interval.single_point(e) if e.type.lane_count == 1 else bounds_of_type(e.type)
        if found.min is None or found.max is None:
            return within_type(found, e.type)
        return found

    def sum(self, e: Any) -> Interval:
        if not is_index_type(e.type):
            return self._wrapping(e, self._add(self(e.a), self(e.b), type(e) is exprs.Sub))
        form = linear_of(simplify(e))
        together, apart = self._parted(form)
        low: Expr | None = const(e.type, form.constant)
        high = low
        parts: list[Interval] = []
        if together.terms:
            whole = build_linear(together, e.type)
            found = self._by_ends(whole, self._varying(together), part=True)
            if found is None or not found.is_bounded():
                # Term by term some ends may still be found.
                apart += list(together.terms.items())
            else:
                parts.append(found)
        for atom, c in apart:
            interval = self(atom)
            if c < 0:
                interval = Interval(interval.max, interval.min)
            parts.append(
                Interval(
                    None if interval.min is None else build.mul(interval.min, c),
                    None if interval.max is None else build.mul(interval.max, c),
                )
            )
        for part in parts:
            low = None if low is None or part.min is None else build.add(low, part.min)
            high = None if high is None or part.max is None else build.add(high, part.max)
        return simplified(low, high)

    def _varying(self, form: Linear) -> list[str]:
        names: set[str] = set()
        for atom in form.terms:
            names |= free_variables(atom)
        return sorted([n for n in names if n in self.scope])

    def _parted(self, form: Linear) -> tuple[Linear, list[tuple[Expr, int]]]:
        """The terms that rise or fall together in every variable, and the others."""
        together: dict[Expr, int] = {}
        apart: list[tuple[Expr, int]] = []
        known: dict[str, Monotonic] = {}
        for atom, c in form.terms.items():
            varying = [v for v in free_variables(atom) if v in self.scope]
            directions = {v: is_monotonic(atom, v) for v in varying}
            if c < 0:
                directions = {v: flipped(m) for v, m in directions.items()}
            merged = {v: joined(m, known.get(v, Monotonic.Constant)) for v, m in directions.items()}
            if not is_pure(atom) or Monotonic.Unknown in merged.values():
                apart.append((atom, c))
                continue
            known.update(merged)
            together[atom] = c
        return Linear(together, 0), apart

    def _add(self, a: Interval, b: Interval, negate: bool) -> Interval:
        if negate:
            low = None if a.min is None or b.max is None else build.sub(a.min, b.max)
            high = None if a.max is None or b.min is None else build.sub(a.max, b.min)
        else:
            low = None if a.min is None or b.min is None else build.add(a.min, b.min)
            high = None if a.max is None or b.max is None else build.add(a.max, b.max)
        return Interval(low, high)

    def _wrapping(self, e: Any, found: Interval) -> Interval:
        """The result of arithmetic in a type that may wrap: kept where it surely does not."""
        t = e.type.element_of()
        if t.kind == "float" or (t.kind == "int" and t.width >= 32):
            return found
        low, high = range_of(e, Facts.none())
        least, greatest = self._constant_ends(e)
        if least is not None and greatest is not None and t.can_represent(least):
            if t.can_represent(greatest):
                low, high = least, greatest
        return Interval(
            None if low is None else const(t, low), None if high is None else const(t, high)
        )

    def _constant_ends(self, e: Any) -> tuple[int | None, int | None]:
        """Ends of a + b, a - b or a * b of the operands' constant bounds, before wrapping."""
        a_low, a_high = self.constants(e.a)
        b_low, b_high = self.constants(e.b)
        if a_low is None or a_high is None or b_low is None or b_high is None:
            return (None, None)
        if type(e) is exprs.Add:
            return (a_low + b_low, a_high + b_high)
        if type(e) is exprs.Sub:
            return (a_low - b_high, a_high - b_low)
        ends = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
        return (min(ends), max(ends))

    def constants(self, e: Expr) -> tuple[int | None, int | None]:
        """Constant bounds of an integer expression."""
        return constant_ends(self(e))

    def product(self, e: Any) -> Interval:
        if is_index_type(e.type) and e not in linear_of(e).terms:
            return self.sum(e)
        a, b = self(e.a), self(e.b)
        found = self._multiply(a, b)
        return self._wrapping(e, found) if not is_index_type(e.type) else found

    def _multiply(self, a: Interval, b: Interval) -> Interval:
        if a.is_single_point():
            a, b = b, a
        if b.is_single_point():
            assert b.min is not None
            return self._scale(a, b.min)
        ends = [a.min, a.max, b.min, b.max]
        if a.min is not None and b.min is not None:
            if is_not_negative(a.min) and is_not_negative(b.min):
                high = None if a.max is None or b.max is None else build.mul(a.max, b.max)
                return simplified(build.mul(a.min, b.min), high)
        if None in ends:
            return _EVERYTHING
        low = high = None
        for x in (a.min, a.max):
            for y in (b.min, b.max):
                assert x is not None and y is not None
                p = build.mul(x, y)
                low = p if low is None else build.minimum(low, p)
                high = p if high is None else build.maximum(high, p)
        return simplified(low, high)

    def _scale(self, a: Interval, factor: Expr) -> Interval:
        low = None if a.min is None else build.mul(a.min, factor)
        high = None if a.max is None else build.mul(a.max, factor)
        if is_not_negative(factor):
            return simplified(low, high)
        if is_not_positive(factor):
            return simplified(high, low)
        if low is None or high is None:
            return _EVERYTHING
        return simplified(build.minimum(low, high), build.maximum(low, high))

    def minimum(self, e: Any) -> Interval:
        a, b = self(e.a), self(e.b)
        low = None if a.min is None or b.min is None else build.minimum(a.min, b.min)
        high = nearer(build.minimum, a.max, b.max)
        return simplified(low, high)

    def maximum(self, e: Any) -> Interval:
        a, b = self(e.a), self(e.b)
        high = None if a.max is None or b.max is None else build.maximum(a.max, b.max)
        low = nearer(build.maximum, a.min, b.min)
        return simplified(low, high)

    def select(self, e: Any) -> Interval:
        condition = e.condition
        if condition.type.lane_count > 1:
            return self(e.true_value).union(self(e.false_value))
        return self.either(condition, e.true_value, e.false_value)

    def either(self, condition: Expr, a: Expr, b: Expr) -> Interval:
        """One of two values, each bounded under what the condition says of the variables."""
        decided = self.decided(condition)
        if decided is not None:
            return self(a if decided else b)
        when_true = self.under(condition, True)(a)
        when_false = self.under(condition, False)(b)
        varying = [v for v in free_variables(condition) if v in self.scope]
        if not varying and is_pure(condition):
            low = high = None
            if when_true.min is not None and when_false.min is not None:
                low = build.select(condition, when_true.min, when_false.min)
            if when_true.max is not None and when_false.max is not None:
                high = build.select(condition, when_true.max, when_false.max)
            return simplified(low, high)
        low = high = None
        if when_true.min is not None and when_false.min is not None:
            low = build.minimum(when_true.min, when_false.min)
        if when_true.max is not None and when_false.max is not None:
            high = build.maximum(when_true.max, when_false.max)
        return simplified(low, high)

    def decided(self, condition: Any) -> bool | None:
        """What a comparison of integers always is, as far as their constant bounds tell."""
        holds = DECISIONS.get(type(condition))
        if holds is None or condition.a.type.kind not in ("int", "uint"):
            return None
        return holds(self.constants(condition.a), self.constants(condition.b))

    def under(self, condition: Expr, holds: bool) -> Bounder:
        """The bounds where the condition holds (or does not): intervals of variables narrowed."""
        extra = self.narrowed(condition, holds)
        return self.with_scope(extra) if extra else self

    def narrowed(self, condition: Expr, holds: bool) -> dict[str, Interval]:
        """The variables whose intervals a condition narrows, with the narrower ones."""
        found: dict[str, Interval] = {}
        names = sorted([v for v in free_variables(condition) if v in self.scope])
        if not names:
            return found
        if not holds:
            condition = build.logical_not(condition)
        for name in names:
            solved = solve_for_outer_interval(condition, name)
            if solved.empty or solved.is_everything():
                continue
            low = None if solved.min is None else self(solved.min).min
            high = None if solved.max is None else self(solved.max).max
            known = self.scope[name]
            low = known.min if low is None else nearer(build.maximum, known.min, low)
            high = known.max if high is None else nearer(build.minimum, known.max, high)
            narrow = simplified(low, high)
            if narrow != known:
                found[name] = narrow
        return found

    def cast(self, e: exprs.Cast) -> Interval:
        t = e.type.element_of()
        source = e.value.type.element_of()
        a = self(e.value)
        if t.kind == "handle" or source.kind == "handle":
            return _EVERYTHING
        if t.kind == "float" and source.kind == "float":
            return map_ends(a, lambda v: build.cast(t, v))
        if t.can_represent(source) or t.kind == "float":
            a = within_type(a, source)
            return map_ends(a, lambda v: build.cast(t, v))
        if t.kind == "int" and t.width >= 32:
            # Taken not to overflow; a float is truncated, which keeps the order. But what is not
            # bounded at all, or by a number that does not fit, may become any value.
            if source.kind != "float":
                if a.min is None or a.max is None:
                    return _EVERYTHING
                ends = [build.constant_value(end) for end in (a.min, a.max)]
                if not all(end is None or t.can_represent(int(end)) for end in ends):
                    return _EVERYTHING
            return map_ends(a, lambda v: simplify(build.cast(t, v)))
        low, high = constant_ends(a)
        if low is not None and high is not None:
            if source.kind == "float":
                low, high = int(low), int(high)
            if t.can_represent(low) and t.can_represent(high):
                return Interval(const(t, low), const(t, high))
        return bounds_of_type(t)

    def ramp(self, e: exprs.Ramp) -> Interval:
        base, stride = self(e.base), self(e.stride)
        steps = e.lanes - 1
        zero = const(e.type.element_of(), 0)
        low = high = None
        if base.min is not None and stride.min is not None:
            least = build.minimum(build.mul(stride.min, steps), zero)
            low = build.add(base.min, simplify(least))
        if base.max is not None and stride.max is not None:
            most = build.maximum(build.mul(stride.max, steps), zero)
            high = build.add(base.max, simplify(most))
        return simplified(low, high)

    def broadcast(self, e: exprs.Broadcast) -> Interval:
        return self(e.value)

    def shuffle(self, e: exprs.Shuffle) -> Interval:
        found = Interval.nothing()
        for vector in e.vectors:
            found = found.union(self(vector))
        return found

    def reduction(self, e: exprs.VectorReduce) -> Interval:
        found = self(e.value)
        if e.op in (exprs.ReduceOp.MIN, exprs.ReduceOp.MAX):
            return found
        if e.op is exprs.ReduceOp.ADD and is_index_type(e.type.element_of()):
            count = e.value.type.lane_count // e.lanes
            return self._scale(found, const(e.type.element_of(), count))
        return bounds_of_type(e.type)

    def truth(self, e: Any) -> Interval:
        return Interval(build.false(), build.true())

    def let(self, e: Let) -> Interval:
        if is_pure(e.value) and not is_larger(e.value, SMALL):
            return self(simplify(substitute({e.name: e.value}, e.body)))
        return self.with_scope({e.name: self(e.value)})(e.body)

    def call(self, e: Call) -> Interval:
        from bayplan.analysis.bounds_of_calls import bounds_of_call

        return bounds_of_call(self, e)

    def load(self, e: exprs.Load) -> Interval:
        return bounds_of_type(e.type)


def _within_range(e: Expr, found: Interval, facts: Facts) -> Interval:
    """The interval, no wider than the constants between which the expression surely is.

    The simplifier drops clamps that these constants make useless. What it drops must not be
    missed here, so nothing that it knows may be forgotten.
    """
    low, high = range_of(e, facts)
    if low is None and high is None:
        return found
    t = e.type.element_of()
    least, greatest = found.min, found.max
    if low is not None and (least is None or not _at_least(least, low)):
        limit = const(t, low)
        least = limit if least is None else simplify(build.maximum(least, limit))
    if high is not None and (greatest is None or not _at_most(greatest, high)):
        limit = const(t, high)
        greatest = limit if greatest is None else simplify(build.minimum(greatest, limit))
    if least is found.min and greatest is found.max:
        return found
    return Interval(least, greatest)


def _at_least(e: Expr, low: int) -> bool:
    known = range_of(e, Facts.none())[0]
    return known is not None and known >= low


def _at_most(e: Expr, high: int) -> bool:
    known = range_of(e, Facts.none())[1]
    return known is not None and known <= high


_RULES: Final[dict[type, Callable[[Bounder, Any], Interval]]] = {
    Variable: Bounder.variable,
    exprs.Add: Bounder.sum,
    exprs.Sub: Bounder.sum,
    exprs.Mul: Bounder.product,
    exprs.Div: bounds_of_quotient,
    exprs.Mod: bounds_of_remainder,
    exprs.Min: Bounder.minimum,
    exprs.Max: Bounder.maximum,
    exprs.Select: Bounder.select,
    exprs.Cast: Bounder.cast,
    exprs.Ramp: Bounder.ramp,
    exprs.Broadcast: Bounder.broadcast,
    exprs.Shuffle: Bounder.shuffle,
    exprs.VectorReduce: Bounder.reduction,
    Let: Bounder.let,
    Call: Bounder.call,
    exprs.Load: Bounder.load,
    **dict.fromkeys(
        (EQ, NE, LT, LE, GT, GE, And, Or, Not),
        Bounder.truth,
    ),
}  # fmt: skip

__all__ = ["Bounder", "FuncBounds", "Scope"]
