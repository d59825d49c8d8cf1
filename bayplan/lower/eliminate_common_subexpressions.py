"""Gives names to what the expressions of one statement compute more than once.

Nodes are interned, so equal subexpressions are the same node and counting parents is enough. Each
name becomes a let around its statement; a load is read there before the statement stores
anything, as it was. What stands behind a condition (`if_then_else`, the right side of `&&` and
`||`, the branches that are not always evaluated) is not computed before the condition is known if
it reads memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.purity import has_side_effect, reads_memory
from bayplan.ir.build import block
from bayplan.ir.exprs import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Or,
    Ramp,
    StringImm,
    Sub,
    Variable,
)
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Atomic,
    Block,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Provide,
    Stmt,
    Store,
)
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.names import term_name

_TRIVIAL: Final = (Const, Variable, StringImm)


def eliminate_common_subexpressions(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Name what is computed more than once within a statement's expressions."""
    return _Statements(lowering).run(stmt)


def _is_cheap(e: Any) -> bool:
    """Whether repeating the operation costs no more than naming it."""
    cls = type(e)
    if cls in _TRIVIAL or e.type.kind == "handle":
        return True
    if cls is Broadcast or cls is Cast:
        return _is_cheap(e.value)
    if cls is Add or cls is Sub:
        return type(e.a) in _TRIVIAL and type(e.b) is Const
    if cls is Ramp:
        # As an index a ramp has to stay visible: a dense access, not a gather.
        return type(e.stride) in _TRIVIAL or type(e.stride) is Broadcast
    return cls is Call and e.name in ("undef", "likely", "likely_if_innermost")


