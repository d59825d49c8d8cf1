"""Bodies of vectorised loops turned into statements on vectors, for vectorize_loops."""

from __future__ import annotations

from bayplan.analysis.purity import has_side_effect
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Call, Expr, Load, Ramp
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Atomic,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    Store,
)
from bayplan.ir.walk import Rewriter, free_variables, free_variables_of_stmt, iterate, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.lanes import all_lanes, lane_extremes
from bayplan.lower.scoped import strip_likely
from bayplan.lower.vector_expressions import VectorizedExpressions, widen
from bayplan.lower.vector_predicates import has_vectorized_loop, predicated, sink_condition
from bayplan.lower.vector_reductions import reduce_lanes


class _LaneOfAllocation(Rewriter):
    """Gives each lane its own copy of an allocation: element i becomes i * lanes + lane."""

    def __init__(self, name: str, lane: str, lanes: int) -> None:
        super().__init__()
        self.name = name
        self.lane = build.var(lane)
        self.lanes = lanes

    def _index(self, index: Expr) -> Expr:
        return index * self.lanes + build.cast(index.type, self.lane)

    def rewrite_Load(self, node: Load) -> Expr:
        if node.name != self.name:
            return self.rebuild(node)
        predicate = None if node.predicate is None else self(node.predicate)
        return Load(node.type, node.name, self._index(self(node.index)), predicate, node.source)

    def rewrite_Store(self, node: Store) -> Stmt:
        if node.name != self.name:
            return self.rebuild(node)
        predicate = None if node.predicate is None else self(node.predicate)
        index = self._index(self(node.index))
        return Store(node.name, self(node.value), index, predicate, node.source)


class _Serialize(Rewriter):
    """Makes vectorised loops serial."""

    def rewrite_For(self, node: For) -> Stmt:
        body = self(node.body)
        if node.kind is ForKind.Vectorized:
            return For(node.name, node.min, node.extent, ForKind.Serial, node.partition, body)
        return node if body is node.body else node.with_children([node.min, node.extent, body])


