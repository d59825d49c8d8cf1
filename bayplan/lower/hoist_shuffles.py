"""Takes exchanges between lanes out of code that only some lanes of the warp run.

Each exchange becomes a let of its own, in front of the statement that uses it. A branch that lanes
take differently is cut into its statements, so that the lets can stand between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.analysis.purity import reads_memory
from bayplan.ir import build
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Call, Expr, Let, Load, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    Block,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.types import BOOL
from bayplan.ir.walk import Rewriter, substitute
from bayplan.lower.lane_accesses import Varying, is_shuffle

Lets = list[tuple[str, Expr]]


class HoistShuffles:
    """Rewrites the loops over lanes of a kernel that exchange something.

    Args:
        lanes: how many lanes take part.
        own: temporaries that lanes hold in their registers.
        fresh: makes names.
    """

    def __init__(self, lanes: int, own: frozenset[str], fresh: Callable[[str], str]) -> None:
        self.lanes = lanes
        self.own = own
        self.fresh = fresh
        self._has: dict[Node, bool] = {}

    def run(self, s: Any) -> Stmt:
        """The statement, at a place outside of loops over lanes."""
        if not self._exchanges(s):
            return s  # type: ignore[no-any-return]
        if type(s) is For and s.kind is ForKind.GPULane:
            varying = Varying(frozenset([s.name]), self.own)
            extent = int(build.constant_value(s.extent) or 0)
            if extent == self.lanes:
                return s.with_children([s.min, s.extent, self._in(s.body, None, varying)])
            # All lanes come, and those behind the last iteration only show what they hold.
            guard = build.lt(Variable(s.min.type, s.name), build.add(s.min, s.extent))
            body = self._in(s.body, guard, varying)
            return s.with_children([s.min, build.int32(self.lanes), body])
        children = [self.run(c) if isinstance(c, Stmt) else c for c in s.children()]
        return s.with_children(children)  # type: ignore[no-any-return]

    def _exchanges(self, s: Node) -> bool:
        found = self._has.get(s)
        if found is None:
            found = self._has[s] = is_shuffle(s) or any(self._exchanges(c) for c in s.children())
        return found

    def _in(self, s: Any, guard: Expr | None, varying: Varying) -> Stmt:
        """The statement in a loop over lanes; only lanes for which `guard` holds are to do it."""
        if not self._exchanges(s):
            return _guarded(s, guard)
        cls = type(s)
        if cls is Block:
            return build.block([self._in(c, guard, varying) for c in s.stmts])
        if cls is ProducerConsumer:
            return ProducerConsumer(s.name, s.is_producer, self._in(s.body, guard, varying))
        if cls is Allocate:
            return s.with_body(self._in(s.body, guard, varying.owning(s.name)))  # type: ignore[no-any-return]
        lets: Lets = []
        if cls is LetStmt:
            result = self._let(s, guard, varying, lets)
        elif cls is IfThenElse:
            result = self._branch(s, guard, varying, lets)
        elif cls is For:
            result = self._loop(s, guard, varying, lets)
        elif cls is Store or cls is Evaluate:
            take = _Take(lets, self.fresh, guard)
            result = _guarded(s.with_children([take(c) for c in s.children()]), guard)
        else:
            raise InternalError(f"lanes exchange elements in a {cls.__name__}: {s}")
        for name, value in reversed(lets):
            result = LetStmt(name, value, result)
        return result

    def _let(self, s: LetStmt, guard: Expr | None, varying: Varying, lets: Lets) -> Stmt:
        value = _Take(lets, self.fresh, guard)(s.value)
        inner = varying.bound(s.name, s.value)
        if not self._exchanges(s.body):
            return _guarded(LetStmt(s.name, value, s.body), guard)
        if guard is not None and reads_memory(value):
            zero = build.const(value.type, 0)
            value = build.intrinsic(value.type, "if_then_else", guard, value, zero)
        return LetStmt(s.name, value, self._in(s.body, guard, inner))

    def _branch(self, s: IfThenElse, guard: Expr | None, varying: Varying, lets: Lets) -> Stmt:
        condition = _Take(lets, self.fresh, guard)(s.condition)
        cases = [s.then_case, s.else_case]
        if not any(case is not None and self._exchanges(case) for case in cases):
            return _guarded(IfThenElse(condition, s.then_case, s.else_case), guard)
        differs = varying.of(s.condition) or (guard is not None and reads_memory(condition))
        if not differs:
            other = None if s.else_case is None else self._in(s.else_case, guard, varying)
            return IfThenElse(condition, self._in(s.then_case, guard, varying), other)
        then = self._named(condition, guard, lets, varying)
        parts = [self._in(s.then_case, then, Varying(varying.names | {then.name}, varying.private))]
        if s.else_case is not None:
            # Before the other branch, which may change what the condition depends on.
            not_then: Expr = build.logical_not(then)
            if guard is not None:
                not_then = build.logical_and(guard, not_then)
            other_name = self._named(not_then, None, lets, varying)
            parts.append(self._in(s.else_case, other_name, varying))
        return build.block(parts)

    def _named(self, e: Expr, guard: Expr | None, lets: Lets, varying: Varying) -> Variable:
        """A name for a condition, which is evaluated only by lanes for which the guard holds."""
        if guard is not None:
            if reads_memory(e):
                e = build.intrinsic(BOOL, "if_then_else", guard, e, build.false())
            else:
                e = build.logical_and(guard, e)
        name = self.fresh("lane.active")
        lets.append((name, e))
        return Variable(BOOL, name)

    def _loop(self, s: For, guard: Expr | None, varying: Varying, lets: Lets) -> Stmt:
        take = _Take(lets, self.fresh, guard)
        low, extent = take(s.min), take(s.extent)
        if not self._exchanges(s.body):
            return _guarded(s.with_children([low, extent, s.body]), guard)
        return s.with_children([low, extent, self._in(s.body, guard, varying.over(s))])


def _guarded(s: Stmt, guard: Expr | None) -> Stmt:
    if guard is None or build.is_nothing(s):
        return s
    return IfThenElse(guard, s)


class _Take(Rewriter):
    """Puts names in the place of exchanges, innermost first.

    Lanes that are not to do what uses them read no memory for them, but the register.
    """

    def __init__(self, lets: Lets, fresh: Callable[[str], str], guard: Expr | None) -> None:
        super().__init__()
        self.lets = lets
        self.fresh = fresh
        self.read = _Read(lets, fresh, guard)

    def rewrite_Call(self, node: Call) -> Expr:
        call: Any = self.rebuild(node)
        if not is_shuffle(node):
            return call  # type: ignore[no-any-return]
        value = node.args[0]
        stem = value.name if isinstance(value, Load) else "value"
        name = self.fresh(f"{stem}.shuffled")
        shown, which, lanes = call.args
        shown = shown.with_children([self.read(c) for c in shown.children()])
        self.lets.append((name, call.with_children([shown, self.read(which), lanes])))
        return Variable(node.type, name)

    def rewrite_Let(self, node: Let) -> Expr:
        # What is exchanged may depend on the name.
        return self(substitute({node.name: node.value}, node.body))


class _Read(Rewriter):
    """Puts names in the place of elements, which are read where the guard holds."""

    def __init__(self, lets: Lets, fresh: Callable[[str], str], guard: Expr | None) -> None:
        super().__init__()
        self.lets = lets
        self.fresh = fresh
        self.guard = guard

    def rewrite_Load(self, node: Load) -> Expr:
        load: Any = self.rebuild(node)
        if self.guard is None:
            return load  # type: ignore[no-any-return]
        name = self.fresh(f"{node.name}.element")
        zero = build.const(node.type, 0)
        value = build.intrinsic(node.type, "if_then_else", self.guard, load, zero)
        self.lets.append((name, value))
        return Variable(node.type, name)
