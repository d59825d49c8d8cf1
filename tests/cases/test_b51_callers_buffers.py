"""A call neither leaks the buffers it is given nor drops them too early, also when it raises."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl


def make_double(t: Any = None) -> tuple[hl.ImageParam, hl.Func]:
    """A pipeline with a heap temporary that doubles a one-dimensional input."""
    x = hl.Var("x")
    image = hl.ImageParam(t or hl.UInt(8), 1, "image")
    inner, out = hl.Func("inner"), hl.Func("out")
    inner[x] = image[x] + image[x]
    out[x] = inner[x]
    inner.compute_root().store_in(hl.MemoryType.Heap)
    return image, out


def resident_bytes() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def fails(run: Callable[[], Any], error: type[BaseException]) -> None:
    """Calls what must raise, and forgets the exception with its frames."""
    try:
        run()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def test_thousands_of_calls_do_not_grow() -> None:
    image, out = make_double()
    run = out.compile_to_callable([image])
    size = 1 << 20
    result = np.zeros(size, np.uint8)
    workspace = run.make_workspace(np.zeros(size, np.uint8), result)

    def call(i: int) -> None:
        fresh = np.full(size, i & 127, np.uint8)
        count = sys.getrefcount(fresh)
        run(fresh, result, workspace=workspace if i % 2 else None)
        assert sys.getrefcount(fresh) == count
        assert result[0] == result[-1] == 2 * (i & 127)

    for i in range(100):
        call(i)
    before = resident_bytes()
    for i in range(3000):
        call(i)
    assert resident_bytes() - before < 16 << 20


@pytest.mark.parametrize("kind", ["dtype", "rank", "size", "read-only", "workspace", "count"])
def test_errors_leave_no_references(kind: str) -> None:
    image, out = make_double()
    run = out.compile_to_callable([image])
    good, result = np.ones(1000, np.uint8), np.zeros(1000, np.uint8)
    workspace = np.zeros(64, np.uint8)
    frozen = np.zeros(1000, np.uint8)
    frozen.flags.writeable = False
    wrong = {
        "dtype": (np.ones(1000, np.uint16), result, None),
        "rank": (np.ones((10, 100), np.uint8), result, None),
        "size": (np.ones(999, np.uint8), result, None),
        "read-only": (good, frozen, None),
        "workspace": (good, result, workspace),
        "count": (good, None, None),
    }[kind]
    arrays = [a for a in wrong if a is not None]
    values = (wrong[0],) if kind == "count" else wrong[:2]
    gc.collect()
    counts = [sys.getrefcount(a) for a in arrays]
    for _ in range(20):
        fails(lambda: run(*values, workspace=wrong[2]), hl.BayplanError)
    gc.collect()
    assert [sys.getrefcount(a) for a in arrays] == counts
    assert not result.any() and not workspace.any()
    run(good, result)
    assert (result == 2).all()


def test_parameters_keep_what_they_were_set_to() -> None:
    x = hl.Var("x")
    param = hl.ImageParam(hl.UInt(8), 1, "param")
    f = hl.Func("f")
    f[x] = param[x]
    values = np.ones(10, np.uint8)[::1]
    param.set(values)
    del values
    gc.collect()
    rubbish = [np.full(10, 77, np.uint8) for _ in range(1000)]
    assert np.asarray(f.realize([10])).tolist() == [1] * 10
    del rubbish


def test_read_only_memory_goes_in_but_not_out() -> None:
    image, out = make_double()
    run = out.compile_to_callable([image])
    data, result = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    data.flags.writeable = False
    run(data, result)
    assert (result == 2 * data).all()
    run(bytes(data), result)
    result.flags.writeable = False
    with pytest.raises(hl.BufferError, match="read-only"):
        run(data, result)
    with pytest.raises(hl.BufferError, match="read-only"):
        run(data, bytes(100))
    with pytest.raises(hl.BufferError, match="read-only"):
        run(np.zeros(100, np.uint8), result, workspace=bytearray(1000))


class Resizer:
    """Stands for standard output: tries to resize arrays when the running program prints."""

    def __init__(self, arrays: list[bytearray]) -> None:
        self.arrays = arrays
        self.outcomes: list[str] = []

    def write(self, text: str) -> None:
        for array in self.arrays:
            try:
                array.append(0)
            except BufferError:
                self.outcomes.append("held")
            else:
                self.outcomes.append("resized")

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("failing", [False, True])
def test_memory_cannot_be_resized_during_the_call(
    failing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = hl.Var("x")
    image, limit = hl.ImageParam(hl.UInt(8), 1, "image"), hl.Param(hl.Int(32), "limit")
    inner, out = hl.Func("inner"), hl.Func("out")
    inner[x] = image[x] + hl.cast(hl.UInt(8), 1)
    loud = hl.print_when(x == 3, inner[x], "at", x)
    out[x] = hl.require(x < limit, loud, "x is", x)
    inner.compute_root().store_in(hl.MemoryType.Heap)
    run = out.compile_to_callable([image, limit])
    given, result = bytearray(range(100)), bytearray(100)
    workspace = bytearray(run.required_bytes(given, 1000, result))
    arrays = [given, result, workspace]
    resizer = Resizer(arrays)
    monkeypatch.setattr(sys, "stdout", resizer)
    if failing:
        fails(lambda: run(given, 50, result, workspace=workspace), hl.RequirementFailed)
    else:
        run(given, 1000, result, workspace=workspace)
        assert list(result) == list(range(1, 101))
    monkeypatch.undo()
    assert resizer.outcomes == ["held"] * 3
    gc.collect()
    for array in arrays:
        array.append(7)
        assert array[-1] == 7


def test_a_refused_workspace_is_not_held() -> None:
    image, out = make_double()
    run = out.compile_to_callable([image])
    data, result = np.ones(100, np.uint8), np.zeros(100, np.uint8)
    small = bytearray(10)
    fails(lambda: run(data, result, workspace=small), hl.WorkspaceTooSmall)
    small.extend(bytes(500))
    run(data, result, workspace=small)
    assert (result == 2).all()
    small.clear()