class VectorizedBody(VectorizedExpressions):
    """Rewrites the body of a vectorised loop, with the vectorised loops inside it."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        # Name, min and lanes of the vectorised loops around, outermost first.
        self.loops: list[tuple[str, Expr, int]] = []
        # Scalar values of the lets around that became vectors, outermost first.
        self.lets: list[tuple[str, Expr]] = []

    def suffix(self) -> str:
        return ".vector" + (f".{len(self.loops)}" if len(self.loops) > 1 else "")

    def total_lanes(self) -> int:
        """Lanes of a full vector: the product over the vectorised loops around."""
        total = 1
        for _, _, lanes in self.loops:
            total *= lanes
        return total

    def loop(self, node: For) -> Stmt:
        """The statement that replaces a vectorised loop whose min is a scalar."""
        extent = build.constant_value(node.extent)
        if extent is None:
            raise InternalError(f"the vectorised loop {node.name} has no constant extent")
        if int(extent) == 1:
            return self(LetStmt(node.name, node.min, node.body))
        self.loops.append((node.name, node.min, int(extent)))
        saved_replacements, saved_scope = self.replacements, dict(self.scope)
        self._replace_loop_variables()
        # The lets around have more lanes in here; their values are computed anew.
        wrappers = self._bind_lets_again()
        self.forget()
        body = self(node.body)
        self.loops.pop()
        self.replacements, self.scope = saved_replacements, saved_scope
        self.forget()
        for name, value in reversed(wrappers):
            body = LetStmt(name, value, body)
        return body

    def _replace_loop_variables(self) -> None:
        self.replacements = {}
        for at, (name, low, lanes) in enumerate(self.loops):
            inner = 1
            for _, _, n in self.loops[at + 1 :]:
                inner *= n
            outer = self.total_lanes() // (inner * lanes)
            one = build.broadcast(build.int32(1), inner)
            first = build.broadcast(build.int32(0), inner)
            value = Ramp(build.broadcast(low, inner), one, lanes)
            lane = Ramp(first, one, lanes)
            self.replacements[name] = build.broadcast(value, outer)
            self.replacements[name + ".lane"] = build.broadcast(lane, outer)

    def _bind_lets_again(self) -> list[tuple[str, Expr]]:
        wrappers: list[tuple[str, Expr]] = []
        self.scope = {}
        for name, scalar in self.lets:
            value = simplify(self(scalar))
            if self.bind(name, value):
                wrappers.append((name + self.suffix(), value))
        return wrappers

    # Statements.

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        value = self(node.value)
        if value.type.lane_count == node.value.type.lane_count:
            return self.keep_let(node, value)  # type: ignore[return-value]
        before = self.scope.get(node.name)
        value = simplify(value)
        name = node.name + self.suffix()
        named = self.bind(node.name, value)
        self.lets.append((node.name, node.value))
        body = self(node.body)
        self.lets.pop()
        self.unbind(node.name, before)
        return LetStmt(name, value, body) if named else body

    def rewrite_Store(self, node: Store) -> Stmt:
        value = self(node.value)
        index = self(node.index)
        predicate = None if node.predicate is None else self(node.predicate)
        if value is node.value and index is node.index and predicate is node.predicate:
            return node
        lanes = max(value.type.lane_count, index.type.lane_count)
        if predicate is not None:
            lanes = max(lanes, predicate.type.lane_count)
            predicate = widen(predicate, lanes)
        return Store(node.name, widen(value, lanes), widen(index, lanes), predicate, node.source)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        value = self(node.value)
        if value is node.value:
            return node
        if value.type.lane_count > 1:
            return self.scalarize(node) if has_side_effect(node.value) else build.nothing()
        return Evaluate(value)

    def rewrite_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self(node.condition)
        if condition.type.lane_count > 1:
            return self.scalarize(node)
        args = [self(arg) for arg in node.args]
        for arg in args:
            if arg.type.lane_count > 1:
                return self.scalarize(node)
        return AssertStmt(condition, node.site, tuple(args))

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        extents: list[Expr] = [build.int32(lanes) for _, _, lanes in reversed(self.loops)]
        for extent in node.extents:
            wide = self(extent)
            # Each lane has its own elements, so strides that differ by lane do not matter.
            extents.append(lane_extremes(wide)[1] if wide.type.lane_count > 1 else wide)
        condition = self(node.condition)
        if condition.type.lane_count > 1:
            condition = lane_extremes(condition)[1]
        body = node.body
        for name, _, lanes in self.loops:
            body = _LaneOfAllocation(node.name, name + ".lane", lanes)(body)
        body = self(body)
        return Allocate(
            node.name, node.type, node.memory_type, tuple(extents), condition, node.padding, body,
            node.alignment,
        )

    def rewrite_For(self, node: For) -> Stmt:
        low = self(node.min)
        if low.type.lane_count > 1:
            moved = substitute({node.name: build.var(node.name) + node.min}, node.body)
            zero = build.int32(0)
            return self(For(node.name, zero, node.extent, node.kind, node.partition, moved))
        extent = self(node.extent)
        body = node.body
        if extent.type.lane_count > 1:
            # Run up to the longest lane; the others stop earlier.
            extent = simplify(lane_extremes(extent)[1])
            body = IfThenElse(
                build.likely(build.lt(build.var(node.name), node.min + node.extent)), body
            )
        if node.kind is ForKind.Vectorized:
            return self.loop(For(node.name, low, extent, node.kind, node.partition, body))
        return For(node.name, low, extent, node.kind, node.partition, self(body))

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self(node.condition)
        if condition.type.lane_count == 1:
            then_case = self(node.then_case)
            else_case = None if node.else_case is None else self(node.else_case)
            return IfThenElse(condition, then_case, else_case)
        if node.else_case is None and type(node.then_case) is Atomic:
            reduced = reduce_lanes(self, node.then_case, node.condition)
            if reduced is not None:
                return reduced
        if has_vectorized_loop(node) and not _reads_memory(node.condition):
            sunk = sink_condition(node.condition, node.then_case)
            if node.else_case is not None:
                negated = build.logical_not(strip_likely(node.condition))
                sunk = build.block([sunk, sink_condition(negated, node.else_case)])
            if type(sunk) is not IfThenElse:
                return self(sunk)
        return self._divergent(node, condition)

    def _divergent(self, node: IfThenElse, condition: Expr) -> Stmt:
        """An if whose condition differs between lanes."""
        plain = strip_likely(condition)
        then_case = self(node.then_case)
        else_case = None if node.else_case is None else self(node.else_case)
        some = predicated(plain, then_case, else_case)
        if some is None:
            without_mark = IfThenElse(strip_likely(node.condition), node.then_case, node.else_case)
            some = self.scalarize(without_mark)
        if plain is condition:
            return some
        # Nearly always all lanes take the same way.
        everywhere = build.likely(simplify(all_lanes(plain)))
        return IfThenElse(everywhere, then_case, some)

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        reduced = reduce_lanes(self, node, None)
        return reduced if reduced is not None else self.scalarize(node)

    def scalarize(self, stmt: Stmt) -> Stmt:
        """The statement run for one lane after another."""
        stmt = _Serialize()(stmt)
        free = set(free_variables_of_stmt(stmt))
        for name, value in reversed(self.lets):
            if name in free:
                stmt = LetStmt(name, value, stmt)
                free.discard(name)
                free |= free_variables(value)
        for name, low, lanes in reversed(self.loops):
            lane = name + ".lane"
            if lane in free:
                stmt = LetStmt(lane, build.var(name) - low, stmt)
            extent = build.int32(lanes)
            stmt = For(name, low, extent, ForKind.Serial, Partition.Never, stmt)
        return stmt


def _reads_memory(e: Expr) -> bool:
    for node in iterate(e):
        if type(node) is Load or (type(node) is Call and not node.is_pure()):
            return True
    return False
