"""Workspaces of every size: too small is an error that says what is needed, never a crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl

POISON = 0xCD
ROOM = 256  # bytes on both sides that nobody may touch


def make_callable() -> tuple[Any, Any, Any]:
    """A callable with temporaries of 1000, 3000 and 500 bytes that live together; its output."""
    x = hl.Var("x")
    funcs = [hl.Func(name) for name in "abc"]
    for f, size in zip(funcs, (1000, 3000, 500), strict=True):
        f[x] = hl.cast(hl.UInt(8), x * 7 + size)
        f.compute_root().store_in(hl.MemoryType.Heap).bound_extent(x, size)
    a, b, c = funcs
    out = hl.Func("out")
    r = hl.RDom([(0, 3000)])
    # Each element needs all three from the first to the last, so no two can share bytes.
    out[x] = hl.cast(hl.UInt(32), 0)
    value = (
        hl.cast(hl.UInt(32), a[r % 1000]) + 3 * hl.cast(hl.UInt(32), b[r])
        + 5 * hl.cast(hl.UInt(32), c[r % 500])
    )  # fmt: skip
    out[x] += value * hl.cast(hl.UInt(32), x + 1)
    run = out.compile_to_callable([])
    result = np.zeros(4, np.uint32)
    return run, result, _expected()


def _expected() -> Any:
    def bytes_of(size: int) -> Any:
        return (np.arange(size) * 7 + size).astype(np.uint8).astype(np.uint32)

    r = np.arange(3000)
    a, b, c = bytes_of(1000)[r % 1000], bytes_of(3000), bytes_of(500)[r % 500]
    total = (a + 3 * b + 5 * c).sum(dtype=np.uint32)
    return total * np.arange(1, 5, dtype=np.uint32)


class Arena:
    """A block of poisoned bytes in which workspaces begin at any distance from an alignment."""

    def __init__(self, size: int, alignment: int) -> None:
        self.bytes = np.full(size + 2 * ROOM + 2 * alignment, POISON, np.uint8)
        self.base = ROOM + -(self.bytes.ctypes.data + ROOM) % alignment

    def workspace(self, skew: int, size: int) -> Any:
        start = self.base + skew
        return self.bytes[start : start + size]

    def is_whole_outside(self, skew: int, size: int) -> bool:
        start = self.base + skew
        outside = (self.bytes[:start], self.bytes[start + size :])
        return all(bool((part == POISON).all()) for part in outside)

    def poison(self) -> None:
        self.bytes[...] = POISON


def test_every_size_at_every_address() -> None:
    run, result, expected = make_callable()
    alignment, size = run.workspace_alignment, run.workspace_bytes(result)
    assert size >= 4500
    # Each temporary begins at a multiple of the alignment, and nothing is wasted beyond that.
    assert size <= sum([n + -n % alignment for n in (1000, 3000, 500)])
    arena = Arena(size + alignment, alignment)
    skews = sorted({*range(min(alignment, 16)), alignment // 2, alignment - 1})
    for skew in skews:
        need = size + -skew % alignment
        # Step 1 around the need, where it decides, and everywhere at one address.
        near = range(need - 5, need + 6)
        sizes = range(need + 6) if skew == 1 else [*range(0, need - 5, 101), *near]
        for given in sizes:
            workspace = arena.workspace(skew, given)
            result[...] = 0
            if given >= need:
                run(result, workspace=workspace)
                assert (result == expected).all()
                assert arena.is_whole_outside(skew, given)
                arena.poison()
                continue
            with pytest.raises(hl.WorkspaceTooSmall) as raised:
                run(result, workspace=workspace)
            if given:
                assert raised.value.need_bytes == need
            assert raised.value.got_bytes == given
            assert hl.memory.last_call().allocations == 0
        assert (arena.bytes == POISON).all() and (result == 0).sum() in (0, 4)


def test_one_number_before_any_call() -> None:
    run, result, expected = make_callable()
    required = run.required_bytes(result)
    alignment = run.workspace_alignment
    assert required == run.workspace_bytes(result) + alignment - 1
    arena = Arena(required, alignment)
    for skew in range(alignment):
        result[...] = 0
        run(result, workspace=arena.workspace(skew, required))
        assert (result == expected).all()
        assert arena.is_whole_outside(skew, required)
        arena.poison()


def test_the_number_grows_with_a_parameter() -> None:
    x = hl.Var("x")
    n = hl.Param(hl.Int(32), "n")
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x] = hl.cast(hl.Int(32), x)
    out[x] = wide[x] + wide[x + n]
    wide.compute_root().store_in(hl.MemoryType.Heap)
    run = out.compile_to_callable([n])
    result = np.zeros(10, np.int32)
    assert [run.workspace_bytes(k, result) for k in (0, 1, 5, 1000)] == [40, 44, 60, 4040]
    nothing = np.zeros(0, np.int32)
    assert run.required_bytes(0, nothing) == 0
    run(0, nothing, workspace=bytearray())
    # What an empty output needs at x + n is counted from its begin, so three elements are.
    assert run.workspace_bytes(3, nothing) == 12
    run(3, nothing, workspace=run.make_workspace(3, nothing))
    workspace = run.make_workspace(1000, result)
    assert workspace.nbytes == 4040
    run(1000, result, workspace=workspace)
    assert result.tolist() == [1000 + 2 * k for k in range(10)]


def test_a_size_that_changes_in_a_loop() -> None:
    """It is bounded over the loop, so that the call has one number."""
    x = hl.Var("x")
    sizes = hl.ImageParam(hl.Int(32), 1, "sizes")
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x] = hl.cast(hl.Int(32), x)
    out[x] = wide[0] + wide[hl.clamp(sizes[x], 1, 100)]
    wide.compute_at(out, x).store_in(hl.MemoryType.Heap)
    run = out.compile_to_callable([sizes])
    given, result = np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)
    run(given, result)
    assert result.tolist() == list(range(1, 9))
    assert hl.memory.last_call().allocations <= 1
    assert run.workspace_bytes(given, result) == 404
    result[...] = 0
    run(given, result, workspace=bytearray(run.required_bytes(given, result)))
    assert result.tolist() == list(range(1, 9))
