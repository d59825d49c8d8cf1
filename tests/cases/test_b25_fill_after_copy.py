"""B25: a fill of a part of shared memory waits for the copy before it, wherever it begins."""

from __future__ import annotations

import pytest

from bayplan.ir.stmts import Stmt
from bayplan.lower.insert_barriers import insert_barriers
from bayplan.storage.check_races import check_races
from tests.lower.build_statements import lowering
from tests.storage.kernels import block, count_barriers, fill_at, kernel, shared
from tests.storage.run_kernels import run_kernel

OFFSETS = (0, 1, 10, 31, 32, 58)


def program(offset: int) -> Stmt:
    """64 threads: S[t] = in[t]; if t < 6: S[offset + t] = 0; out[t] = S[t]."""
    return insert_barriers(kernel(shared("S", 64, block(fill_at(offset)))), lowering())


@pytest.mark.parametrize("offset", OFFSETS)
def test_b25_the_fill_is_not_lost(offset: int) -> None:
    out = run_kernel(program(offset), {"out": 64}, {"in": range(1, 65)})["out"]
    wanted = [0 if offset <= i < offset + 6 else i + 1 for i in range(64)]
    assert out == wanted
    if offset == 10:
        assert sum(out) == 1999


@pytest.mark.parametrize("offset", OFFSETS)
def test_b25_one_barrier_on_each_side_of_the_fill(offset: int) -> None:
    stmt = program(offset)
    assert count_barriers(stmt) == (2 if offset else 0)
    check_races(stmt)


def test_b25_no_barrier_where_each_thread_fills_its_own() -> None:
    # At offset 0 thread t fills what thread t copied and will read.
    assert count_barriers(program(0)) == 0
