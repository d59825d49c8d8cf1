"""Moves what does not change in a loop out of it.

Lets whose values do not change move out whole; subexpressions that cost something get a name in
front of the loop. In sums of index arithmetic the part that does not change is put together
first, so that the row of an address is computed once and elements differ by constants. Reads of
memory stay where they are: a loop may run no time at all, and what it stores may be what it reads.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.linear import Linear, build_linear, cache, is_index_type, linear_of
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify_call import is_trivial
from bayplan.ir.build import add, const
from bayplan.ir.exprs import (
    Add,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Mul,
    Ramp,
    StringImm,
    Sub,
    Variable,
)
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Allocate, For, LetStmt, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.names import term_name

_LEFT: Final = (ForKind.Serial, ForKind.Parallel)
"""Loops that code may move out of: those of devices are launches and threads."""


def hoist_invariants(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Compute in front of a loop what is the same in all of its iterations."""
    return _Hoist(lowering).run(stmt)


class _Hoist:
    """Treats inner loops first, so that what leaves them can leave outer ones too."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering

    def run(self, s: Any) -> Stmt:
        children = s.children()
        results = [self.run(c) if isinstance(c, Stmt) else c for c in children]
        changed = False
        for old, new in zip(children, results):
            changed = changed or old is not new
        if changed:
            s = s.with_children(results)
        if type(s) is For and s.kind in _LEFT:
            return self._loop(s)
        return s  # type: ignore[no-any-return]

    def _loop(self, s: For) -> Stmt:
        mover = _Mover(self._lowering, s)
        body = mover.walk(s.body)
        if not mover.moved:
            return s
        result: Stmt = For(s.name, s.min, s.extent, s.kind, s.partition, body)
        for name, value in reversed(mover.moved):
            result = LetStmt(name, value, result)
        return result


def _is_left(s: Any) -> bool:
    return type(s) is For and s.kind in _LEFT


def _bindings(s: Any, values: dict[str, Expr | None]) -> None:
    """Find what each name is bound to, None where that differs or is a loop.

    Not within loops that code has already left: what could leave such a loop stands in front of
    it, so that nothing in it has to be looked at again for the loops around it.
    """
    if type(s) is LetStmt:
        values[s.name] = s.value if values.get(s.name, s.value) is s.value else None
    elif type(s) is For:
        values[s.name] = None
    for child in s.children():
        if isinstance(child, Expr):
            for name in _let_names(child, cache("lower.let_names")):
                values[name] = None
        elif not _is_left(s):
            _bindings(child, values)


_NO_NAMES: Final[frozenset[str]] = frozenset()


def _let_names(e: Any, known: dict[Any, frozenset[str]]) -> frozenset[str]:
    """Names that lets inside an expression bind."""
    found = known.get(e)
    if found is None:
        found = frozenset([e.name]) if type(e) is Let else _NO_NAMES
        for child in e.children():
            inner = _let_names(child, known)
            if inner:
                found = found | inner
        known[e] = found
    return found


class _Mover(Rewriter):
    """Rewrites the body of one loop; `moved` are the lets to put in front of it, in order."""

    def __init__(self, lowering: Lowering, loop: For) -> None:
        super().__init__()
        self._lowering = lowering
        self.moved: list[tuple[str, Expr]] = []
        self._values: dict[str, Expr | None] = {}
        _bindings(loop.body, self._values)
        self._changing = set(self._values)
        self._changing.add(loop.name)
        self._named: dict[Expr, Expr] = {}

    def walk(self, s: Any) -> Stmt:
        cls = type(s)
        if cls is LetStmt:
            return self._let(s)
        if cls is Allocate:
            # Sizes stay as they are: reports and the storage plan read them.
            body = self.walk(s.body)
            return s if body is s.body else s.with_children([*s.extents, s.condition, body])
        if _is_left(s):
            low, extent = self(s.min), self(s.extent)
            if low is s.min and extent is s.extent:
                return s  # type: ignore[no-any-return]
            return For(s.name, low, extent, s.kind, s.partition, s.body)
        children = s.children()
        results: list[Any] = []
        changed = False
        for child in children:
            new = self(child) if isinstance(child, Expr) else self.walk(child)
            changed = changed or new is not child
            results.append(new)
        return s.with_children(results) if changed else s  # type: ignore[no-any-return]

    def _let(self, s: LetStmt) -> Stmt:
        value = s.value
        movable = value.type.kind != "handle" and self._values[s.name] is value
        if movable and self._stays_same(value):
            known = self._named.get(value)
            if known is not None:
                name = Variable(value.type, s.name)
                return self.walk(
                    s.body if known is name else substitute({s.name: known}, s.body)
                )
            self.moved.append((s.name, value))
            self._named[value] = Variable(value.type, s.name)
            self._changing.discard(s.name)
            self.forget()
            return self.walk(s.body)
        value = self(value)
        body = self.walk(s.body)
        if value is s.value and body is s.body:
            return s
        return LetStmt(s.name, value, body)

    def _stays_same(self, e: Expr) -> bool:
        return free_variables(e).isdisjoint(self._changing) and is_pure(e)

    # Expressions.

    def __call__(self, node: Any) -> Any:
        if not node.children():
            return node
        if self._stays_same(node):
            return self._name(node) if _is_worth(node) else node
        return super().__call__(node)

    def _name(self, e: Expr) -> Expr:
        if type(e) is Broadcast:
            # The scalar is what is worth a name; repeating it is free where it is used.
            return Broadcast(self._name(e.value) if _is_worth(e.value) else e.value, e.lanes)
        found = self._named.get(e)
        if found is None:
            name = term_name(self._lowering)
            self.moved.append((name, e))
            found = self._named[e] = Variable(e.type, name)
        return found

    def rewrite_Add(self, node: Add) -> Any:
        return self._sum(node)

    def rewrite_Sub(self, node: Sub) -> Any:
        return self._sum(node)

    def _sum(self, node: Any) -> Any:
        if not is_index_type(node.type):
            return self.rebuild(node)
        form = linear_of(node)
        same: dict[Expr, int] = {}
        changing: dict[Expr, int] = {}
        for atom, c in form.terms.items():
            (same if self._stays_same(atom) else changing)[atom] = c
        if not _is_sum_worth(same) or not changing:
            return self.rebuild(node)
        row = self._name(build_linear(Linear(same, 0), node.type))
        rest = Linear({self(atom): c for atom, c in changing.items()}, 0)
        moving = add(build_linear(rest, node.type), row)
        return add(moving, const(node.type, form.constant)) if form.constant else moving


def _is_sum_worth(terms: dict[Expr, int]) -> bool:
    """Whether computing the sum in front of the loop saves at least an operation."""
    cost = 0
    for atom, c in terms.items():
        cost += 1 + (c not in (1, -1)) + _is_worth(atom)
    return cost >= 2


def _is_worth(e: Any) -> bool:
    """Whether computing the value in front of the loop saves more than a trivial operation."""
    cls = type(e)
    if e.type.kind == "handle" or e.type.width == 1 or cls in (Const, Variable, StringImm):
        return False
    if is_trivial(e):
        return False
    if cls is Broadcast or cls is Cast:
        return _is_worth(e.value)
    if cls is Ramp:
        return False
    if cls is Call and e.name in ("likely", "likely_if_innermost", "undef"):
        return False
    if cls is Mul or cls is Add or cls is Sub:
        return e.type.lane_count == 1 or not _is_plain_vector(e)
    return True


def _is_plain_vector(e: Any) -> bool:
    """Ramps and broadcasts are addresses, which targets want to see as they are."""
    return type(e.a) in (Ramp, Broadcast) and type(e.b) in (Ramp, Broadcast)


