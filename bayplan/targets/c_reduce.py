"""Horizontal reductions: groups of adjacent lanes joined to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_text import EQUAL, LOGIC, Text, binary, call

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer

_NODES: Final = {
    E.ReduceOp.ADD: build.add,
    E.ReduceOp.MUL: build.mul,
    E.ReduceOp.MIN: build.minimum,
    E.ReduceOp.MAX: build.maximum,
    E.ReduceOp.AND: build.logical_and,
    E.ReduceOp.OR: build.logical_or,
}

_STEPS: Final[dict[E.ReduceOp, Callable[[str, str], str]]] = {
    E.ReduceOp.ADD: lambda r, x: f"{r} + {x}",
    E.ReduceOp.MUL: lambda r, x: f"{r} * {x}",
    E.ReduceOp.MIN: lambda r, x: f"{r} < {x} ? {r} : {x}",
    E.ReduceOp.MAX: lambda r, x: f"{r} > {x} ? {r} : {x}",
}


def _join(op: E.ReduceOp, a: E.Expr, b: E.Expr) -> E.Expr:
    if op is E.ReduceOp.SATURATING_ADD:
        return build.intrinsic(a.type, "saturating_add", a, b)
    return _NODES[op](a, b)


def reduce_to_scalar(w: Writer, e: E.VectorReduce) -> Text:
    """All lanes joined to one."""
    value = w.measure.resolve(e.value)
    total = value.type.lane_count
    if total == 1:
        return w.scalar(value)
    if value.type.width == 1:
        return _reduce_bools(w, e, value)
    if total & (total - 1) or w.lane_by_lane or e.op is E.ReduceOp.SATURATING_ADD:
        return _fold(w, e.op, [w.measure.lane(value, k) for k in range(total)])
    cap = min(w.cap(), total)
    chunks = w.chunks(total, cap)
    if len(chunks) > 1:
        # Whole pieces are joined first.
        while total > cap:
            total //= 2
            low = E.Shuffle((value,), tuple(range(total)))
            high = E.Shuffle((value,), tuple(range(total, 2 * total)))
            value = _join(e.op, low, high)
    v = w.vector_type(value.type, total)
    text = w.vector(value, 0, total)
    return call(_helper(w, v, e), text)


def _helper(w: Writer, v: VectorType, e: E.VectorReduce) -> str:
    name = f"reduce_{e.op.value}_{v.name}"
    w.helpers.type(v)
    c = scalar_type(e.type.element_of())
    step = _STEPS[e.op]

    def make() -> str:
        body = []
        # Halves are joined as vectors until two lanes are left.
        current = v
        source = "a"
        while current.lanes > 2:
            n = current.lanes // 2
            narrow = VectorType(v.kind, v.width, n)
            low = w.helpers.shuffle(current, tuple(range(n)))
            high = w.helpers.shuffle(current, tuple(range(n, 2 * n)))
            body.append(
                f"    const {w.helpers.type(narrow)} x{n} = {low}({source}, {source}), "
                f"y{n} = {high}({source}, {source});"
            )
            body.append(f"    {narrow.name} r{n};")
            lane = step(f"x{n}[k]", f"y{n}[k]")
            if e.op in (E.ReduceOp.ADD, E.ReduceOp.MUL):
                sign = "+" if e.op is E.ReduceOp.ADD else "*"
                body.append(f"    r{n} = x{n} {sign} y{n};")
            else:
                body.append(f"    for (int k = 0; k < {n}; k++) r{n}[k] = {lane};")
            source, current = f"r{n}", narrow
        last = step(f"{source}[0]", f"{source}[1]")
        body.append(f"    return ({c})({last});")
        text = "\n".join(body)
        return f"BP_INLINE {c} {name}({v.name} a) {{\n{text}\n}}"

    return w.helpers.function(name, make)


def _fold(w: Writer, op: E.ReduceOp, lanes: list[E.Expr]) -> Text:
    w.many_chunks = True
    total = lanes[0]
    for lane in lanes[1:]:
        total = _join(op, total, lane)
        w.stable_scalar(total)
    return w.scalar(total)


def _reduce_bools(w: Writer, e: E.VectorReduce, value: E.Expr) -> Text:
    """Whether all lanes, or some, are true."""
    from bayplan.targets.c_masks import mask_width

    every = e.op in (E.ReduceOp.AND, E.ReduceOp.MIN, E.ReduceOp.MUL)
    total = value.type.lane_count
    width = mask_width(w, value)
    cap = max(2, w.unit.register_bytes // (width // 8))
    result: Text | None = None
    for first, lanes in w.chunks(total, min(cap, w.cap())):
        if lanes == 1:
            part = w.scalar(w.measure.lane(value, first))
        else:
            v = VectorType("int", width, lanes)
            part = call(_bool_helper(w, v, every), w.mask(value, first, lanes, width))
        result = part if result is None else binary("&&" if every else "||", LOGIC, result, part)
    assert result is not None
    return result if result[1] <= EQUAL else (f"({result[0]})", 0)


def _bool_helper(w: Writer, v: VectorType, every: bool) -> str:
    name = f"{'every' if every else 'some'}_{v.name}"
    w.helpers.type(v)
    op, start = ("&=", "-1") if every else ("|=", "0")
    return w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE bool {name}({v.name} a) {{\n"
            f"    {v.element} r = {start};\n"
            f"    for (int k = 0; k < {v.lanes}; k++) r {op} a[k];\n"
            "    return r != 0;\n}"
        ),
    )


def reduce_to_vector(w: Writer, e: E.VectorReduce, first: int, lanes: int) -> Text:
    """Groups joined to several lanes: the k-th members of all groups at a time."""
    factor = e.value.type.lane_count // e.lanes
    total: E.Expr | None = None
    for j in range(factor):
        indices = tuple([(first + k) * factor + j for k in range(lanes)])
        part = E.Shuffle((e.value,), indices)
        total = part if total is None else _join(e.op, total, part)
    assert total is not None
    return w.vector(total, 0, lanes)
