"""Funcs come producers first, whatever their names; groups computed together stay together."""

from __future__ import annotations

import pytest

import bayplan as hl
from bayplan.ir.errors import ScheduleError
from bayplan.ir.node import compilation
from bayplan.lower.pipeline import prepare


def order_of(*outputs: hl.Func) -> tuple[list[str], list[list[str]]]:
    with compilation():
        lowering = prepare([f.function() for f in outputs], None)
        return lowering.order, lowering.fused_groups


def test_producers_come_first() -> None:
    x = hl.Var("x")
    a, b, c, d = (hl.Func(n) for n in ("zz", "mm", "nn", "aa"))
    a[x] = x
    b[x] = a[x]
    c[x] = a[x] + b[x]
    d[x] = c[x] + a[x]
    order, groups = order_of(d)
    assert order == [f.name() for f in (a, b, c, d)]
    assert groups == [[name] for name in order]


def test_a_func_that_is_not_used_is_left_out() -> None:
    x = hl.Var("x")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x
    g[x] = x + 1
    order, _ = order_of(g)
    assert order == [g.name()]


def test_the_parent_of_a_fused_group_comes_last() -> None:
    x, y = hl.vars("x y")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x
    g[x, y] = y
    h[x, y] = f[x, y] + g[x, y]
    f.compute_root()
    g.compute_root()
    f.compute_with(g, y)
    order, groups = order_of(h)
    assert groups == [[f.name(), g.name()], [h.name()]]
    assert order == [f.name(), g.name(), h.name()]


def test_dependent_funcs_cannot_be_computed_together() -> None:
    x, y = hl.vars("x y")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x
    g[x, y] = f[x, y] + y
    h[x, y] = f[x, y] + g[x, y]
    f.compute_root()
    g.compute_root()
    g.compute_with(f, y)
    with pytest.raises(ScheduleError, match="one of them needs the other"):
        order_of(h)


def test_a_long_chain_is_ordered_without_deep_recursion_in_c() -> None:
    x = hl.Var("x")
    funcs = [hl.Func(f"stage{i}") for i in range(3000)]
    funcs[0][x] = x
    for before, after in zip(funcs, funcs[1:]):
        after[x] = before[x] + 1
    order, _ = order_of(funcs[-1])
    assert order == [f.name() for f in funcs]
