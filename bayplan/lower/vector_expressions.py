"""Expressions of scalars turned into expressions of vectors, for vectorize_loops."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import (
    Add,
    Binary,
    Broadcast,
    Call,
    CallKind,
    Cast,
    Expr,
    Let,
    Load,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Variable,
)
from bayplan.ir.node import Node
from bayplan.ir.stmts import LetStmt
from bayplan.ir.walk import Rewriter, iterate
from bayplan.lower.lanes import concatenate, lane_of, rebuild_binary

_SCALAR_CALLS = frozenset([CallKind.EXTERN, CallKind.INTRINSIC])


def widen(e: Expr, lanes: int) -> Expr:
    """The value in `lanes` lanes: itself, or repeated."""
    have = e.type.lane_count
    if have == lanes:
        return e
    if lanes % have:
        raise InternalError(f"{have} lanes cannot become {lanes}")
    return Broadcast(e, lanes // have)


def combine(cls: type[Expr], a: Expr, b: Expr) -> Expr:
    """A binary node of vectors; ramps and broadcasts stay ramps and broadcasts."""
    if a.type.lane_count > 1:
        kind_a, kind_b = type(a), type(b)
        if kind_b is Broadcast and kind_a in (Ramp, Broadcast):
            b = _broadcast_as(b, a.lanes)  # type: ignore[attr-defined]
        if kind_a is Broadcast and kind_b in (Ramp, Broadcast):
            a = _broadcast_as(a, b.lanes)  # type: ignore[attr-defined]
        if kind_a is Broadcast and kind_b is Broadcast and a.lanes == b.lanes:
            return Broadcast(combine(cls, a.value, b.value), a.lanes)
        if cls in (Add, Sub, Mul) and a.type.is_int():
            if kind_a is Ramp and kind_b is Broadcast and a.lanes == b.lanes:
                stride = combine(Mul, a.stride, b.value) if cls is Mul else a.stride
                return _ramp(combine(cls, a.base, b.value), stride, a.lanes)
            if kind_a is Broadcast and kind_b is Ramp and a.lanes == b.lanes:
                stride = b.stride
                if cls is Mul:
                    stride = combine(Mul, a.value, stride)
                elif cls is Sub:
                    stride = combine(Sub, build.const(stride.type, 0), stride)
                return _ramp(combine(cls, a.value, b.base), stride, a.lanes)
            if kind_a is Ramp and kind_b is Ramp and a.lanes == b.lanes and cls is not Mul:
                stride = combine(cls, a.stride, b.stride)
                return _ramp(combine(cls, a.base, b.base), stride, a.lanes)
    return rebuild_binary(cls, a, b)


def _broadcast_as(e: Broadcast, lanes: int) -> Broadcast:
    """A broadcast scalar as a broadcast to `lanes` of a broadcast, where the product allows it."""
    if e.lanes == lanes or e.value.type.lane_count > 1 or e.lanes % lanes:
        return e
    return Broadcast(build.broadcast(e.value, e.lanes // lanes), lanes)


def _ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    return Broadcast(base, lanes) if build.is_zero(stride) else Ramp(base, stride, lanes)


def convert(node: Cast, value: Expr) -> Expr:
    """The conversion of `node` of a vector value; a ramp stays a ramp where it is exact."""
    t = node.type.element_of().with_lanes(value.type.lane_count)
    if type(value) is Ramp and t.is_int() and value.type.is_int() and t.width > value.type.width:
        element = t.with_lanes(value.base.type.lane_count)
        return Ramp(build.cast(element, value.base), build.cast(element, value.stride), value.lanes)
    return build.cast(t, value)


class PredicateLoads(Rewriter):
    """Adds a condition to all vector loads of an expression that is only used where it holds."""

    def __init__(self, condition: Expr) -> None:
        super().__init__()
        self.condition = condition

    def rewrite_Load(self, node: Load) -> Expr:
        index = self(node.index)
        if index.type.lane_count != self.condition.type.lane_count:
            return self.rebuild(node)
        predicate = self.condition
        if node.predicate is not None:
            predicate = build.logical_and(self(node.predicate), predicate)
        return Load(node.type, node.name, index, predicate, node.source, node.alignment)


def loads(e: Node, names: set[str]) -> bool:
    """Whether the node reads one of the allocations."""
    return any(type(node) is Load and node.name in names for node in iterate(e))


class VectorizedExpressions(Rewriter):
    """Rewrites expressions under vectorised loops.

    Attributes:
        replacements: name of a vectorised loop variable, or of its lane number, to its vector.
        scope: name of a let whose value became a vector to that vector, or to its new variable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replacements: dict[str, Expr] = {}
        self.scope: dict[str, Expr] = {}

    def suffix(self) -> str:
        """What is added to the names of lets that become vectors."""
        return ".vector"

    def bind(self, name: str, vector: Expr) -> bool:
        """Let the scalar `name` stand for `vector`; whether it needs a let of its own."""
        self.forget()
        if type(vector) in (Ramp, Broadcast) and not any(
            type(n) is Load or type(n) is Shuffle for n in iterate(vector)
        ):
            self.scope[name] = vector
            return False
        self.scope[name] = Variable(vector.type, name + self.suffix())
        return True

    def unbind(self, name: str, before: Expr | None) -> None:
        """End the meaning that `bind` gave to the name."""
        self.forget()
        if before is None:
            self.scope.pop(name, None)
        else:
            self.scope[name] = before

    def rewrite_Variable(self, node: Variable) -> Expr:
        found = self.replacements.get(node.name)
        if found is None:
            found = self.scope.get(node.name)
        return node if found is None else found

    def rebuild(self, node: Any) -> Any:
        if not isinstance(node, Expr):
            return super().rebuild(node)
        children = node.children()
        if not children:
            return node
        new = [self(child) for child in children]
        changed = False
        lanes = 1
        for old, child in zip(children, new, strict=True):
            changed = changed or child is not old
            lanes = max(lanes, child.type.lane_count)
        if not changed:
            return node
        if lanes == 1:
            return node.with_children(new)
        if node.type.lane_count > 1:
            raise InternalError(f"a vector {type(node).__name__} stands in a vectorised loop")
        return self._of_vectors(node, new, lanes)

    def _of_vectors(self, node: Any, new: list[Expr], lanes: int) -> Expr:
        cls = type(node)
        if cls is Call:
            return self._call_of_vectors(node, new, lanes)
        new = [widen(child, lanes) for child in new]
        if isinstance(node, Binary):
            return combine(cls, new[0], new[1])
        if cls is Cast:
            return convert(node, new[0])
        if cls is Not:
            return build.logical_not(new[0])
        if cls is Select:
            return build.select(new[0], new[1], new[2])
        if cls is Load:
            predicate = new[1] if len(new) > 1 else None
            t = node.type.with_lanes(lanes)
            return Load(t, node.name, new[0], predicate, node.source)
        raise InternalError(f"a {cls.__name__} stands in a vectorised loop")

    def _call_of_vectors(self, node: Call, new: list[Expr], lanes: int) -> Expr:
        wide = [arg if type(arg) is StringImm else widen(arg, lanes) for arg in new]
        t = node.type.with_lanes(lanes)
        if node.is_intrinsic("if_then_else"):
            condition = wide[0]
            taken = PredicateLoads(condition)(wide[1])
            if len(wide) == 2:
                return taken
            return build.select(
                condition, taken, PredicateLoads(build.logical_not(condition))(wide[2])
            )
        if node.kind not in _SCALAR_CALLS or node.name == "undef":
            return Call(t, node.name, tuple(wide), node.kind, node.target, node.value_index)
        # One call per lane: each has its own effect, in the order of the lanes.
        calls: list[Expr] = []
        for lane in range(lanes):
            args = [arg if type(arg) is StringImm else lane_of(arg, lane) for arg in wide]
            calls.append(
                Call(node.type, node.name, tuple(args), node.kind, node.target, node.value_index)
            )
        return concatenate(calls)

    def keep_let(self, node: Let | LetStmt, value: Expr) -> Node:
        """The let of a value that is the same in all lanes, which hides a vector of its name."""
        before = self.scope.get(node.name)
        if before is not None:
            self.unbind(node.name, None)
        body = self(node.body)
        if before is not None:
            self.unbind(node.name, before)
        if value is node.value and body is node.body:
            return node
        return type(node)(node.name, value, body)  # type: ignore[arg-type]

    def rewrite_Let(self, node: Let) -> Expr:
        value = self(node.value)
        if value.type.lane_count == node.value.type.lane_count:
            return self.keep_let(node, value)  # type: ignore[return-value]
        before = self.scope.get(node.name)
        value = simplify(value)
        named = self.bind(node.name, value)
        body = self(node.body)
        self.unbind(node.name, before)
        return Let(node.name + self.suffix(), value, body) if named else body
