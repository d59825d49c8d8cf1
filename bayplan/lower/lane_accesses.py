"""Walks the loops over lanes that use a temporary, and knows what its indices are in each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import linear_of
from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.ranges import range_of
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr, Let, Load, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    Block,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute
from bayplan.lower.lane_stripes import LANE, Element
from bayplan.lower.lanes import concatenate, lane_of

SHUFFLES: Final = frozenset(
    ["warp_shuffle", "warp_shuffle_up", "warp_shuffle_down", "warp_shuffle_xor"]
)


def is_shuffle(node: object) -> bool:
    """Whether a node is an exchange between the lanes of a warp."""
    return type(node) is Call and node.name in SHUFFLES


class Varying:
    """What lanes of a warp may have different values of.

    Attributes:
        names: variables.
        private: allocations of which each lane has its own.
    """

    __slots__ = ("names", "private")

    def __init__(self, names: frozenset[str], private: frozenset[str]) -> None:
        self.names = names
        self.private = private

    def of(self, e: Expr) -> bool:
        """Whether lanes may have different values of the expression."""
        if not free_variables(e).isdisjoint(self.names):
            return True
        return any(
            (type(n) is Load and n.name in self.private) or is_shuffle(n) for n in iterate(e)
        )

    def bound(self, name: str, value: Expr) -> Varying:
        """Inside of a let."""
        names = self.names | {name} if self.of(value) else self.names - {name}
        return Varying(names, self.private)

    def owning(self, name: str) -> Varying:
        """Inside of an allocation of each lane's own."""
        return Varying(self.names, self.private | {name})

    def over(self, s: For) -> Varying:
        """Inside of a loop."""
        differs = s.kind is ForKind.GPULane or self.of(s.min)
        names = self.names | {s.name} if differs else self.names - {s.name}
        return Varying(names, self.private)


class Where:
    """Where a statement stands.

    Attributes:
        values: what names stand for, in terms of the lane and of loops from 0 on.
        back: what the names in `values` are in terms of the program's.
        lanes: iterations of the loop over lanes around; 0: there is none.
        masked: some lanes may do nothing here.
        stuck: why no lane can ask another one here; "": it can.
        bound: of the names in `values`, those that differ between lanes.
    """

    __slots__ = ("back", "bound", "facts", "lanes", "masked", "stuck", "values", "varying")

    def __init__(self, facts: Facts, varying: Varying) -> None:
        self.facts = facts
        self.varying = varying
        self.values: dict[str, Expr] = {}
        self.back: dict[str, Expr] = {}
        self.bound = frozenset[str]()
        self.lanes = 0
        self.masked = False
        self.stuck = ""

    def child(self) -> Where:
        """A place inside of this one."""
        inner = Where(self.facts.child(), self.varying)
        inner.values, inner.back, inner.bound = self.values, self.back, self.bound
        inner.lanes, inner.masked, inner.stuck = self.lanes, self.masked, self.stuck
        return inner

    def written_out(self, e: Expr) -> Expr:
        """An expression in terms of the lane and of loops from 0 on."""
        return simplify(substitute(self.values, e), self.facts)

    def element(self, index: Expr) -> Element:
        """The index of an access here."""
        form = linear_of(self.written_out(index))
        return Element(form, self.facts, self.varying.names | self.bound, self.back)

    def let(self, name: str, value: Expr) -> Where:
        """Inside of a let."""
        inner = self.child()
        inner.varying = self.varying.bound(name, value)
        inner.values = {n: v for n, v in self.values.items() if n != name}
        if is_pure(value) and value.type.lane_count == 1:
            inner.values[name] = self.written_out(value)
        return inner

    def loop(self, s: For, lanes: int) -> Where:
        """Inside of a loop; `lanes` is how many take part where it is one over lanes."""
        inner = self.child()
        inner.varying = self.varying.over(s)
        name = LANE if s.kind is ForKind.GPULane else f"{s.name}.<from 0>"
        first = self.written_out(s.min)
        inner.values = {**self.values, s.name: build.add(Variable(INT32, name), first)}
        inner.back = {**self.back, name: build.sub(Variable(INT32, s.name), s.min)}
        _, most = range_of(self.written_out(s.extent), self.facts)
        inner.facts.bound_variable(name, 0, None if most is None else most - 1)
        if s.name in inner.varying.names:
            inner.bound = self.bound | {name}
        if s.kind is ForKind.GPULane:
            extent = build.constant_value(s.extent)
            inner.lanes = int(extent or 0)
            inner.masked = inner.lanes < lanes
        elif any(self._differs(e) for e in (s.min, s.extent)):
            inner.stuck = f"lanes run the loop {s.name} differently often"
        return inner

    def _differs(self, e: Expr) -> bool:
        """Whether lanes that run here may have different values, if they can evaluate it at all."""
        return self.lanes > 0 and (self.varying.of(e) or (self.masked and reads_memory(e)))

    def when(self, condition: Expr) -> Where:
        """Inside of a branch."""
        inner = self.child()
        if is_pure(condition):
            inner.facts.assume(self.written_out(condition))
        if self.lanes and self.varying.of(condition):
            inner.masked = True
        return inner


OnLoad = Callable[[Load, Where], Expr]
OnStore = Callable[[Store, Where], Expr]


