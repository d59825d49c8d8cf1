"""Loads and stores: which bytes of memory a piece of a vector comes from and goes to.

Nothing is read or written beyond the elements that the program names: temporaries have exactly
the bytes they need, and so have the user's buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.types import Type
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_masked import load_first, masked, store_first
from bayplan.targets.c_ramps import find_ramp, leading_lanes
from bayplan.targets.c_shuffles import merge_lanes
from bayplan.targets.c_text import ADD, ATOM, BIT, CHOICE, Text, binary, call, cast, wrap
from bayplan.targets.c_vectors import half, uniform
from bayplan.targets.measure_statement import split_offset

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer

_MAX_DENSE_STRIDE = 4


def load_scalar(w: Writer, e: E.Load) -> Text:
    """One element."""
    text = _element(w, e.name, e.index)
    t = e.type
    if t.width == 1:
        text = f"({text} != 0)"
    elif half(t):
        text = f"bp_half_to_float({text})"
    if e.predicate is not None:
        condition = w.scalar(e.predicate)
        return f"{wrap(condition, ADD)} ? {text} : 0", CHOICE
    return text, ATOM


def _element(w: Writer, name: str, index: E.Expr) -> str:
    return f"{_pointer(w, name)}[{w.scalar(index)[0]}]"


def _pointer(w: Writer, name: str) -> str:
    found = w.lookup(name)
    if found is None:
        from bayplan.ir.errors import InternalError

        raise InternalError(f"the lowered program accesses {name!r}, which is not allocated")
    return found.text


def _address(w: Writer, name: str, index: E.Expr) -> Text:
    """The address of an element.

    A constant offset is added in 64 bits, after the index is widened: so it becomes part of the
    machine's address, and accesses that differ by it share the index.
    """
    pointer: Text = (_pointer(w, name), ATOM)
    rest, offset = split_offset(index)
    if type(rest) is E.Const and rest.value == 0:
        if not offset:
            return pointer
        sign = "+" if offset > 0 else "-"
        return f"{pointer[0]} {sign} {abs(offset)}", ADD
    text = w.stable_scalar(rest)
    if offset:
        if rest.type.width < 64:
            text = cast("int64_t", text)
        text = binary("+" if offset > 0 else "-", ADD, text, (str(abs(offset)), ATOM))
    return binary("+", ADD, pointer, text)


def _plus(base: E.Expr, offset: int) -> E.Expr:
    if not offset:
        return base
    rest, constant = split_offset(base)
    return build.add(rest, build.const(base.type, constant + offset))


def memory_vector(t: Type, lanes: int) -> VectorType:
    """How the lanes lie in memory."""
    if t.width == 1:
        return VectorType("uint", 8, lanes)
    if half(t):
        return VectorType("uint", 16, lanes)
    if t.kind == "handle":
        return VectorType("uint", 64, lanes)
    return VectorType(t.kind, t.width, lanes)


def load_vector(w: Writer, e: E.Load, first: int, lanes: int) -> Text:
    """Consecutive lanes of a vector load; bools as bytes."""
    t = e.type
    v = memory_vector(t, lanes)
    text = _load_memory(w, e, v, first, lanes)
    if half(t):
        f = VectorType("float", 32, lanes)
        name = f"half_to_float_{f.name}"
        w.helpers.per_lane(name, v, f, 1, "bp_half_to_float(a[k])")
        return call(name, text)
    return text


def _load_memory(w: Writer, e: E.Load, v: VectorType, first: int, lanes: int) -> Text:
    ramp = find_ramp(w, e.index, first, lanes)
    if e.predicate is not None and not _all_true(e.predicate):
        return _load_masked(w, e, v, ramp, first, lanes)
    if ramp is not None:
        base, stride = ramp
        step = build.constant_value(stride)
        if step == 0:
            return call(w.helpers.all(v), (_element(w, e.name, base), ATOM))
        if step == 1:
            return call(w.helpers.load(v), _address(w, e.name, base))
        if step == -1:
            low = _plus(base, 1 - lanes)
            text = call(w.helpers.load(v), _address(w, e.name, low))
            return call(w.helpers.shuffle(v, tuple(range(lanes - 1, -1, -1))), text, text)
        if step is not None and 2 <= step <= _MAX_DENSE_STRIDE and lanes >= 4:
            return _load_strided(w, e, v, base, int(step), lanes)
        if stride.type.lane_count == 1:
            name = w.helpers.strided_load(v)
            return call(name, _address(w, e.name, base), w.stable_scalar(stride))
    index = w.vector_type(e.index.type, lanes)
    name = w.helpers.gather(v, index)
    return call(name, (_pointer(w, e.name), ATOM), w.vector(e.index, first, lanes))


def _all_true(predicate: E.Expr) -> bool:
    value = uniform(predicate) if predicate.type.lane_count > 1 else predicate
    return isinstance(value, E.Const) and bool(value.value)


def _load_masked(
    w: Writer,
    e: E.Load,
    v: VectorType,
    ramp: tuple[E.Expr, E.Expr] | None,
    first: int,
    lanes: int,
) -> Text:
    assert e.predicate is not None
    if ramp is not None and build.constant_value(ramp[1]) == 1:
        count = leading_lanes(w, e.predicate, first, lanes)
        if count is not None:
            return call(load_first(w.helpers, v), _address(w, e.name, ramp[0]), count)
        m = w.mask(e.predicate, first, lanes, v.width)
        return call(masked(w.helpers, "load", v, None), _address(w, e.name, ramp[0]), m)
    m = w.mask(e.predicate, first, lanes, v.width)
    index = w.vector_type(e.index.type, lanes)
    name = masked(w.helpers, "gather", v, index)
    return call(name, (_pointer(w, e.name), ATOM), w.vector(e.index, first, lanes), m)


def _load_strided(
    w: Writer, e: E.Load, v: VectorType, base: E.Expr, stride: int, lanes: int
) -> Text:
    """Every stride-th element through dense loads, which neighbours of the statement share.

    The dense loads end with the last element that is read.
    """
    rest, offset = split_offset(base)
    original = w.measure.resolve(e.index)
    assert isinstance(original, E.Ramp) or original is not None
    low, high = offset, offset
    if isinstance(original, E.Ramp) and original.base.type.lane_count == 1:
        start, first_offset = split_offset(original.base)
        low, high = w.measure.window(e, stride, start, first_offset)
        low, high = low + offset - first_offset, high + offset - first_offset
    width = high - low + stride * (lanes - 1) + 1  # elements of the window
    count = (width + lanes - 1) // lanes
    starts = [min(j * lanes, width - lanes) for j in range(count)]
    texts = []
    for s in starts:
        key = (e.name, rest, low + s, v.name)
        text = w.memo.get(key)
        if text is None:
            text = call(w.helpers.load(v), _address(w, e.name, _plus(rest, low + s)))
            text = w.memo[key] = w.local(v.name, text[0])
        texts.append(text)
    where = []
    for k in range(lanes):
        at = offset - low + stride * k
        p = min(at // lanes, count - 1)
        if at < starts[p]:
            p -= 1
        where.append((p, at - starts[p]))
    return merge_lanes(w, v, texts, where)


# Stores


def store_scalar(w: Writer, name: str, index: E.Expr, value: E.Expr) -> None:
    """Writes one element."""
    t = value.type
    text = w.scalar(value)
    if half(t):
        text = call("bp_float_to_half", text)
    w.line(f"{_element(w, name, index)} = {text[0]};")


def memory_value(w: Writer, value: E.Expr, first: int, lanes: int) -> Text:
    """A piece of a vector in the form it has in memory."""
    t = value.type
    if t.width == 1:
        byte = VectorType("uint", 8, lanes)
        ones = binary("&", BIT, w.mask(value, first, lanes, 8), ("1", ATOM))
        return f"({w.helpers.type(byte)})({ones[0]})", 1
    text = w.vector(value, first, lanes)
    if half(t):
        f, m = VectorType("float", 32, lanes), VectorType("uint", 16, lanes)
        name = f"float_to_half_{f.name}"
        w.helpers.per_lane(name, f, m, 1, "bp_float_to_half(a[k])")
        return call(name, text)
    return text


def store_vector(
    w: Writer,
    name: str,
    t: Type,
    index: E.Expr,
    predicate: E.Expr | None,
    value: Text,
    first: int,
    lanes: int,
) -> None:
    """Writes a piece of a vector that `memory_value` made."""
    v = memory_vector(t, lanes)
    ramp = find_ramp(w, index, first, lanes)
    step = None if ramp is None else build.constant_value(ramp[1])
    if predicate is not None and not _all_true(predicate):
        count = leading_lanes(w, predicate, first, lanes) if ramp and step == 1 else None
        if ramp is not None and count is not None:
            helper = store_first(w.helpers, v)
            text = call(helper, _address(w, name, ramp[0]), value, count)
        elif ramp is not None and step == 1:
            m = w.mask(predicate, first, lanes, v.width)
            helper = masked(w.helpers, "store", v, None)
            text = call(helper, _address(w, name, ramp[0]), value, m)
        else:
            m = w.mask(predicate, first, lanes, v.width)
            indices = w.vector_type(index.type, lanes)
            helper = masked(w.helpers, "scatter", v, indices)
            pointer = (_pointer(w, name), ATOM)
            text = call(helper, pointer, w.vector(index, first, lanes), value, m)
        w.line(text[0] + ";")
        return
    if ramp is not None and step == 1:
        w.line(call(w.helpers.store(v), _address(w, name, ramp[0]), value)[0] + ";")
    elif ramp is not None and step == -1:
        low = _address(w, name, _plus(ramp[0], 1 - lanes))
        value = w.local(w.helpers.type(v), value[0])
        turned = call(w.helpers.shuffle(v, tuple(range(lanes - 1, -1, -1))), value, value)
        w.line(call(w.helpers.store(v), low, turned)[0] + ";")
    elif ramp is not None and ramp[1].type.lane_count == 1:
        helper = w.helpers.strided_store(v)
        address = _address(w, name, ramp[0])
        w.line(call(helper, address, w.stable_scalar(ramp[1]), value)[0] + ";")
    else:
        helper = w.helpers.scatter(v, w.vector_type(index.type, lanes))
        pointer = (_pointer(w, name), ATOM)
        w.line(call(helper, pointer, w.vector(index, first, lanes), value)[0] + ";")
