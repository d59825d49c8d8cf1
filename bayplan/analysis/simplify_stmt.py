"""Simplification of statements: dead branches, trivial lets and loops, facts from what encloses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.purity import has_side_effect, reads_memory
from bayplan.analysis.ranges import range_of
from bayplan.analysis.simplify import simplifier_of
from bayplan.analysis.simplify_call import is_trivial
from bayplan.ir import stmts
from bayplan.ir.build import block, conjunction, is_nothing, is_one, is_zero, logical_not, nothing
from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from bayplan.ir.walk import free_variables


def simplify_stmt(stmt: Stmt, facts: Facts) -> Stmt:
    """The same statement in a smaller form."""
    return _Statements(stmt).run(stmt, facts)


_SINGLE_RUN: Final = (ForKind.Serial, ForKind.Parallel, ForKind.Unrolled, ForKind.Vectorized)
"""Loops that vanish when they run once; those of devices keep their place in the grid."""


class _Statements:
    """One walk over a statement; `used` are the variables that what was emitted so far uses."""

    def __init__(self, root: Stmt) -> None:
        self.used: set[str] = set()
        self.shadowed = _names_bound_twice(root)
        # What is known where a kernel begins, None outside of kernels; and the names bound in it.
        self._at_launch: Facts | None = None
        self._in_kernel: set[str] = set()

    def run(self, s: Any, facts: Facts) -> Stmt:
        method = _METHODS.get(type(s))
        if method is not None:
            return method(self, s, facts)
        children = s.children()
        changed = False
        results: list[Any] = []
        for child in children:
            new = self.expr(child, facts) if isinstance(child, Expr) else self.run(child, facts)
            changed = changed or new is not child
            results.append(new)
        return s.with_children(results) if changed else s  # type: ignore[no-any-return]

    def expr(self, e: Expr, facts: Facts) -> Expr:
        result = simplifier_of(facts)(e)
        self.used |= free_variables(result)
        return result

    def _inside(self, facts: Facts, name: str) -> Facts:
        """The facts without anything about an outer variable of the same name."""
        return Facts() if name in self.shadowed else facts

    def _bind(self, name: str) -> None:
        if self._at_launch is not None:
            self._in_kernel.add(name)

    def let(self, s: LetStmt, facts: Facts) -> Stmt:
        self._bind(s.name)
        value = simplifier_of(facts)(s.value)
        outer = self._inside(facts, s.name)
        harmless = free_variables(value).isdisjoint(self.shadowed)
        if is_trivial(value) and harmless and outer is facts and value.type.kind != "handle":
            inner = facts.child().define(s.name, value)
            return self._after_let(s, value, inner)
        return self._after_let(s, value, outer.let(s.name, value))

    def _after_let(self, s: LetStmt, value: Expr, inner: Facts) -> Stmt:
        """The body, and around it the let where the body still uses the name."""
        before = s.name in self.used
        self.used.discard(s.name)
        body = self.run(s.body, inner)
        live = s.name in self.used
        if not before:
            self.used.discard(s.name)
        else:
            self.used.add(s.name)
        # Loads and stores name pointers without mentioning the variable.
        keep = live or value.type.kind == "handle" or has_side_effect(value)
        if not keep:
            return body
        if is_nothing(body) and not has_side_effect(value):
            return body
        self.used |= free_variables(value)
        if value is s.value and body is s.body:
            return s
        return LetStmt(s.name, value, body)

    def loop(self, s: For, facts: Facts) -> Stmt:
        if s.kind is ForKind.GPUBlock and self._at_launch is None:
            self._at_launch = facts
            result = self._iterations(s, facts)
            self._at_launch = None
            self._in_kernel = set()
            return result
        return self._iterations(s, facts)

    def _iterations(self, s: For, facts: Facts) -> Stmt:
        minimum = simplifier_of(facts)(s.min)
        extent = self._extent(s, facts)
        _, longest = range_of(extent, facts)
        if longest is not None and longest <= 0:
            return nothing()
        if is_one(extent) and s.kind in _SINGLE_RUN:
            return self.let(LetStmt(s.name, minimum, s.body), facts)
        self._bind(s.name)
        inner = self._inside(facts, s.name).loop(s.name, minimum, extent)
        before = s.name in self.used
        body = self.run(s.body, inner)
        if not before:
            self.used.discard(s.name)
        if is_nothing(body):
            return nothing()
        self.used |= free_variables(minimum)
        self.used |= free_variables(extent)
        if minimum is s.min and extent is s.extent and body is s.body:
            return s
        return For(s.name, minimum, extent, s.kind, s.partition, body)

    def _extent(self, s: For, facts: Facts) -> Expr:
        """The extent of a loop.

        The grid of a kernel is known where it is launched, and the extents of its stretches stay
        the same whatever is known further in.
        """
        at_launch = self._at_launch
        if at_launch is not None and s.kind.is_gpu:
            if free_variables(s.extent).isdisjoint(self._in_kernel):
                facts = at_launch
        return simplifier_of(facts)(s.extent)

    def branch(self, s: IfThenElse, facts: Facts) -> Stmt:
        condition = simplifier_of(facts)(s.condition)
        if is_one(condition):
            return self.run(s.then_case, facts)
        if is_zero(condition):
            return nothing() if s.else_case is None else self.run(s.else_case, facts)
        if has_side_effect(condition) or reads_memory(condition):
            then_facts = else_facts = facts
        else:
            then_facts = facts.child().assume(condition)
            else_facts = facts.child().assume(logical_not(condition))
        then_case = self.run(s.then_case, then_facts)
        else_case = None if s.else_case is None else self.run(s.else_case, else_facts)
        if else_case is not None and is_nothing(else_case):
            else_case = None
        pure = not has_side_effect(condition)
        if is_nothing(then_case):
            if else_case is None:
                return nothing() if pure else self._evaluated(condition)
            condition = simplifier_of(facts)(logical_not(condition))
            then_case, else_case = else_case, None
        elif then_case is else_case and pure:
            return then_case
        if else_case is None and type(then_case) is IfThenElse and then_case.else_case is None:
            # Evaluated in order, so the inner condition may rely on the outer one.
            if not _may_fault(then_case.condition):
                joined = conjunction([condition, then_case.condition])
                condition, then_case = joined, then_case.then_case
        self.used |= free_variables(condition)
        return IfThenElse(condition, then_case, else_case)

    def _evaluated(self, e: Expr) -> Stmt:
        self.used |= free_variables(e)
        return stmts.Evaluate(e)

    def check(self, s: AssertStmt, facts: Facts) -> Stmt:
        condition = simplifier_of(facts)(s.condition)
        if is_one(condition):
            return nothing()
        self.used |= free_variables(condition)
        args = tuple([self.expr(a, facts) for a in s.args])
        return AssertStmt(condition, s.site, args)

    def sequence(self, s: Block, facts: Facts) -> Stmt:
        results: list[Stmt] = []
        for inner in s.stmts:
            result = self.run(inner, facts)
            if type(inner) is AssertStmt and not reads_memory(inner.condition):
                facts = facts.child().assume_checked(inner.condition)
            last = results[-1] if results else None
            if type(result) is IfThenElse and type(last) is IfThenElse:
                merged = _merged_branches(last, result)
                if merged is not None:
                    results[-1] = merged
                    continue
            results.append(result)
        return block(results)

    def evaluate(self, s: stmts.Evaluate, facts: Facts) -> Stmt:
        value = simplifier_of(facts)(s.value)
        if not has_side_effect(value) and not _has_undef(value):
            return nothing()
        return self._evaluated(value)

    def store(self, s: stmts.Store, facts: Facts) -> Stmt:
        value = self.expr(s.value, facts)
        index = self.expr(s.index, facts)
        predicate = None if s.predicate is None else self.expr(s.predicate, facts)
        if predicate is not None and is_one(predicate):
            predicate = None
        if predicate is not None and is_zero(predicate):
            return nothing()
        if type(value) is Load and value.name == s.name and value.index is index:
            return nothing()
        if value is s.value and index is s.index and predicate is s.predicate:
            return s
        return stmts.Store(s.name, value, index, predicate, s.source, s.alignment)

    def provide(self, s: stmts.Provide, facts: Facts) -> Stmt:
        values = tuple([self.expr(v, facts) for v in s.values])
        args = tuple([self.expr(a, facts) for a in s.args])
        predicate = None if s.predicate is None else self.expr(s.predicate, facts)
        if predicate is not None and is_one(predicate):
            predicate = None
        if predicate is not None and is_zero(predicate):
            return nothing()
        return stmts.Provide(s.name, values, args, predicate)

    def wrapper(self, s: Any, facts: Facts) -> Stmt:
        """Nodes that only surround their body."""
        body = self.run(s.body, facts)
        if is_nothing(body):
            return nothing()
        return s if body is s.body else s.with_children([body])  # type: ignore[no-any-return]

    def allocate(self, s: Allocate, facts: Facts) -> Stmt:
        extents = tuple([self.expr(e, facts) for e in s.extents])
        condition = self.expr(s.condition, facts)
        body = self.run(s.body, facts)
        if is_nothing(body):
            return nothing()
        address = () if s.address is None else (s.address,)
        return s.with_children([*extents, condition, *address, body])


def _has_undef(e: Expr) -> bool:
    return type(e) is Call and e.name == "undef"


def _may_fault(condition: Expr) -> bool:
    """Whether evaluating the condition reads memory, which another condition may have to guard."""
    return reads_memory(condition) or has_side_effect(condition)


def _merged_branches(a: IfThenElse, b: IfThenElse) -> Stmt | None:
    """Two branches on the same condition, one after the other, as one."""
    if a.condition is not b.condition or _may_fault(a.condition):
        return None
    else_case = None
    if a.else_case is not None or b.else_case is not None:
        else_case = block([a.else_case, b.else_case])
    return IfThenElse(a.condition, block([a.then_case, b.then_case]), else_case)


def _names_bound_twice(root: Stmt) -> set[str]:
    """Names bound inside the scope of another binding of the name, or of a use from outside."""
    twice: set[str] = set()
    bound: set[str] = set()
    free: set[str] = set()
    open_names: dict[str, int] = {}

    def walk(s: Any) -> None:
        cls = type(s)
        binding = cls is LetStmt or cls is For
        body = s.body if binding else None
        for child in s.children():
            if child is body:
                continue
            if isinstance(child, Expr):
                for name in free_variables(child):
                    if not open_names.get(name):
                        free.add(name)
            else:
                walk(child)
        if binding:
            name = s.name
            if open_names.get(name):
                twice.add(name)
            bound.add(name)
            open_names[name] = open_names.get(name, 0) + 1
            walk(body)
            open_names[name] -= 1

    walk(root)
    return twice | (bound & free)


_METHODS: Final[dict[type, Callable[[_Statements, Any, Facts], Stmt]]] = {
    LetStmt: _Statements.let,
    For: _Statements.loop,
    IfThenElse: _Statements.branch,
    AssertStmt: _Statements.check,
    Block: _Statements.sequence,
    stmts.Evaluate: _Statements.evaluate,
    stmts.Store: _Statements.store,
    stmts.Provide: _Statements.provide,
    stmts.ProducerConsumer: _Statements.wrapper,
    stmts.HoistedStorage: _Statements.wrapper,
    stmts.Atomic: _Statements.wrapper,
    Allocate: _Statements.allocate,
}

