"""The regions of Funcs and buffers that statements and expressions touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.bounder import SMALL, Bounder, FuncBounds, Scope, is_larger
from bayplan.analysis.box import Box, merge_boxes, merge_into
from bayplan.analysis.facts import without_likely
from bayplan.analysis.fused import FusedLoops
from bayplan.analysis.interval import Interval
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.analysis.solve import solve_for_outer_interval
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, Let, Variable
from bayplan.ir.stmts import AssertStmt, Evaluate, For, IfThenElse, LetStmt, Provide
from bayplan.ir.walk import Substitute, free_variables, substitute

_BUFFERS: Final = ("read_buffer", "written_buffer", "required_region")

Ends = tuple[Expr, Expr]
"""First and last value of a variable."""


class Regions:
    """Collects the boxes that are read (`reads`) or written (`writes`), of one name or of all."""

    def __init__(
        self,
        reads: bool,
        writes: bool,
        scope: Scope,
        func_bounds: FuncBounds | None,
        only: str | None = None,
    ) -> None:
        self.reads = reads
        self.writes = writes
        self.only = only
        self.boxes: dict[str, Box] = {}
        self.bounder = Bounder(scope, func_bounds)
        # What stands for the variables of lets met on the way.
        self.values: dict[str, Expr] = {}
        # Of some of them the same, clamped to what conditions around say of the variable.
        self.clamped: dict[str, Expr] = {}
        # Large values of lets stay named: new name and value, in order.
        self.named: list[tuple[str, Expr]] = []
        self.fused = FusedLoops()
        # First and last value of inner variables whose range moves with outer ones.
        self._moving: dict[str, Ends] = {}
        self.unreachable = False
        self._seen: set[Expr] = set()
        self._substitute = Substitute({})
        self._calls_in: dict[Any, bool] = {}

    def visit(self, node: Any) -> None:
        """Add what the node touches."""
        if isinstance(node, Expr):
            if self.reads:
                self.expr(node)
            return
        method = _STATEMENTS.get(type(node))
        if method is not None:
            method(self, node)
            return
        for child in node.children():
            self.visit(child)

    def result(self) -> dict[str, Box]:
        """The boxes found; ends that use a named value are wrapped in its let."""
        if not self.named:
            return self.boxes
        return {name: self._wrapped_box(box) for name, box in self.boxes.items()}

    def _wrapped_box(self, box: Box) -> Box:
        bounds = [Interval(self._wrapped(i.min), self._wrapped(i.max), i.empty) for i in box.bounds]
        return Box(bounds, self._wrapped(box.used))

    def _wrapped(self, e: Expr | None) -> Expr | None:
        if e is None:
            return None
        for name, value in reversed(self.named):
            if name in free_variables(e):
                e = Let(name, value, e)
        return e

    # Expressions.

    def expr(self, e: Any) -> None:
        """Add the calls in an expression; each node once while the scope stays the same."""
        if e in self._seen:
            return
        self._seen.add(e)
        if not self._has_calls(e):
            return
        cls = type(e)
        if cls is Call:
            self._call(e)
        elif cls is Let:
            self.expr(e.value)
            self._with_let(e.name, e.value, lambda: self.expr(e.body))
        else:
            for child in e.children():
                self.expr(child)

    def _has_calls(self, e: Any) -> bool:
        found = self._calls_in.get(e)
        if found is None:
            found = type(e) is Call and e.kind in (CallKind.FUNC, CallKind.IMAGE)
            if not found:
                for child in e.children():
                    if self._has_calls(child):
                        found = True
                        break
            self._calls_in[e] = found
        return found

    def _call(self, e: Call) -> None:
        if e.name == "if_then_else" and e.is_intrinsic("if_then_else"):
            self.expr(e.args[0])
            self._branch(
                e.args[0],
                lambda: self.expr(e.args[1]),
                (lambda: self.expr(e.args[2])) if len(e.args) > 2 else None,
            )
            return
        if e.name == "read_buffer":
            # In a definition, where it stands for the whole.
            return
        for arg in e.args:
            self.expr(arg)
        if e.kind is CallKind.FUNC or e.kind is CallKind.IMAGE:
            if self.only is None or self.only == e.name:
                self._touch(e.name, e.args)

    def _touch(self, name: str, args: tuple[Expr, ...]) -> None:
        bounds = [self.interval(a) for a in args]
        merge_into(self.boxes, name, Box(bounds))

    def interval(self, e: Expr) -> Interval:
        """The bounds of an expression in the present scope."""
        found = self._bounds(self._plain(e))
        if free_variables(e).isdisjoint(self.clamped):
            return found
        return _tighter(found, self._bounds(self._in_clamped(e)))

    def _in_clamped(self, e: Expr) -> Expr:
        """As `_plain`, with the clamped values where there are any."""
        return simplify(substitute({**self.values, **self.clamped}, without_likely(e)))

    def _plain(self, e: Expr) -> Expr:
        """The expression without marks and with the values of small lets put in."""
        found: Expr = simplify(self._substitute(without_likely(e)))
        return found

    def _bounds(self, plain: Expr) -> Interval:
        """The bounds of an expression in which the values of lets stand already."""
        plain = self.fused.split(plain)
        bounder, moving = self._with_parts(sorted(free_variables(plain) & self.fused.last.keys()))
        if not moving:
            return bounder(plain)
        low = high = plain
        for name in reversed(moving):
            low = _at_end(low, name, moving[name], bounder.scope, False)
            high = _at_end(high, name, moving[name], bounder.scope, True)
        if low is high:
            return bounder(plain)
        return Interval(bounder(simplify(low)).min, bounder(simplify(high)).max)

    def _with_parts(self, names: list[str]) -> tuple[Bounder, dict[str, Ends]]:
        """The bounds, and what moves with what is around it, with some parts of fused loops too."""
        if not names:
            return self.bounder, self._moving
        moving, scope = dict(self._moving), {}
        for name in names:
            last = self.fused.last[name]
            first: Expr = build.const(last.type, 0)
            if self._moves(first, last):
                moving[name] = (first, last)
            scope[name] = Interval(first, self.bounder(last).max)
        return self.bounder.with_scope(scope), moving

    # Scopes.

    def _changed(self, bounder: Bounder | None, values: dict[str, Expr] | None) -> Any:
        """Switch to another scope; what was seen in the old one counts no more."""
        saved = (self.bounder, self.values, self._seen, self._substitute, self.clamped)
        self._seen = set()
        if bounder is not None:
            self.bounder = bounder
        if values is not None:
            self.values = values
            self._substitute = Substitute(values)
        return saved

    def _restore(self, saved: Any) -> None:
        self.bounder, self.values, self._seen, self._substitute, self.clamped = saved

    def _with_let(self, name: str, value: Expr, inside: Callable[[], None]) -> None:
        values = dict(self.values)
        bounder: Bounder | None = None
        if value.type.kind in ("int", "uint", "float"):
            plain = simplify(self._substitute(without_likely(value)))
            if not is_pure(plain) or _is_large(plain):
                interval = self._bounds(plain)
                ends = Interval(self._name(name, interval.min), self._name(name, interval.max))
                bounder = self.bounder.with_scope({name: ends})
                values.pop(name, None)
            else:
                values[name] = plain
        else:
            values.pop(name, None)
        clamped = {k: v for k, v in self.clamped.items() if k != name}
        if name in values and not free_variables(value).isdisjoint(self.clamped):
            clamped[name] = self._in_clamped(value)
        saved = self._changed(bounder, values)
        self.clamped = clamped
        inside()
        self._restore(saved)

    def _name(self, stem: str, e: Expr | None) -> Expr | None:
        """A name for a large expression, so that what uses it stays small."""
        if e is None or not _is_large(e):
            return e
        name = f"{stem}.t{len(self.named)}"
        self.named.append((name, e))
        return Variable(e.type, name)

    def _with_variables(self, scope: dict[str, Interval], inside: Callable[[], None]) -> None:
        values = self.values
        if not scope.keys().isdisjoint(values):
            values = {k: v for k, v in values.items() if k not in scope}
        saved = self._changed(self.bounder.with_scope(scope), values)
        self.clamped = {k: v for k, v in self.clamped.items() if k in values}
        inside()
        self._restore(saved)

    # Statements.

    def let(self, s: LetStmt) -> None:
        self.visit(s.value)
        self._with_let(s.name, s.value, lambda: self.visit(s.body))

    def loop(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        low = self.interval(s.min).min
        high = self.interval(build.add(build.add(s.min, s.extent), -1)).max
        first = self._plain(s.min)
        last = self._plain(build.add(build.add(s.min, s.extent), -1))
        saved = (self.fused, self._moving)
        self._moving = {k: v for k, v in self._moving.items() if k != s.name}
        if self._moves(first, last):
            self._moving[s.name] = (first, last)
        scope = {s.name: Interval(low, high)}
        extent = self._plain(s.extent)
        if build.is_zero(first) and not build.is_const(extent):
            self.fused = FusedLoops(self.fused)
            self.fused.add(s.name, extent)
        self._with_variables(scope, lambda: self.visit(s.body))
        self.fused, self._moving = saved

    def _moves(self, first: Expr, last: Expr) -> bool:
        """Whether the range of a variable moves with what is around it."""
        free = free_variables(first) | free_variables(last)
        return any(v in self.bounder.scope for v in free) and is_pure(first) and is_pure(last)

    def provide(self, s: Provide) -> None:
        if self.writes and (self.only is None or self.only == s.name):
            if s.predicate is None:
                self._touch(s.name, s.args)
            else:
                self._branch(s.predicate, lambda: self._touch(s.name, s.args), None)
        # The predicate is one of the store alone: what is stored is computed in any case.
        for e in s.children():
            self.visit(e)

    def evaluate(self, s: Evaluate) -> None:
        value = s.value
        if type(value) is not Call or value.name != "call_extern":
            self.visit(value)
            return
        for arg in value.args:
            if type(arg) is Call and arg.name in _BUFFERS:
                self._buffer(arg)
            else:
                self.visit(arg)

    def _buffer(self, buffer: Call) -> None:
        """Add the region of a buffer that an external function is given."""
        element, *fields = buffer.args
        assert type(element) is Call
        touched = self.writes if buffer.name == "written_buffer" else self.reads
        # What is read of an image is said by its required_region.
        if buffer.name == "read_buffer" and element.kind is CallKind.IMAGE:
            return
        if not touched or (self.only is not None and self.only != element.name):
            return
        bounds: list[Interval] = []
        for low, extent in zip(fields[::3], fields[1::3], strict=True):
            high = build.add(build.add(low, extent), -1)
            bounds.append(Interval(self.interval(low).min, self.interval(high).max))
        merge_into(self.boxes, element.name, Box(bounds))

    def check(self, s: AssertStmt) -> None:
        if build.is_zero(s.condition):
            self.unreachable = True
        for child in s.children():
            self.visit(child)

    def branch(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        other = s.else_case
        self._branch(
            s.condition,
            lambda: self.visit(s.then_case),
            None if other is None else (lambda: self.visit(other)),
        )

    def _branch(
        self, condition: Expr, then: Callable[[], None], other: Callable[[], None] | None
    ) -> None:
        condition = without_likely(condition)
        plain = simplify(self._substitute(condition))
        value = build.constant_value(plain)
        if value is not None:
            if value:
                then()
            elif other is not None:
                other()
            return
        varies = any(v in self.bounder.scope for v in free_variables(plain))
        if varies or not is_pure(plain):
            self._narrowed(condition, plain, True, then)
            if other is not None:
                self._narrowed(condition, plain, False, other)
            return
        self._either(plain, then, other)

    def _narrowed(
        self, condition: Expr, plain: Expr, holds: bool, inside: Callable[[], None]
    ) -> None:
        """Visit under a condition on variables that move.

        Args:
            condition: As it stands.
            plain: The same in terms of what lets stand for.
            holds: Whether it does; else it fails.
            inside: Visits what is under it.
        """
        under = self.bounder.under(plain, holds)
        clamped = self._clamped(condition if holds else build.logical_not(condition), under)
        before = self._moving
        known = self.bounder.scope
        self._moving = {k: v for k, v in before.items() if under.scope[k] is known[k]}
        saved = self._changed(under, None)
        self.clamped = clamped
        inside()
        self._restore(saved)
        self._moving = before

    def _clamped(self, condition: Expr, under: Bounder) -> dict[str, Expr]:
        """The values of lets clamped to what a condition, too, says of their variables.

        In `v = 3 a + b; if v <= 4` no range of a and of b says as much.
        """
        clamped = self.clamped
        for name in sorted(free_variables(condition) & self.values.keys()):
            solved = solve_for_outer_interval(condition, name)
            if solved.empty or solved.is_everything():
                continue
            known = under(self.values[name])
            value = old = clamped.get(name, self.values[name])
            if solved.max is not None:
                high = self._plain(solved.max)
                if known.max is None or not can_prove(build.le(known.max, high)):
                    value = build.minimum(value, high)
            if solved.min is not None:
                low = self._plain(solved.min)
                if known.min is None or not can_prove(build.ge(known.min, low)):
                    value = build.maximum(value, low)
            if value is not old and not _is_large(value):
                clamped = {**clamped, name: simplify(value)}
        return clamped

    def _either(
        self, condition: Expr, then: Callable[[], None], other: Callable[[], None] | None
    ) -> None:
        """A condition that is the same all the time: boxes are used only where it holds."""
        then_boxes, then_unreachable = self._apart(then)
        other_boxes: dict[str, Box] = {}
        other_unreachable = False
        if other is not None:
            other_boxes, other_unreachable = self._apart(other)
        self.unreachable = self.unreachable or (then_unreachable and other_unreachable)
        if not other_unreachable:
            _use_only_if(then_boxes, condition)
        if not then_unreachable:
            _use_only_if(other_boxes, simplify(build.logical_not(condition)))
        self.boxes = merge_boxes(self.boxes, merge_boxes(then_boxes, other_boxes))

    def _apart(self, inside: Callable[[], None]) -> tuple[dict[str, Box], bool]:
        """The boxes found in a part alone, and whether it surely ends the call."""
        saved_boxes, saved_unreachable = self.boxes, self.unreachable
        self.boxes, self.unreachable = {}, False
        saved = self._changed(None, None)
        inside()
        self._restore(saved)
        found = (self.boxes, self.unreachable)
        self.boxes, self.unreachable = saved_boxes, saved_unreachable
        return found


def _at_end(e: Expr, name: str, ends: Ends, scope: Scope, upper: bool) -> Expr:
    """The expression where an inner variable is at the end that makes it least or greatest.

    So what its range and the rest of the expression have in common, cancels. Left as it is
    where that end is not known, or where nothing but the variable moves.
    """
    free = free_variables(e)
    if name not in free:
        return e
    others = [v for v in free if v != name and v in scope]
    if not others:
        return e
    direction = is_monotonic(e, name)
    if direction is Monotonic.Unknown:
        return e
    take_last = (direction is Monotonic.Increasing) is upper
    return substitute({name: ends[take_last]}, e)


def _use_only_if(boxes: dict[str, Box], condition: Expr) -> None:
    for box in boxes.values():
        used = condition if box.used is None else build.logical_and(box.used, condition)
        box.used = simplify(used)


def _tighter(a: Interval, b: Interval) -> Interval:
    """Of two intervals of the same, the first; an end of the second that surely is nearer."""
    low, high = a.min, a.max
    if b.min is not None and b.min is not low:
        if low is None or can_prove(build.ge(b.min, low)):
            low = b.min
    if b.max is not None and b.max is not high:
        if high is None or can_prove(build.le(b.max, high)):
            high = b.max
    return Interval(low, high)


def _is_large(e: Expr) -> bool:
    return is_larger(e, SMALL)


_STATEMENTS: Final[dict[type, Callable[[Regions, Any], None]]] = {
    LetStmt: Regions.let,
    For: Regions.loop,
    Provide: Regions.provide,
    AssertStmt: Regions.check,
    Evaluate: Regions.evaluate,
    IfThenElse: Regions.branch,
}
