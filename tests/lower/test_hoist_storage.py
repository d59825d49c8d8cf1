"""Hoisted storage: allocated outside, as large as any iteration needs."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.ir.errors import ScheduleError
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Allocate, For
from bayplan.ir.walk import iterate
from tests.lower.run_lowered import run


def triangle(hl: Any, schedule: str = "") -> Any:
    """Each row needs one element of g more than the row before."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y, xo, xi = hl.vars("x y xo xi")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = source[x, y] * 3
    f[x, y] = g[x, y] + g[x + hl.clamp(y, 0, 6), y]
    f.split(x, xo, xi, 4)
    if schedule == "serial":
        g.compute_at(f, xo).hoist_storage_root()
    if schedule == "parallel":
        f.parallel(y)
        g.compute_at(f, xo).hoist_storage_root()
    if schedule == "vector":
        f.vectorize(xi)
        g.compute_at(f, xi).hoist_storage(f, xo)
    return f


def test_size_is_the_greatest_over_the_loops() -> None:
    plain = run(triangle, [8, 5])
    hoisted = run(triangle, [8, 5], "hoist_storage", schedule="serial")
    outermost = next(n for n in iterate(hoisted.statement) if type(n) in (Allocate, For))
    assert type(outermost) is Allocate
    assert hoisted.sizes["g"] == 4 + 6
    flat = [plain.output[x, y] for y in range(5) for x in range(8)]
    assert [hoisted.output[i] for i in range(40)] == flat


def test_storage_stays_inside_a_parallel_loop() -> None:
    plain = run(triangle, [8, 5])
    hoisted = run(triangle, [8, 5], "hoist_storage", schedule="parallel")
    loop = next(n for n in iterate(hoisted.statement) if type(n) is For)
    assert loop.kind is ForKind.Parallel
    first = next(n for n in iterate(loop.body) if type(n) in (Allocate, For))
    assert type(first) is Allocate
    flat = [plain.output[x, y] for y in range(5) for x in range(8)]
    assert [hoisted.output[i] for i in range(40)] == flat


def test_lanes_cannot_share_storage() -> None:
    with pytest.raises(ScheduleError):
        run(triangle, [8, 5], "hoist_storage", schedule="vector")
