"""Sizes and coordinates beyond 32 bits are refused before anything is allocated or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.ir.stmts import AssertStmt
from bayplan.ir.walk import iterate

LARGEST = 2**31 - 1


def count_checks(f: hl.Func) -> int:
    program = driver.compile_pipeline([f.function()]).program
    return sum(
        type(n) is AssertStmt and "32-bit indices reach {1}" in n.site.template
        for n in iterate(program.body)
    )


def make_shifted(kind: str = "root") -> tuple[Any, hl.Func]:
    x, y = hl.vars("x y")
    n = hl.Param(hl.Int(32), "n")
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x] = hl.cast(hl.Float(64), x)
    out[x, y] = wide[x] + wide[x + n]
    if kind == "root":
        wide.compute_root()
    elif kind == "inside":
        wide.compute_at(out, y)
    else:
        out.parallel(y)
        wide.compute_at(out, y)
    wide.store_in(hl.MemoryType.Heap)
    return out.compile_to_callable([n]), out


@pytest.mark.parametrize("kind", ["root", "inside", "worker"])
def test_a_shift_by_a_parameter(kind: str) -> None:
    run, _ = make_shifted(kind)
    result = np.zeros((3, 10))
    for n in (LARGEST, LARGEST - 8, -LARGEST - 1, -LARGEST + 8):
        with pytest.raises(hl.AllocationTooLarge) as raised:
            run(n, result)
        text = str(raised.value)
        assert "wide" in text and str(LARGEST) in text
        assert not result.any()
        assert hl.memory.last_call().allocations == 0
        with pytest.raises(hl.AllocationTooLarge):
            run.workspace_bytes(n, result)
    # As far as it goes nothing is refused.
    assert run.workspace_bytes(LARGEST - 10, result) >= 8 * LARGEST
    assert run.workspace_bytes(100, result) >= 8 * 110
    run(5, result)
    assert (result == 2 * np.arange(10) + 5).all()
    run(-5, result)
    assert (result == 2 * np.arange(10) - 5).all()


def test_a_sum_of_parameters() -> None:
    x = hl.Var("x")
    n, m = hl.Param(hl.Int(32), "n"), hl.Param(hl.Int(32), "m")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x] = hl.cast(hl.UInt(8), x)
    second[x] = first[x] + first[x + m]
    out[x] = second[x] + second[x + n]
    for f in (first, second):
        f.compute_root().store_in(hl.MemoryType.Heap)
    run = out.compile_to_callable([n, m])
    result = np.zeros(10, np.uint8)
    with pytest.raises(hl.AllocationTooLarge, match=r"first\S* reaches 4000000009"):
        run(2_000_000_000, 2_000_000_000, result)
    assert run.workspace_bytes(1_000_000_000, -1_000_000_000, result) > 2_000_000_000
    run(3, 4, result)
    assert (result == (4 * np.arange(10) + 14)).all()


def test_a_scaled_output() -> None:
    """The temporary of an output that fits may not fit; nothing of the output is touched."""
    x = hl.Var("x")
    fine, out = hl.Func("fine"), hl.Func("out")
    fine[x] = hl.cast(hl.UInt(8), x)
    out[x] = fine[8 * x] + fine[8 * x + 7]
    fine.compute_root().store_in(hl.MemoryType.Heap)
    run = out.compile_to_callable([])
    page = np.zeros(1, np.uint8)
    huge = np.lib.stride_tricks.as_strided(page, (1 << 29,), (1,))
    with pytest.raises(hl.AllocationTooLarge, match="fine"):
        run.workspace_bytes(huge)
    assert run.workspace_bytes(huge[: 1 << 20]) == 8 << 20
    result = np.zeros(10, np.uint8)
    run(result)
    assert (result == (16 * np.arange(10) + 7).astype(np.uint8)).all()


def test_values_may_be_as_large_as_they_like() -> None:
    x = hl.Var("x")
    n = hl.Param(hl.Int(32), "n")
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x] = hl.cast(hl.UInt(32), n) * 3 + hl.cast(hl.UInt(32), x)
    out[x] = wide[x] * hl.cast(hl.UInt(32), n)
    wide.compute_root()
    assert count_checks(out) == 0
    n.set(LARGEST)
    got = np.asarray(out.realize([4]))
    want = [((3 * LARGEST + k) * LARGEST) % 2**32 for k in range(4)]
    assert got.tolist() == want


def test_a_program_without_parameters_has_no_checks() -> None:
    x, y, yi = hl.vars("x y yi")
    image = hl.ImageParam(hl.UInt(16), 2, "image")
    rows, out = hl.Func("rows"), hl.Func("out")
    rows[x, y] = image[x, y] + image[x + 1, y]
    out[x, y] = rows[x, y] + rows[x, y + 1]
    out.split(y, y, yi, 32).vectorize(x, 8).parallel(y)
    rows.store_at(out, y).compute_at(out, yi).vectorize(x, 8)
    assert count_checks(out) == 0