class LaneWalk:
    """Visits each access of a temporary and may put another one in its place.

    Args:
        name: of the temporary.
        lanes: how many take part in an exchange.
        on_load: gives what stands for a load.
        on_store: gives the index of a store.
    """

    def __init__(self, name: str, lanes: int, on_load: OnLoad, on_store: OnStore) -> None:
        self.name = name
        self.lanes = lanes
        self.on_load = on_load
        self.on_store = on_store

    def run(self, s: Any, at: Where) -> Stmt:
        """The statement with what the callbacks gave."""
        cls = type(s)
        if cls is For:
            children = [self._expr(s.min, at), self._expr(s.extent, at)]
            return s.with_children([*children, self.run(s.body, at.loop(s, self.lanes))])  # type: ignore[no-any-return]
        if cls is LetStmt:
            value = self._expr(s.value, at)
            inner = at.let(s.name, s.value)
            if at.masked and value.type.lane_count > 1 and reads_memory(value):
                inner.stuck = f"{s.name} is a vector that some lanes must not read"
            return LetStmt(s.name, value, self.run(s.body, inner))
        if cls is IfThenElse:
            return self._branch(s, at)
        if cls is Store:
            return self._store(s, at)
        if cls is Allocate:
            if s.name == self.name:
                return s  # type: ignore[no-any-return]
            return s.with_body(self.run(s.body, self._allocated(s, at)))  # type: ignore[no-any-return]
        if cls in (Block, ProducerConsumer):
            return s.with_children([self.run(c, at) for c in s.children()])  # type: ignore[no-any-return]
        inner = at.child()
        inner.stuck = "an atomic update" if cls is Atomic else f"a {cls.__name__}"
        parts: list[Expr | Stmt] = [
            self._expr(c, inner) if isinstance(c, Expr) else self.run(c, inner)
            for c in s.children()
        ]
        return s.with_children(parts)  # type: ignore[no-any-return]

    def _allocated(self, s: Allocate, at: Where) -> Where:
        if not at.lanes:
            return at
        inner = at.child()
        inner.varying = at.varying.owning(s.name)
        return inner

    def _branch(self, s: IfThenElse, at: Where) -> Stmt:
        condition = self._expr(s.condition, at)
        then = self.run(s.then_case, at.when(s.condition))
        other = s.else_case
        if other is not None:
            other = self.run(other, at.when(build.logical_not(s.condition)))
        return IfThenElse(condition, then, other)

    def _store(self, s: Store, at: Where) -> Stmt:
        value, index = self._expr(s.value, at), self._expr(s.index, at)
        predicate = None if s.predicate is None else self._expr(s.predicate, at)
        if s.name != self.name:
            return Store(s.name, value, index, predicate, s.source, s.alignment)
        plain = Store(s.name, value, self.on_store(s, at))
        if predicate is None or build.is_const(predicate, 1):
            return plain
        return IfThenElse(predicate, plain)

    def _expr(self, e: Expr, at: Where) -> Expr:
        return _InExpr(self, at)(e)


class _InExpr(Rewriter):
    """Rewrites the loads of one expression."""

    def __init__(self, walk: LaneWalk, at: Where) -> None:
        super().__init__()
        self.walk = walk
        self.at = at

    def rewrite_Load(self, node: Load) -> Expr:
        if node.name == self.walk.name:
            return self.walk.on_load(node, self.at)
        return self.rebuild(node)  # type: ignore[no-any-return]

    def rewrite_Let(self, node: Let) -> Expr:
        value = self(node.value)
        body = _InExpr(self.walk, self.at.let(node.name, node.value))(node.body)
        return Let(node.name, value, body)


class OneByOne(Rewriter):
    """Loads and stores of vectors become such of their elements."""

    def __init__(self, name: str, fresh: Callable[[str], str]) -> None:
        super().__init__()
        self.name = name
        self.fresh = fresh

    def rewrite_Load(self, node: Load) -> Expr:
        load: Any = self.rebuild(node)
        if node.name != self.name or node.type.lane_count == 1:
            return load  # type: ignore[no-any-return]
        return concatenate([lane_of(load, k) for k in range(node.type.lane_count)])

    def rewrite_Store(self, node: Store) -> Stmt:
        store: Any = self.rebuild(node)
        lanes = node.value.type.lane_count
        if node.name != self.name or lanes == 1:
            return store  # type: ignore[no-any-return]
        value: Expr = Variable(store.value.type, self.fresh(f"{self.name}.values"))
        parts: list[Stmt] = []
        for k in range(lanes):
            index, part = lane_of(store.index, k), lane_of(value, k)
            predicate = None if store.predicate is None else lane_of(store.predicate, k)
            parts.append(Store(store.name, part, index, predicate, store.source))
        return LetStmt(value.name, store.value, build.block(parts))  # type: ignore[attr-defined]

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        return node if node.name == self.name else self.rebuild(node)  # type: ignore[no-any-return]


def touches(s: Any, name: str) -> bool:
    """Whether a statement loads or stores elements of a temporary."""
    seen: set[Any] = set()
    stack = [s]
    while stack:
        node = stack.pop()
        if node in seen or (type(node) is Allocate and node.name == name):
            continue
        seen.add(node)
        if isinstance(node, Load | Store) and node.name == name:
            return True
        stack.extend(node.children())
    return False
