"""A compiled pipeline is compiled again when, and only when, it was changed."""

from __future__ import annotations

import numpy as np

import bayplan as hl
from bayplan import driver


def make() -> tuple[hl.Func, hl.Func, hl.Var, hl.Param]:
    x = hl.Var("x")
    p = hl.Param(hl.Int(32), "p", 3)
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x + p
    g[x] = f[x] * 2
    return f, g, x, p


def compiled(g: hl.Func) -> driver.CompiledPipeline:
    return driver.compile_pipeline(g._functions())


def test_other_pipelines_do_not_matter() -> None:
    _, g, x, p = make()
    before = compiled(g)
    other = hl.Func("other")
    other[x] = x
    other.compute_root()
    p.set(4)
    assert compiled(g) is before
    assert np.asarray(g.realize([3])).tolist() == [8, 10, 12]


def test_a_directive_on_a_producer_matters() -> None:
    f, g, _, _ = make()
    before = compiled(g)
    f.compute_root()
    after = compiled(g)
    assert after is not before
    assert "allocate f" in str(after.program.readable)


def test_a_constraint_on_a_parameter_matters() -> None:
    _, g, _, p = make()
    before = compiled(g)
    p.set_range(0, 10)
    assert compiled(g) is not before


def test_a_buffer_that_moved_matters() -> None:
    x = hl.Var("x")
    buffer = hl.Buffer(np.arange(10, dtype=np.int32))
    f = hl.Func("f")
    f[x] = buffer[x + 2]
    assert np.asarray(f.realize([3])).tolist() == [2, 3, 4]
    buffer.set_min([2])
    f.compute_root()
    assert np.asarray(f.realize([3])).tolist() == [0, 1, 2]
