"""Evenly spaced lanes: indices that are ramps, predicates that hold in the first lanes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.types import Int
from bayplan.targets.c_text import ADD, ATOM, Text, binary, call, cast
from bayplan.targets.c_vectors import uniform

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer

# What is added to the bound's distance from the ramp; the ramp is the first operand or the second.
_BEFORE: Final[dict[type, int]] = {E.LE: 1, E.LT: 0}
_AFTER: Final[dict[type, int]] = {E.GE: 1, E.GT: 0}


def find_ramp(w: Writer, index: E.Expr, first: int, lanes: int) -> tuple[E.Expr, E.Expr] | None:
    """Base and stride when the lanes of the index are evenly spaced, else None."""
    index = w.measure.resolve(index)
    cls = type(index)
    if cls is E.Ramp:
        assert isinstance(index, E.Ramp)
        inner = index.base.type.lane_count
        step = first // inner
        stride = index.stride
        if inner == 1:
            return build.add(index.base, build.mul(stride, build.const(stride.type, step))), stride
        if first % inner + lanes > inner:
            return None
        found = find_ramp(w, index.base, first % inner, lanes)
        outer = uniform(stride)
        if found is None or outer is None:
            return None
        return build.add(found[0], build.mul(outer, build.const(outer.type, step))), found[1]
    if cls is E.Broadcast:
        assert isinstance(index, E.Broadcast)
        inner = index.value.type.lane_count
        if inner == 1:
            return index.value, build.const(index.value.type, 0)
        if first % inner + lanes > inner:
            return None
        return find_ramp(w, index.value, first % inner, lanes)
    if cls is E.Add or cls is E.Sub:
        assert isinstance(index, E.Binary)
        a = find_ramp(w, index.a, first, lanes)
        b = find_ramp(w, index.b, first, lanes) if a is not None else None
        if a is None or b is None:
            return None
        make = build.add if cls is E.Add else build.sub
        return make(a[0], b[0]), make(a[1], b[1])
    return None


def leading_lanes(w: Writer, predicate: E.Expr, first: int, lanes: int) -> Text | None:
    """How many lanes of the piece hold, where those are the first ones by its form; else None."""
    if not holds_first(w, predicate):
        return None
    key = (leading_lanes, predicate, first, lanes)
    found = w.memo.get(key)
    if found is None:
        found = count_first(w, predicate, first, (str(lanes), ATOM))
        if "(" in found[0]:
            found = w.local("int32_t", found[0])
        w.memo[key] = found
    return found


def holds_first(w: Writer, e: E.Expr) -> bool:
    """Whether the lanes that hold are the first ones, by the form of the predicate."""
    e = w.measure.resolve(e)
    if isinstance(e, E.And):
        return holds_first(w, e.a) and holds_first(w, e.b)
    if isinstance(e, E.Variable):
        pieces = w.variable(e).pieces
        return pieces is not None and bool(pieces.leading)
    return _bounds(w, e) is not None


def _bounds(w: Writer, e: E.Expr) -> tuple[E.Expr, E.Expr, int] | None:
    """The start of a ramp of integers, what bounds it, and 1 where that value is still allowed."""
    cls = type(e)
    if cls in _BEFORE or cls in _AFTER:
        assert isinstance(e, E.Compare)
        ramp, bound = (e.a, e.b) if cls in _BEFORE else (e.b, e.a)
        limit = uniform(w.measure.resolve(bound))
        if limit is None or limit.type != Int(32):
            return None
        found = find_ramp(w, ramp, 0, e.type.lane_count)
        if found is not None and build.constant_value(found[1]) == 1:
            return found[0], limit, _BEFORE.get(cls, 0) + _AFTER.get(cls, 0)
    return None


def count_first(w: Writer, e: E.Expr, first: int, lanes: Text) -> Text:
    """The number of lanes, at most `lanes`; the function bp_leading puts it into that range."""
    e = w.measure.resolve(e)
    if isinstance(e, E.And):
        return count_first(w, e.a, first, count_first(w, e.b, first, lanes))
    if isinstance(e, E.Variable):
        pieces = w.variable(e).pieces
        assert pieces is not None
        if not first and lanes[0] == str(e.type.lane_count):
            return pieces.leading, ATOM
        offset = (str(first), ATOM)
        n = binary("-", ADD, (pieces.leading, ATOM), offset) if first else (pieces.leading, ATOM)
        return call("bp_leading", n, lanes)
    found = _bounds(w, e)
    assert found is not None
    start, limit, more = found
    if isinstance(start, E.Const) and isinstance(limit, E.Const) and lanes[0].isdigit():
        known = int(limit.value) - int(start.value) + more - first
        return str(min(max(known, 0), int(lanes[0]))), ATOM
    n = binary("-", ADD, cast("int64_t", w.stable_scalar(limit)), w.stable_scalar(start))
    if more > first:
        n = binary("+", ADD, n, (str(more - first), ATOM))
    elif more < first:
        n = binary("-", ADD, n, (str(first - more), ATOM))
    return call("bp_leading", n, lanes)
