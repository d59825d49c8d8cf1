"""Looks over a statement's expressions before they are written: uses, widths, strided loads."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir import build
from bayplan.ir.exprs import (
    Add,
    Broadcast,
    Call,
    CallKind,
    Const,
    Div,
    Expr,
    Let,
    Load,
    Mod,
    Ramp,
    Shuffle,
    Variable,
    VectorReduce,
)
from bayplan.ir.types import Type
from bayplan.ir.walk import substitute
from bayplan.targets.expand_intrinsics import expand_intrinsics

# Intrinsics that the rules write themselves when their types allow it.
_KEPT: Final = frozenset(["absd", "rounding_halving_add", "halving_add", "saturating_add",
                          "saturating_sub", "fma", "mul_shift_right"])
_MAX_DENSE_STRIDE: Final = 4


class Measure:
    """What `Writer` must know of a statement.

    Attributes:
        uses: how often a node is an operand.
        widest_bytes: bytes of the widest lane of any vector that is computed.
        lets: values of the Lets inside expressions.
        windows: for a strided load the window of dense elements it shares with others.
    """

    def __init__(self) -> None:
        self.uses: dict[Expr, int] = {}
        self.widest_bytes = 1
        self.lets: dict[str, Expr] = {}
        self._resolved: dict[Expr, Expr] = {}
        self._lanes: dict[tuple[Expr, int], Expr] = {}
        self._strided: dict[Any, list[int]] = {}

    def add(self, *roots: Expr) -> None:
        """Counts the nodes of the expressions; common nodes once."""
        uses = self.uses
        stack = [self.resolve(e) for e in roots]
        for e in stack:
            uses[e] = uses.get(e, 0) + 1
        seen: set[Expr] = set()
        while stack:
            e = stack.pop()
            if e in seen:
                continue
            seen.add(e)
            children = self._children(e)
            for child in children:
                child = self.resolve(child)
                uses[child] = uses.get(child, 0) + 1
                if child not in seen:
                    stack.append(child)

    def _children(self, e: Expr) -> tuple[Any, ...]:
        cls = type(e)
        if e.type.lane_count > 1:
            if cls is Ramp or cls is Broadcast:
                return e.children()
            width = _computed_bytes(e)
            if width > self.widest_bytes:
                self.widest_bytes = width
            if cls is Load:
                return self._load_children(e)  # type: ignore[arg-type]
        return e.children()

    def _load_children(self, e: Load) -> tuple[Any, ...]:
        index = self.resolve(e.index)
        if type(index) is Ramp and index.base.type.lane_count == 1:
            stride = build.constant_value(index.stride)
            if stride is not None and 2 <= stride <= _MAX_DENSE_STRIDE and e.predicate is None:
                base, offset = split_offset(index.base)
                key = (e.name, e.type, int(stride), base)
                self._strided.setdefault(key, []).append(offset)
        elif type(index) is not Broadcast:
            self.widest_bytes = max(self.widest_bytes, index.type.bytes())
        return e.children()

    def window(self, e: Load, stride: int, base: Expr, offset: int) -> tuple[int, int]:
        """The least and the greatest offset of the strided loads that share dense loads with e."""
        offsets = self._strided.get((e.name, e.type, stride, base))
        if not offsets:
            return offset, offset
        low = high = offset
        # Windows of at most `stride` neighbours, laid from the least offset on.
        ordered = sorted(set(offsets))
        start = ordered[0]
        for o in ordered:
            if o - start >= stride:
                start = o
            if start <= offset < start + stride and start <= o < start + stride:
                low, high = min(low, start), max(high, o)
        return low, high

    # The form in which a node is written

    def resolve(self, e: Expr) -> Expr:
        """The node itself, or the simpler one that stands for it."""
        cls = type(e)
        if cls is not Call and cls is not Let and cls is not Variable:
            return e
        found = self._resolved.get(e)
        if found is None:
            found = self._resolve(e)
            self._resolved[e] = found
        return found

    def _resolve(self, e: Expr) -> Expr:
        cls = type(e)
        if cls is Let:
            return self._bind(e)  # type: ignore[arg-type]
        if cls is Variable:
            value = self.lets.get(e.name)  # type: ignore[attr-defined]
            return e if value is None else self.resolve(value)
        assert isinstance(e, Call)
        if e.kind is CallKind.INTRINSIC or e.kind is CallKind.PURE_INTRINSIC:
            if e.name in _KEPT and keeps_intrinsic(e):
                return e
            expanded = expand_intrinsics(e)
            if expanded is not None:
                return self.resolve(expanded)
        return e

    def _bind(self, e: Let) -> Expr:
        known = self.lets.get(e.name)
        body = e.body
        if known is not None and known is not e.value:
            fresh = Variable(e.value.type, f"{e.name}.{len(self.lets)}")
            body = substitute({e.name: fresh}, body)
            self.lets[fresh.name] = e.value
        else:
            self.lets[e.name] = e.value
        return self.resolve(body)

    def lane(self, e: Expr, k: int) -> Expr:
        """Lane k of a vector expression as a scalar expression."""
        key = (e, k)
        found = self._lanes.get(key)
        if found is None:
            found = self._lanes[key] = self._lane(self.resolve(e), k)
        return found

    def _lane(self, e: Expr, k: int) -> Expr:
        cls = type(e)
        t = e.type
        if t.lane_count == 1:
            return e
        if isinstance(e, Broadcast):
            return self.lane(e.value, k % e.value.type.lane_count)
        if isinstance(e, Ramp):
            inner = e.base.type.lane_count
            base, stride = self.lane(e.base, k % inner), self.lane(e.stride, k % inner)
            step = k // inner
            return build.add(base, build.mul(stride, build.const(stride.type, step)))
        if isinstance(e, Shuffle):
            at = e.indices[k]
            for v in e.vectors:
                if at < v.type.lane_count:
                    return self.lane(v, at)
                at -= v.type.lane_count
        if isinstance(e, Load):
            predicate = None if e.predicate is None else self.lane(e.predicate, k)
            return Load(t.element_of(), e.name, self.lane(e.index, k), predicate, e.source)
        if isinstance(e, Call):
            args = tuple([self.lane(a, k) for a in e.args])
            return Call(t.element_of(), e.name, args, e.kind, e.target, e.value_index)
        if isinstance(e, Const):
            return e
        if isinstance(e, VectorReduce):
            factor = e.value.type.lane_count // e.lanes
            part = Shuffle((e.value,), tuple(range(k * factor, (k + 1) * factor)))
            return VectorReduce(e.op, part, 1)
        if cls is Variable:
            return Shuffle((e,), (k,))
        if cls.__name__ == "Cast":
            from bayplan.ir.exprs import Cast

            return Cast(t.element_of(), self.lane(e.value, k))  # type: ignore[attr-defined]
        children = [self.lane(c, k) for c in e.children()]  # type: ignore[arg-type]
        return e.with_children(children)  # type: ignore[return-value]


def split_offset(base: Expr) -> tuple[Expr, int]:
    """The index without the constant added to it, and that constant."""
    if type(base) is Add and type(base.b) is Const:
        return base.a, int(base.b.value)
    if type(base) is Const:
        return build.const(base.type, 0), int(base.value)
    return base, 0


def keeps_intrinsic(e: Call) -> bool:
    """Whether the rules have an own form for the call's type."""
    t = e.type
    if e.name == "fma":
        return t.kind == "float"
    if e.name == "mul_shift_right":
        shift = e.args[2]
        value = shift.value if isinstance(shift, Broadcast) else shift
        return (
            t.lane_count > 1
            and t.width == 16
            and e.args[0].type is t
            and e.args[1].type is t
            and build.constant_value(value) == 16
        )
    return t.lane_count > 1 and t.kind in ("int", "uint") and t.width in (8, 16)


def _computed_bytes(e: Expr) -> int:
    """Bytes of the widest lane that computing this one node takes."""
    t: Type = e.type
    cls = type(e)
    if t.width == 1:
        if cls is Load:
            return 1
        # A comparison's mask has the width of its operands, which are counted themselves.
        return 1
    if t.kind == "float" and t.width == 16:
        return 4
    if (cls is Div or cls is Mod) and t.width == 8:
        return 2
    if cls is Call and e.name in ("rounding_halving_add",):  # type: ignore[attr-defined]
        return t.bytes()
    return t.bytes()