class _Statements:
    """Walks down the statements; each one's own expressions are treated together."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering

    def run(self, s: Any) -> Stmt:
        method = _METHODS.get(type(s))
        if method is not None:
            return method(self, s)
        children = s.children()
        results = [self.run(c) if isinstance(c, Stmt) else c for c in children]
        for old, new in zip(children, results):
            if old is not new:
                return s.with_children(results)  # type: ignore[no-any-return]
        return s  # type: ignore[no-any-return]

    def _all(self, s: Any) -> Stmt:
        """A statement without statements inside."""
        lets, exprs = self._named(list(s.children()))
        return _wrapped(lets, s.with_children(exprs) if lets else s)

    def _block(self, s: Block) -> Stmt:
        return block([self.run(inner) for inner in s.stmts])

    def _let(self, s: LetStmt) -> Stmt:
        body = self.run(s.body)
        lets, (value,) = self._named([s.value])
        if not lets and body is s.body:
            return s
        return _wrapped(lets, LetStmt(s.name, value, body))

    def _loop(self, s: For) -> Stmt:
        body = self.run(s.body)
        if s.kind.is_gpu:
            # The loops of a kernel stay directly nested, with extents that are the same.
            return s if body is s.body else s.with_children([s.min, s.extent, body])
        lets, (low, extent) = self._named([s.min, s.extent])
        if not lets and body is s.body:
            return s
        return _wrapped(lets, For(s.name, low, extent, s.kind, s.partition, body))

    def _branch(self, s: IfThenElse) -> Stmt:
        then_case = self.run(s.then_case)
        else_case = None if s.else_case is None else self.run(s.else_case)
        lets, (condition,) = self._named([s.condition])
        return _wrapped(lets, IfThenElse(condition, then_case, else_case))

    def _atomic(self, s: Atomic) -> Stmt:
        """Names are given in front of an update, but for those of what it reads."""
        body = self.run(s.body)
        ahead: list[tuple[str, Expr]] = []
        while type(body) is LetStmt and not reads_memory(body.value):
            ahead.append((body.name, body.value))
            body = body.body
        return _wrapped(ahead, s.with_children([body]))

    def _allocate(self, s: Allocate) -> Stmt:
        # Sizes stay as they are: reports and the storage plan read them.
        return s.with_body(self.run(s.body))

    def _named(self, exprs: list[Any]) -> tuple[list[tuple[str, Expr]], list[Any]]:
        """The lets and the expressions that use them."""
        if not any(_is_large(e) for e in exprs):
            return [], exprs
        exprs = [_without_lets(e) for e in exprs]
        counter = _Counter()
        for e in exprs:
            counter.count(e, False)
        shared = [e for e in counter.order if counter.is_worth(e)]
        if not shared:
            return [], exprs
        namer = _Namer(self._lowering, set(shared))
        results = [namer(e) for e in exprs]
        return namer.lets, results


def _is_large(e: Any) -> bool:
    return len(e.children()) > 0


def _wrapped(lets: list[tuple[str, Expr]], s: Stmt) -> Stmt:
    for name, value in reversed(lets):
        s = LetStmt(name, value, s)
    return s


class _LetsAway(Rewriter):
    """Puts the values of pure lets where their names stand; sharing keeps that free."""

    def rewrite_Let(self, node: Let) -> Any:
        value = self(node.value)
        if has_side_effect(value):
            body = self(node.body)
            return Let(node.name, value, body)
        return self(substitute({node.name: value}, node.body))


def _without_lets(e: Expr) -> Expr:
    return _LetsAway()(e)


class _Counter:
    """Counts the parents of each node, and which nodes are evaluated whatever happens."""

    def __init__(self) -> None:
        self.parents: dict[Any, int] = {}
        self.order: list[Any] = []
        self.certain: set[Any] = set()
        self._expanded: dict[Any, bool] = {}
        self._bound: set[str] = set()

    def count(self, e: Any, guarded: bool) -> None:
        """Count one use of `e`; `guarded` uses may not be evaluated."""
        self.parents[e] = self.parents.get(e, 0) + 1
        known = self._expanded.get(e)
        if not guarded:
            self.certain.add(e)
        if known is False or (known is True and guarded):
            return
        self._expanded[e] = guarded
        for index, child in enumerate(e.children()):
            if index == 0 and _is_buffer(e):
                # The element is an address, not a value.
                continue
            inner = guarded or _is_guarded(e, index)
            if known is None:
                self.count(child, inner)
            else:
                self._make_certain(child, inner)
        if type(e) is Let:
            self._bound.add(e.name)
        if type(e) is Call and e.name == "largest_over":
            self._bound.add(e.args[0].value)  # type: ignore[attr-defined]
        if known is None:
            self.order.append(e)

    def _make_certain(self, e: Any, guarded: bool) -> None:
        """What was met behind a condition is met again without one."""
        if guarded or self._expanded.get(e) is False:
            return
        self._expanded[e] = False
        self.certain.add(e)
        for index, child in enumerate(e.children()):
            if index or not _is_buffer(e):
                self._make_certain(child, _is_guarded(e, index))

    def is_worth(self, e: Any) -> bool:
        """Whether the node is to be named."""
        if self.parents[e] < 2 or _is_cheap(e) or has_side_effect(e):
            return False
        if reads_memory(e) and e not in self.certain:
            return False
        return self._bound.isdisjoint(free_variables(e))


def _is_buffer(e: Any) -> bool:
    return type(e) is Call and e.name in ("read_buffer", "written_buffer", "callee_workspace")


def _is_guarded(e: Any, index: int) -> bool:
    if index == 0:
        return False
    return (type(e) is Call and e.name == "if_then_else") or type(e) in (And, Or)


class _Namer(Rewriter):
    """Replaces the shared nodes by names and collects the lets, inner ones first."""

    def __init__(self, lowering: Lowering, shared: set[Any]) -> None:
        super().__init__()
        self._lowering = lowering
        self._shared = shared
        self.lets: list[tuple[str, Expr]] = []

    def rebuild(self, node: Any) -> Any:
        if _is_buffer(node):
            element, *fields = node.children()
            return node.with_children([element, *[self(field) for field in fields]])
        return self._name(node, super().rebuild(node))

    def _name(self, node: Any, rebuilt: Any) -> Any:
        if node not in self._shared:
            return rebuilt
        name = term_name(self._lowering)
        self.lets.append((name, rebuilt))
        return Variable(rebuilt.type, name)


_METHODS: Final[dict[type, Callable[[_Statements, Any], Stmt]]] = {
    Store: _Statements._all,
    Provide: _Statements._all,
    Evaluate: _Statements._all,
    AssertStmt: _Statements._all,
    Block: _Statements._block,
    LetStmt: _Statements._let,
    For: _Statements._loop,
    IfThenElse: _Statements._branch,
    Allocate: _Statements._allocate,
    Atomic: _Statements._atomic,
}
