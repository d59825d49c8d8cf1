"""Bounds and regions of the forms that pipelines consist of."""

from __future__ import annotations

import pytest

from bayplan.analysis.bounds import (
    bounds_of_expr_in_scope,
    box_required,
    box_touched,
    boxes_provided,
    boxes_required,
    compute_func_value_bounds,
    find_constant_bound,
)
from bayplan.analysis.box import Box, intersect, merge
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    block,
    cast,
    clamp,
    const,
    eq,
    ge,
    int32,
    intrinsic,
    likely,
    logical_and,
    lt,
    maximum,
    minimum,
    select,
    var,
)
from bayplan.ir.exprs import Call, CallKind, Expr, Let
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import For, IfThenElse, LetStmt, Provide, Stmt
from bayplan.ir.types import FLOAT32, INT32, Int, Type, UInt

x, y, n, w, x0, x1 = (var(name) for name in ("x", "y", "n", "w", "x0", "x1"))
SCOPE = {"x": Interval(x0, x1), "y": Interval(int32(0), int32(9))}


def call(name: str, *args: Expr, t: Type = INT32) -> Call:
    return Call(t, name, args, CallKind.FUNC)


def loop(name: str, low: int | Expr, extent: int | Expr, body: Stmt) -> For:
    low, extent = (e if isinstance(e, Expr) else int32(e) for e in (low, extent))
    return For(name, low, extent, ForKind.Serial, Partition.Auto, body)


def text(interval: Interval) -> tuple[str, str]:
    return str(interval.min), str(interval.max)


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (x + 1, "x0 + 1", "x1 + 1"),
        (x - x, "0", "0"),
        (x + 8 - x % 8, "x0 / 8 * 8 + 8", "x1 / 8 * 8 + 8"),
        (y * 2 - x, "0 - x1", "18 - x0"),
        (y % 4, "0", "3"),
        (y % 16, "0", "9"),
        ((y + 3) // 4, "0", "3"),
        (clamp(x, 0, n), "max(min(x0, n), 0)", "max(min(x1, n), 0)"),
        (cast(INT32, call("g", x, t=UInt(8))) * 2, "0", "510"),
        (cast(INT32, cast(UInt(8), x)), "0", "255"),
        (call("g", x), "None", "None"),
        (intrinsic(INT32, "shift_right", y, int32(1)), "0", "4"),
        (cast(INT32, intrinsic(UInt(32), "abs", y - 4)), "0", "5"),
        (likely(y) + 1, "1", "10"),
        (Let("t", x + y, var("t") - y), "x0", "x1"),
        (select(lt(x, n), x, n - 1), "min(n, x0 + 1) - 1", "min(n, x1 + 1) - 1"),
    ],
)
def test_interval(e: Expr, low: str, high: str) -> None:
    found = bounds_of_expr_in_scope(e, SCOPE)
    want = (low, high)
    got = text(found)
    for g, expected in zip(got, want, strict=True):
        assert g == expected or sorted(g) == sorted(expected), (str(e), got)


def test_float_guards_bound_indices() -> None:
    value = maximum(minimum(call("h", x, t=FLOAT32) * 255.0, 255.0), 0.0)
    assert text(bounds_of_expr_in_scope(cast(INT32, value), SCOPE)) == ("0", "255")


def test_constant_bounds() -> None:
    scope = {"x": Interval(int32(0), int32(7))}
    assert find_constant_bound(x * 4 + 3, "upper", scope) is int32(31)
    assert find_constant_bound(x * 4 + 3, "lower", scope) is int32(3)
    assert find_constant_bound(minimum(n, 64), "upper", scope) is int32(64)
    assert find_constant_bound(n + x, "upper", scope) is None


def test_a_stencil_needs_its_reach() -> None:
    box = box_required(call("f", x - 1, y) + call("f", x + 1, y + 2), "f", SCOPE)
    assert box is not None and box.used is None
    assert text(box[0]) == ("x0 - 1", "x1 + 1")
    assert text(box[1]) == ("0", "11")
    assert box[0].max is not None and box[0].min is not None
    extent = simplify(box[0].max - box[0].min + 1 - (x1 - x0))
    assert extent is int32(3)


def test_calls_inside_of_coordinates() -> None:
    boxes = boxes_required(call("f", cast(INT32, call("g", x, t=UInt(8)))), SCOPE)
    assert text(boxes["g"][0]) == ("x0", "x1")
    assert text(boxes["f"][0]) == ("0", "255")


def test_func_values_bound_coordinates() -> None:
    known = {("g", 0): Interval(int32(2), int32(5))}
    box = box_required(call("f", call("g", x)), "f", SCOPE, known)
    assert box is not None and text(box[0]) == ("2", "5")


