"""Gives every let and loop a name of its own, so that equal names mean equal values."""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Expr, Let, Variable
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, LetStmt, Prefetch, Provide, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.language.schedule import PrefetchDirective
from bayplan.lower.context import Lowering


def uniquify_names(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Renames lets and loops: the second "f.s0.x.min" becomes "f.s0.x.min$1", and so on.

    Order: after infer_bounds and slide, which define names again; before the first simplify, as
    from here equal expressions have equal values.
    """
    return _Uniquify(stmt)(stmt)


class _ExpandLets(Rewriter):
    def rewrite_Let(self, node: Let) -> Any:
        return self(substitute({node.name: node.value}, node.body))


def expand_lets(e: Expr) -> Expr:
    """The expression without lets in it; what they name is shared anyway."""
    return _ExpandLets()(e)


class _Uniquify(Rewriter):
    memoise = False

    def __init__(self, stmt: Stmt) -> None:
        super().__init__()
        self._renamed: dict[str, Expr] = {}
        self._uses: dict[str, int] = {}
        for name in _free_names(stmt):
            self._uses[name] = 0
        self._expand = _ExpandLets()

    def __call__(self, node: Any) -> Any:
        return self._value(node) if isinstance(node, Expr) else super().__call__(node)

    def _expr(self, e: Expr) -> Expr:
        renamed = self._renamed
        if free_variables(e).isdisjoint(renamed):
            return e
        return substitute({n: renamed[n] for n in free_variables(e) if n in renamed}, e)

    def _value(self, e: Expr) -> Expr:
        return self._expr(self._expand(e))

    def _new_name(self, name: str) -> str:
        """A name that no other binding has and that is not defined from outside."""
        while True:
            count = self._uses.get(name, -1) + 1
            self._uses[name] = count
            unique = name if count == 0 else f"{name}${count}"
            if count == 0 or unique not in self._uses:
                self._uses.setdefault(unique, 0)
                return unique

    def _bind(self, name: str, value: Expr | None) -> Expr | None:
        saved = self._renamed.get(name)
        if value is None or (type(value) is Variable and value.name == name):
            self._renamed.pop(name, None)
        else:
            self._renamed[name] = value
        return saved

    def _unbind(self, name: str, saved: Expr | None) -> None:
        if saved is None:
            self._renamed.pop(name, None)
        else:
            self._renamed[name] = saved

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        # Lets come in long chains, which a loop walks without deep recursion.
        chain: list[tuple[str, Expr]] = []
        saved: list[tuple[str, Expr | None]] = []
        stmt: Stmt = node
        while isinstance(stmt, LetStmt):
            value = self._value(stmt.value)
            name = self._new_name(stmt.name)
            saved.append((stmt.name, self._bind(stmt.name, Variable(value.type, name))))
            chain.append((name, value))
            stmt = stmt.body
        stmt = self(stmt)
        for old, before in reversed(saved):
            self._unbind(old, before)
        for name, value in reversed(chain):
            stmt = LetStmt(name, value, stmt)
        return stmt

    def rewrite_For(self, node: For) -> Stmt:
        low, extent = self._value(node.min), self._value(node.extent)
        name = self._new_name(node.name)
        before = self._bind(node.name, Variable(low.type, name))
        body = self(node.body)
        self._unbind(node.name, before)
        return For(name, low, extent, node.kind, node.partition, body)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        values = tuple([self(v) for v in node.values])
        args = tuple([self(a) for a in node.args])
        predicate = None if node.predicate is None else self(node.predicate)
        return Provide(node.name, values, args, predicate)

    def rewrite_Prefetch(self, node: Prefetch) -> Stmt:
        source = node.source
        if isinstance(source, PrefetchDirective):
            source = PrefetchDirective(
                source.name,
                self._loop(source.at),
                self._loop(source.from_var),
                self._expr(source.offset),
                source.strategy,
                source.source,
                source.where,
            )
        bounds = tuple([(self._expr(a), self._expr(b)) for a, b in node.bounds])
        condition = self._expr(node.condition)
        return Prefetch(node.name, node.types, bounds, condition, source, self(node.body))

    def _loop(self, name: str) -> str:
        found = self._renamed.get(name)
        return found.name if isinstance(found, Variable) else name


def _free_names(stmt: Stmt) -> set[str]:
    """Names that are used but not bound anywhere, as far as a look at the nodes tells."""
    used: set[str] = set()
    bound: set[str] = set()
    pending: list[Node] = [stmt]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Expr):
            used |= free_variables(node)
            continue
        if isinstance(node, LetStmt | For):
            bound.add(node.name)
        pending.extend(node.children())
    return used - bound
