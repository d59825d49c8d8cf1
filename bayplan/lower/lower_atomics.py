"""Brings atomic updates into the forms that targets emit, and drops those nothing can disturb."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.exprs import Binary, Expr, Load, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Atomic, Block, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.walk import StmtRewriter
from bayplan.lower.context import Lowering
from bayplan.lower.lanes import lane_of, rebuild_binary
from bayplan.lower.vector_expressions import loads

_CONCURRENT = (ForKind.Parallel, ForKind.GPUBlock, ForKind.GPUThread, ForKind.GPULane)


def lower_atomics(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which an Atomic holds one scalar Store, or what needs a lock.

    Outside of parallel loops an Atomic means nothing and is dropped. Inside, lets and conditions
    that do not read what is written move out of it, and a vector is stored lane by lane. What is
    left around more than a Store (a Tuple, say) has to be done under a lock.

    Order: after vectorize_loops.
    """
    return _LowerAtomics(lowering)(stmt)


class _LowerAtomics(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        self.concurrent = 0

    def rewrite_For(self, node: For) -> Stmt:
        inside = node.kind in _CONCURRENT
        self.concurrent += inside
        body = self(node.body)
        self.concurrent -= inside
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        if not self.concurrent:
            return self(node.body)  # type: ignore[no-any-return]
        function = self.lowering.env.get(node.name)
        names = {node.name}
        if function is not None and function.outputs() > 1:
            names |= {f"{node.name}.{i}" for i in range(function.outputs())}
        return self._narrow(node.name, node.body, names)

    def _narrow(self, func: str, body: Stmt, names: set[str]) -> Stmt:
        cls = type(body)
        if cls is LetStmt and not loads(body.value, names):
            return LetStmt(body.name, body.value, self._narrow(func, body.body, names))
        if cls is IfThenElse and not loads(body.condition, names):
            then_case = self._narrow(func, body.then_case, names)
            else_case = body.else_case
            if else_case is not None:
                else_case = self._narrow(func, else_case, names)
            return IfThenElse(body.condition, then_case, else_case)
        if cls is Store:
            if body.index.type.lane_count == 1:
                return self._one_store(func, body, names)
            return self._lanes(func, body, names)
        if cls is Block:
            stores = [s for s in body.stmts if type(s) is Store]
            independent = len(stores) == len(body.stmts) and all(
                not loads(s, names - {s.name}) for s in stores
            )
            if independent:
                return build.block([self._narrow(func, s, names) for s in body.stmts])
        return Atomic(func, body)

    def _one_store(self, func: str, store: Store, names: set[str]) -> Stmt:
        if store.predicate is None:
            return Atomic(func, store)
        plain = Store(store.name, store.value, store.index, None, store.source)
        if loads(store.predicate, names):
            return Atomic(func, IfThenElse(store.predicate, plain))
        return IfThenElse(store.predicate, Atomic(func, plain))

    def _lanes(self, func: str, store: Store, names: set[str]) -> Stmt:
        """One store per lane; what joins the stored elements is computed once, as a vector."""
        value = store.value
        lets: list[tuple[str, Expr]] = []
        if isinstance(value, Binary):
            value = rebuild_binary(
                type(value),
                self._named(value.a, names, lets),
                self._named(value.b, names, lets),
            )
        else:
            value = self._named(value, names, lets)
        parts: list[Stmt] = []
        for lane in range(store.index.type.lane_count):
            predicate = None if store.predicate is None else lane_of(store.predicate, lane)
            one = Store(
                store.name,
                lane_of(value, lane),
                lane_of(store.index, lane),
                predicate,
                store.source,
            )
            parts.append(self._one_store(func, one, names))
        result = build.block(parts)
        for name, e in reversed(lets):
            result = LetStmt(name, e, result)
        return result

    def _named(self, e: Expr, names: set[str], lets: list[tuple[str, Expr]]) -> Expr:
        if type(e) in (Variable, Load) or loads(e, names) or e.type.lane_count == 1:
            return e
        name = self.lowering.unique_name("lanes")
        lets.append((name, e))
        return Variable(e.type, name)