def test_conditions_narrow() -> None:
    body = IfThenElse(likely(lt(x, n)), Provide("f", (call("g", x),), (x,)))
    s = loop("x", 0, w, body)
    box = box_touched(s, "g")
    assert box is not None
    assert text(box[0]) == ("0", "min(n, w) - 1") or text(box[0]) == ("0", "min(w, n) - 1")
    both = IfThenElse(logical_and(lt(x, 20), ge(x, y)), Provide("f", (x,), (x,)))
    provided = boxes_provided(loop("x", 0, 100, both), {"y": Interval(int32(3), int32(5))})
    assert text(provided["f"][0]) == ("3", "19")


def test_a_condition_that_stands_still_says_when() -> None:
    branch = IfThenElse(lt(n, 5), Provide("f", (call("g", x),), (x,)), Provide("f", (x,), (x,)))
    boxes = boxes_required(branch, SCOPE)
    assert str(boxes["g"].used) == "n <= 4"
    assert boxes_provided(branch, SCOPE)["f"].used is None


def test_selects_read_both_sides() -> None:
    box = box_required(select(lt(x, n), call("g", x), int32(0)), "g", SCOPE)
    assert box is not None and text(box[0]) == ("x0", "x1")
    guarded = intrinsic(INT32, "if_then_else", lt(x, n), call("g", x), int32(0))
    box = box_required(guarded, "g", {"x": Interval(int32(0), int32(99))})
    assert box is not None and "n" in str(box[0].max)


def test_loops_and_lets() -> None:
    use = Provide("f", (call("g", var("t") + y),), (x,))
    s = loop("y", 0, n, loop("x", y, 4, LetStmt("t", x * 2, use)))
    assert text(boxes_required(s)["g"][0]) == ("0", "n * 3 + 3")
    assert text(boxes_provided(s)["f"][0]) == ("0", "n + 2")


def test_triangular_loops_stay_exact() -> None:
    s = loop("y", 0, n, loop("x", y, w - y, Provide("f", (x - y,), (x - y, y))))
    box = boxes_provided(s)["f"]
    assert text(box[0]) == ("0", "w - 1")


def test_fused_loops_are_two_loops() -> None:
    width, height = x1 - x0 + 1, n
    t = var("t")
    inner = LetStmt("x", t % width + x0, LetStmt("y", t // width, Provide("f", (x,), (x, y))))
    s = loop("t", 0, height * width, inner)
    box = boxes_provided(s)["f"]
    assert text(box[0]) == ("x0", "x1")
    assert text(box[1]) == ("0", "n - 1")


def test_deep_lets_stay_linear() -> None:
    s: Stmt = Provide("f", (call("g", var("v150")),), (x,))
    for i in range(150, 0, -1):
        previous = var(f"v{i - 1}")
        s = LetStmt(f"v{i}", minimum(previous + var(f"a{i}"), previous * var(f"b{i}")), s)
    box = boxes_required(LetStmt("v0", x, s), SCOPE)["g"]
    assert box[0].min is not None and len(str(box[0].min)) < 200_000


def test_boxes() -> None:
    a = Box([Interval(int32(0), int32(3))], lt(n, 1))
    b = Box([Interval(int32(2), int32(9))], lt(w, 1))
    assert text(merge(Box(a.bounds), Box(b.bounds))[0]) == ("0", "9")
    assert str(merge(a, b)[0].max) == "select(n < 1 && w < 1, 9, select(n < 1, 3, 9))"
    assert text(intersect(a, b)[0]) == ("2", "3")
    assert merge(a, b).used is not None
    assert merge(Box(a.bounds), b).used is None
    assert Interval.nothing().union(a[0]) == a[0]
    assert Interval.everything().intersection(a[0]) == a[0]
    assert str(a[0].contains(x)) == "x >= 0 && x <= 3"


class _Definition:
    def __init__(self, *values: Expr) -> None:
        self.values = values


class _Function:
    def __init__(self, t: Type, value: Expr, updates: int = 0) -> None:
        self.args = ["x"]
        self.output_types = [t]
        self.init = _Definition(value)
        self.updates = [None] * updates


def test_values_of_funcs() -> None:
    env = {
        "a": _Function(UInt(8), call("in", x, t=UInt(8))),
        "b": _Function(INT32, clamp(call("c", x), 3, 17)),
        "d": _Function(INT32, call("b", x) * 2 + 1),
        "e": _Function(Int(16), const(Int(16), 4), updates=1),
    }
    found = compute_func_value_bounds(["a", "b", "d", "e"], env)
    assert text(found["a", 0]) == ("0u8", "255u8")
    assert text(found["b", 0]) == ("3", "17")
    assert text(found["d", 0]) == ("7", "35")
    assert text(found["e", 0]) == ("-32768i16", "32767i16")


def test_branches_of_one_point() -> None:
    s = block([IfThenElse(eq(x, 3), Provide("f", (x,), (x,))), Provide("g", (x,), (x,))])
    boxes = boxes_provided(loop("x", 0, 10, s))
    assert text(boxes["f"][0]) == ("3", "3")
    assert text(boxes["g"][0]) == ("0", "9")
