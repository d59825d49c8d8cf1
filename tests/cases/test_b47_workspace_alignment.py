"""A workspace whose address is not aligned: the bytes that align it are part of the need."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.build.loading import load_program, load_runtime
from bayplan.targets.header import read_header


def make_callable() -> tuple[Any, int]:
    """A callable whose arena is as large as its alignment; the elements of its output."""
    x = hl.Var("x")
    inner, out = hl.Func("inner"), hl.Func("out")
    inner[x] = hl.cast(hl.Float(32), x) * 2
    out[x] = inner[x] + inner[15 - x]
    inner.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 16)
    return out.compile_to_callable([]), 16


def test_an_exact_size_fits_only_an_aligned_address() -> None:
    run, count = make_callable()
    result = np.zeros(count, np.float32)
    size, alignment = run.workspace_bytes(result), run.workspace_alignment
    assert size == 64 and alignment in (16, 32, 64)
    block = np.full(1024, 0xCD, np.uint8)
    base = 256 + -(block.ctypes.data + 256) % alignment
    for skew in range(alignment):
        start = base + skew
        for given in (size, size + alignment - 1):
            workspace = block[start : start + given]
            result[...] = 0
            if skew == 0 or given > size:
                run(result, workspace=workspace)
                assert (result == 30).all()
                # The arena is the aligned part; before and behind it nothing is touched.
                used = start + -skew % alignment
                assert (block[:used] == 0xCD).all() and (block[used + size :] == 0xCD).all()
                block[...] = 0xCD
                continue
            with pytest.raises(hl.WorkspaceTooSmall) as raised:
                run(result, workspace=workspace)
            assert raised.value.need_bytes == size + alignment - skew
            assert raised.value.got_bytes == size
            assert (block == 0xCD).all() and not result.any()


def test_strict_mode_refuses_what_is_not_aligned() -> None:
    run, count = make_callable()
    result = np.zeros(count, np.float32)
    alignment = run.workspace_alignment
    block = np.full(1024, 0xCD, np.uint8)
    base = -block.ctypes.data % alignment
    run(result, workspace=block[base : base + 64], strict=True)
    assert (result == 30).all()
    block[...] = 0xCD
    for skew in range(1, alignment):
        with pytest.raises(hl.WorkspaceError, match=f"begins {skew} bytes behind a multiple of"):
            run(result, workspace=block[base + skew :], strict=True)
    assert (block == 0xCD).all()


def test_what_is_no_workspace_is_refused() -> None:
    run, count = make_callable()
    result = np.zeros(count, np.float32)
    frozen = np.zeros(200, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(hl.BufferError, match="read-only"):
        run(result, workspace=frozen)
    with pytest.raises(hl.BufferError, match="read-only"):
        run(result, workspace=bytes(200))
    with pytest.raises(hl.BufferError, match="not contiguous"):
        run(result, workspace=np.zeros(400, np.uint8)[::2])
    with pytest.raises(hl.BufferError, match="int"):
        run(result, workspace=200)
    with pytest.raises(hl.AliasError, match="workspace"):
        run(result, workspace=result)
    assert not result.any()
    goods = (np.zeros(40), hl.Buffer(hl.UInt(8), [200]), memoryview(bytearray(200)))
    for good in goods:
        result[...] = 0
        run(result, workspace=good)
        assert (result == 30).all()


PROGRAM = (
    read_header()
    + r"""
#define EXPORT __attribute__((visibility("default")))
static const bp_site site = {"BP-M004", "needs {0}, got {1}", "", 0, BP_ERROR};
/* args: in: 1 asks for too much; out: address, bytes */
EXPORT int32_t hand_argv(bp_context *ctx, void **args) {
    (void)args;
    return ctx->workers > 0 ? 0 : -1;
}
EXPORT int64_t hand_workspace_bytes_argv(bp_context *ctx, void **args) {
    (void)ctx;
    return *(int32_t *)args[0] ? -5 : (INT64_C(1) << 40) + 1;
}
EXPORT int32_t hand_with_workspace_argv(bp_context *ctx, void **args, void *workspace,
                                        uint64_t bytes) {
    *(void **)args[1] = workspace;
    *(uint64_t *)args[2] = bytes;
    if (!*(int32_t *)args[0]) return ctx->workers > 0 ? 0 : -1;
    ctx->error.site = &site;
    ctx->error.count = 2;
    ctx->error.args[0] = (bp_arg){BP_ARG_UINT, {.u = 12345678901}};
    ctx->error.args[1] = (bp_arg){BP_ARG_UINT, {.u = bytes}};
    return BP_ERROR;
}
EXPORT int32_t bare_argv(bp_context *ctx, void **args) {
    (void)ctx, (void)args;
    return 0;
}
"""
)


@pytest.mark.parametrize("interrupt", [False, True])
def test_the_runtime_hands_the_workspace_on(interrupt: bool) -> None:
    program = load_program(PROGRAM, "hand")
    assert program.workspace_entry and program.workspace_bytes_entry
    context = load_runtime().new_context()
    for fails in (0, 1):
        address, size = ctypes.c_void_p(), ctypes.c_uint64()
        values = (ctypes.c_int32(fails), address, size)
        pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(v) for v in values])
        wanted = context.workspace_bytes(program.workspace_bytes_entry, pointers)
        assert wanted == (-5 if fails else (1 << 40) + 1)
        status = context.call_with_workspace(
            program.workspace_entry, pointers, 0xABC0, 1 << 33, interrupt=interrupt
        )
        assert (status, address.value, size.value) == (-fails, 0xABC0, 1 << 33)
        failed = f"needs 12345678901, got {1 << 33}" if fails else ""
        assert context.failure_text() == failed
        assert context.counts.allocations == 0


def test_a_library_without_workspace_entries() -> None:
    program = load_program(PROGRAM, "bare")
    assert program.workspace_entry is None and program.workspace_bytes_entry is None
