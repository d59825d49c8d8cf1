"""B17: where a temporary lies in an arena is counted in bytes, whatever the vector width."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.ir.build import cast, ramp, var
from bayplan.ir.exprs import Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Stmt, Store
from bayplan.ir.types import FLOAT32
from bayplan.storage.check import check_storage
from tests.storage.statements import alias, arena, block, load, loop
from tests.targets.programs import argument, emit, make_buffer, run

LANES = (1, 4, 8, 16, 1024)
N = 1024


def _sum(lanes: int, first: Any) -> tuple[hl.Func, list[hl.Func]]:
    """out reads C reversed; C[i] = A[i] + B[i]."""
    i, r = hl.Var("i"), hl.Var("r")
    a, b, c, out = hl.Func("A"), hl.Func("B"), hl.Func("C"), hl.Func("out")
    a[i] = first(i)
    b[i] = hl.cast(hl.Float(32), 2 * i)
    c[i] = hl.cast(hl.Float(32), a[i]) + b[i]
    out[r] = c[N - 1 - r]
    for f in (a, b, c):
        f.compute_root().bound(i, 0, N).store_in(hl.MemoryType.Heap)
        if lanes > 1:
            f.vectorize(i, lanes)
    return out, [a, b, c]


@pytest.mark.parametrize("lanes", LANES)
def test_b17_three_of_4096_bytes_in_one_arena(lanes: int) -> None:
    out, (a, b, c) = _sum(lanes, lambda i: hl.cast(hl.Float(32), i))
    got = np.asarray(out.realize([N]))
    np.testing.assert_array_equal(got, 3 * np.arange(N, dtype=np.float32)[::-1])
    report = hl.Pipeline(out).storage([N])
    offsets = {t.func: t.offset for t in report.temporaries}
    at_a, at_b, at_c = (offsets[f.name()] for f in (a, b, c))
    assert abs(at_a - at_b) % 4096 == 0 and at_a != at_b
    assert at_c not in (at_b,)
    # C may take over the bytes of A, element by element; else it lies behind both.
    assert report.peak_bytes in (2 * 4096, 3 * 4096)
    # A byte offset in the code too: no lane count divides it.
    source = driver.compile_pipeline([out._function]).source
    assert f"+ INT64_C({max(at_a, at_b)})" in source


@pytest.mark.parametrize("lanes", LANES)
def test_b17_bytes_before_floats(lanes: int) -> None:
    out, (a, b, _) = _sum(lanes, lambda i: hl.cast(hl.UInt(8), i))
    got = np.asarray(out.realize([N]))
    want = (np.arange(N) % 256 + 2 * np.arange(N)).astype(np.float32)
    np.testing.assert_array_equal(got, want[::-1])
    offsets = {t.func: t.offset for t in hl.Pipeline(out).storage([N]).temporaries}
    vector_bytes = min(lanes * 4, hl.get_host_target().natural_vector_size(hl.UInt(8)))
    assert offsets[b.name()] % max(4, vector_bytes) == 0
    assert offsets[b.name()] >= 1024 or offsets[a.name()] >= 4096


def _placed(lanes: int) -> Stmt:
    """A at 0, B at 4096, and C over A, in an arena of 8192 bytes."""
    i = var("i")
    at = ramp(i * lanes, 1, lanes)
    t = FLOAT32.with_lanes(lanes)

    def fill(name: str, value: Expr) -> Stmt:
        return loop("i", N // lanes, Store(name, value, at))

    def read(name: str) -> Expr:
        return load(name, at, t)

    body = block(
        [
            fill("A", cast(t, at)),
            fill("B", cast(t, at + at)),
            fill("C", read("A") + read("B")),
            fill("out", read("C")),
        ]
    )
    for name, offset in (("C", 0), ("B", 4096), ("A", 0)):
        body = alias(name, N, offset, body, alignment=64)
    return arena(8192, body)


@pytest.mark.parametrize("lanes", LANES)
def test_b17_offsets_as_in_the_report(lanes: int) -> None:
    with compilation():
        stmt = _placed(lanes)
        check_storage(stmt)
        check_storage(stmt, {})
        emission = emit(stmt, [argument("output_buffer", "out", FLOAT32)], name=f"b17_{lanes}")
    declared = re.search(r"float \*const B = .*;", emission.source)
    assert declared is not None and "+ INT64_C(4096)" in declared.group()
    result = np.zeros(N, np.float32)
    assert run(emission, [make_buffer(result, FLOAT32)]) == 0
    np.testing.assert_array_equal(result, 3 * np.arange(N, dtype=np.float32))
