"""Stages computed together give the values they would give alone, however their loops align."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.ir.stmts import For
from bayplan.ir.walk import iterate
from bayplan.lower.pipeline import prepare, schedule

SHAPE = (17, 23)
ALIGNMENTS = ("NoAlign", "AlignStart", "AlignEnd")


def grid() -> tuple[Any, Any]:
    y, x = np.mgrid[0 : SHAPE[0], 0 : SHAPE[1]]
    return y.astype("int32"), x.astype("int32")


def realized(f: hl.Func) -> Any:
    return np.asanyarray(f.realize([SHAPE[1], SHAPE[0]]))


def loops(output: hl.Func) -> list[str]:
    """The loops as scheduled, by the names of their variables."""
    with compilation():
        stmt = schedule(prepare([output.function()], None))
        return [n.name.split(".", 2)[2] for n in iterate(stmt) if isinstance(n, For)]


@pytest.mark.parametrize(
    ("align_x", "align_y", "level"), list(itertools.product(ALIGNMENTS, ALIGNMENTS, "xy"))
)
def test_two_stages_of_different_regions(align_x: str, align_y: str, level: str) -> None:
    x, y = hl.vars("x y")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x * 3 + y
    g[x, y] = x * y
    h[x, y] = f[x, y] + g[x + 5, y - 7] * f[x - 2, y + 1]
    f.compute_root()
    g.compute_root()
    align = [
        (x, getattr(hl.LoopAlignStrategy, align_x)),
        (y, getattr(hl.LoopAlignStrategy, align_y)),
    ]
    g.compute_with(f, x if level == "x" else y, align)
    assert any(name.startswith("fused.") or ".fused." in name for name in loops(h))
    ys, xs = grid()
    want = xs * 3 + ys + (xs + 5) * (ys - 7) * ((xs - 2) * 3 + ys + 1)
    np.testing.assert_array_equal(realized(h), want)


def test_a_chain_shares_only_what_all_share() -> None:
    x, y = hl.vars("x y")
    f, g, h, k = (hl.Func(n) for n in "fghk")
    f[x, y] = x + y
    g[x, y] = x * y
    h[x, y] = x - y
    k[x, y] = f[x, y] + g[x + 1, y + 2] * h[x - 3, y]
    for stage in (f, g, h):
        stage.compute_root()
    g.compute_with(f, y)
    h.compute_with(g, x)
    ys, xs = grid()
    np.testing.assert_array_equal(realized(k), xs + ys + (xs + 1) * (ys + 2) * (xs - 3 - ys))


def test_updates_go_with_updates() -> None:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 7)], "r")
    f, g, k = (hl.Func(n) for n in "fgk")
    f[x, y] = x + y
    f[x, y] += r * x
    f[x, y] *= 2
    g[x, y] = x * y
    g[x, y] += r * y
    g[x, y] -= 3
    k[x, y] = f[x, y] + g[x + 5, y - 7]
    f.compute_root()
    g.compute_root()
    g.update(0).compute_with(f.update(0), y)
    g.update(1).compute_with(f.update(1), x)
    ys, xs = grid()
    a = (xs + ys + 21 * xs) * 2
    b = (xs + 5) * (ys - 7) + 21 * (ys - 7) - 3
    np.testing.assert_array_equal(realized(k), a + b)


def test_a_producer_of_both_sits_in_the_shared_loop() -> None:
    x, y = hl.vars("x y")
    f, g, p, k = (hl.Func(n) for n in "fgpk")
    p[x, y] = x * 3 + y
    f[x, y] = p[x, y] + p[x, y + 1]
    g[x, y] = p[x, y - 1] * 2
    k[x, y] = f[x, y] + g[x + 1, y + 2]
    f.compute_root()
    g.compute_root()
    g.compute_with(f, y)
    p.compute_at(f, y)
    ys, xs = grid()
    a = xs * 3 + ys + xs * 3 + ys + 1
    b = ((xs + 1) * 3 + ys + 1) * 2
    np.testing.assert_array_equal(realized(k), a + b)


def test_vectors_in_the_shared_loops() -> None:
    x, y = hl.vars("x y")
    f, g, k = (hl.Func(n) for n in "fgk")
    f[x, y] = x + y
    g[x, y] = x * y
    k[x, y] = f[x, y] + g[x + 5, y - 7]
    f.compute_root().vectorize(x, 4)
    g.compute_root().vectorize(x, 4)
    g.compute_with(f, x, hl.LoopAlignStrategy.AlignEnd)
    ys, xs = grid()
    np.testing.assert_array_equal(realized(k), xs + ys + (xs + 5) * (ys - 7))
