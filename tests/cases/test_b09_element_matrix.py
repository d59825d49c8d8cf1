"""B09: element matrices that are larger than a thread's stack."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver

CELLS = 4


def _transposed_difference(size: int) -> hl.Func:
    i, j, c = hl.vars("i j c")
    t, u, out = hl.Func("T"), hl.Func("U"), hl.Func("out")
    t[i, j, c] = hl.f64(i + size * j)
    u[i, j, c] = t[j, i, c]
    out[j, i, c] = t[i, j, c] - u[i, j, c]
    out.parallel(c)
    for temporary in (t, u):
        temporary.compute_at(out, c)
    return out


def _run_on_small_stack(f: hl.Func, out: Any) -> driver.Context:
    """Realizes in a thread of 512 KiB; its context, or its exception."""
    f.compile_jit()
    result: list[Any] = []

    def run() -> None:
        try:
            f.realize(hl.Buffer(out))
            result.append(driver.context())
        except Exception as error:
            result.append(error)

    before = threading.stack_size(524288)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]


@pytest.mark.parametrize(("nodes", "size_bytes"), [(33, 9487368), (32, 8388608)])
def test_b09_local_matrices_are_on_the_heap(nodes: int, size_bytes: int) -> None:
    size = nodes * nodes
    f = _transposed_difference(size)
    out = np.empty((CELLS, size, size))
    before = hl.set_num_threads(4)
    try:
        context = _run_on_small_stack(f, out)
        report = hl.Pipeline(f).storage([size, size, CELLS])
    finally:
        hl.set_num_threads(before)
    index = np.arange(size)
    np.testing.assert_array_equal(out[0], (size - 1) * (index[None, :] - index[:, None]))
    assert out[0, 0, size - 1] == (size - 1) ** 2
    for c in range(1, CELLS):
        np.testing.assert_array_equal(out[c], out[0])
    assert [t.name.split("$")[0] for t in report] == ["T", "U"]
    for temporary in report:
        assert (temporary.kind, temporary.bytes) == ("heap", size_bytes)
        assert temporary.per_worker
    assert report.stack_bytes == 0
    counts = context.counts
    assert counts.live_bytes == 0
    assert counts.allocations == counts.releases
    # Two matrices for each of four workers, and what alignment and the pool's pages add.
    assert counts.peak_bytes <= 8 * size_bytes + 8 * 64
    assert report.peak_bytes <= 8 * size_bytes + 8 * 64


def test_b09_no_memory_is_an_exception() -> None:
    size = 33 * 33
    f = _transposed_difference(size)
    out = np.empty((CELLS, size, size))
    before = hl.set_num_threads(4)
    context = driver.context()
    f.compile_jit()
    try:
        context.check_allocations(True, fail_at=1)
        with pytest.raises(hl.OutOfMemory, match=r"T|U|out"):
            f.realize(hl.Buffer(out))
        context.check_allocations(False)
        f.realize(hl.Buffer(out))
    finally:
        context.check_allocations(False)
        hl.set_num_threads(before)
    assert out[0, 0, size - 1] == 1183744
