"""Too much shared memory is found before the launch, with its parts; more can be asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayplan as hl
from bayplan.ir.errors import DeviceLimitError
from tests.devices.programs import EMULATED, emulated, refused, tile

STATIC, OPT_IN = 49152, 101376


def _expected(size: int) -> Any:
    y, x = np.mgrid[:size, :size]
    return ((x + 3 * y) * 2).astype(np.float32)


def test_refused_before_the_launch_without_opt_in() -> None:
    device = emulated(shared_bytes=STATIC, shared_bytes_opt_in=0)
    with device:
        error = refused(lambda: tile(128).realize([128, 128], EMULATED), DeviceLimitError)
    assert error.numbers == (65536, STATIC)
    assert "tile" in error.message and "65536" in error.message
    assert "store_in(hl.MemoryType.Heap)" in error.hint
    assert device.launches() == [] and device.memory().used == 0
    with device:
        result = tile(64).realize([128, 128], EMULATED).numpy_view()
    np.testing.assert_array_equal(result, _expected(128))


def test_opt_in() -> None:
    device = emulated(shared_bytes=STATIC, shared_bytes_opt_in=OPT_IN)
    with device:
        result = tile(128).realize([128, 128], EMULATED).numpy_view()
    np.testing.assert_array_equal(result, _expected(128))
    (launch,) = device.launches()
    assert launch.shared_bytes == 65536 and launch.opted_in


def _two_arrays(elements: int) -> hl.Func:
    """Two arrays of bytes that live at the same time."""
    x, o, i, j, k = [hl.Var(n) for n in ("x", "o", "i", "j", "k")]
    a, b, out = hl.Func("a"), hl.Func("b"), hl.Func("out")
    a[x] = hl.cast(hl.UInt(8), x * 3)
    b[x] = hl.cast(hl.UInt(8), x * 5)
    out[x] = a[x] + b[x]
    out.split(x, o, i, elements).split(i, j, k, 100).gpu_blocks(o).gpu_threads(k)
    for f in (a, b):
        f.compute_at(out, o).store_in(hl.MemoryType.GPUShared)
        f.split(x, j, k, 100).gpu_threads(k)
    return out


def test_two_arrays_are_one_block_of_memory() -> None:
    device = emulated(shared_bytes=STATIC, shared_bytes_opt_in=OPT_IN)
    with device:
        result = _two_arrays(30000).realize([60000], EMULATED).numpy_view()
    np.testing.assert_array_equal(result, (np.arange(60000) * 8).astype(np.uint8))
    (launch,) = device.launches()
    assert 60000 <= launch.shared_bytes <= 60000 + 128 and launch.opted_in


def test_more_than_can_be_asked_for() -> None:
    device = emulated(shared_bytes=STATIC, shared_bytes_opt_in=OPT_IN)
    with device:
        error = refused(lambda: _two_arrays(51200).realize([51200], EMULATED), DeviceLimitError)
    assert error.numbers[:2] == (102400, OPT_IN)
    assert error.message.count("51200") == 2
    assert device.launches() == []


def test_tuning_skips_what_does_not_fit() -> None:
    device = emulated(shared_bytes=STATIC, shared_bytes_opt_in=0)
    with device:
        tuning = hl.tune(tile, [128, 64, 32], [128, 128], EMULATED, repeats=2)
    assert [t.choice for t in tuning.trials] == [128, 64, 32]
    assert tuning.trials[0].seconds is None and tuning.trials[0].reason == "65536 > 49152"
    assert {launch.shared_bytes for launch in device.launches()} == {16384, 4096}
    times = {t.choice: t.seconds for t in tuning.trials[1:]}
    assert tuning.best.choice in (64, 32) and tuning.best.seconds == min(times.values())
    assert "65536 > 49152" in str(tuning)


def test_tuning_where_nothing_fits_is_one_error() -> None:
    with emulated(shared_bytes=1024, shared_bytes_opt_in=0):
        error = refused(
            lambda: hl.tune(tile, [128, 64, 32], [128, 128], EMULATED), DeviceLimitError
        )
    for reason in ("128  does not fit: 65536 > 1024", "64", "16384 > 1024", "4096 > 1024"):
        assert reason in error.message
