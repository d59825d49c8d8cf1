"""Buffers with memory on a device: what is copied when, and what of it is seen."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.errors import NoDevice
from tests.devices.programs import EMULATED, Blur, emulated


def _twice(name: str = "f") -> tuple[hl.Func, hl.ImageParam]:
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    source = hl.ImageParam(hl.Int(32), 2, f"{name}_input")
    f = hl.Func(name)
    f[x, y] = source[x, y] * 2
    f.gpu_tile(x, y, xi, yi, 4, 4, hl.TailStrategy.GuardWithIf)
    return f, source


def test_results_are_on_both_sides() -> None:
    f, source = _twice()
    source.set(hl.Buffer(np.ones((8, 8), np.int32)))
    with emulated():
        out = f.realize([8, 8], EMULATED)
        assert out.has_device_allocation() and not out.device_dirty() and not out.host_dirty()
        assert out[3, 4] == 2
        # The next call finds the elements on the device.
        source.set(out)
        assert f.realize([8, 8], EMULATED)[7, 7] == 4


def test_a_given_buffer_stays_on_the_device_until_it_is_read() -> None:
    f, source = _twice()
    source.set(hl.Buffer(np.full((8, 8), 3, np.int32)))
    out = hl.Buffer(hl.Int(32), [8, 8])
    with emulated():
        f.realize(out, EMULATED)
        assert out.device_dirty()
        assert out[0, 0] == 6 and not out.device_dirty()
        f.realize(out, EMULATED)
        out[1, 1] = 7  # only that one
        assert out.host_dirty() and not out.device_dirty()
        assert (out[0, 0], out[1, 1]) == (6, 7)
        source.set(out)
        result = f.realize([8, 8], EMULATED)
        assert (result[0, 0], result[1, 1]) == (12, 14)


def test_arrays_of_others_are_true_on_the_host() -> None:
    """Nobody tells when an array is read or written."""
    f, source = _twice()
    array = np.full((8, 8), 3, np.int32)
    out = np.zeros((8, 8), np.int32)
    given, result = hl.Buffer(array), hl.Buffer(out)
    source.set(given)
    with emulated():
        f.realize(result, EMULATED)
        assert (out == 6).all() and not result.device_dirty()
        array[2, 2] = 10
        f.realize(result, EMULATED)
        assert out[2, 2] == 20 and out[0, 0] == 6


def test_flags_are_the_users_once_they_are_used() -> None:
    f, source = _twice()
    array = np.full((8, 8), 3, np.int32)
    given = hl.Buffer(array)
    source.set(given)
    with emulated():
        given.copy_to_device(EMULATED)
        assert given.has_device_allocation() and not given.host_dirty()
        array[0, 0] = 100
        assert f.realize([8, 8], EMULATED)[0, 0] == 6
        given.set_host_dirty()
        assert f.realize([8, 8], EMULATED)[0, 0] == 200


def test_parts_of_arrays_leave_the_rest_alone() -> None:
    f, source = _twice()
    array = np.arange(400, dtype=np.int32).reshape(20, 20)
    out = np.full((20, 20), -1, np.int32)
    source.set(hl.Buffer(array[2:10, 3:11]))
    with emulated():
        f.realize(hl.Buffer(out[5:13, 4:12]), EMULATED)
    want = np.full((20, 20), -1, np.int32)
    want[5:13, 4:12] = array[2:10, 3:11] * 2
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("target_text", ["host-cuda-emulated", "host-opencl"])
@pytest.mark.parametrize("order", ["reversed", "transposed", "strided", "one row", "planes"])
def test_layouts(order: str, target_text: str) -> None:
    device_target = hl.Target(target_text)
    if not hl.host_supports_target_device(device_target):
        pytest.skip("no device")
    f, source = _twice()
    base = np.arange(1024, dtype=np.int32).reshape(32, 32)
    out = np.zeros((32, 32), np.int32)
    views: dict[str, Any] = {
        "reversed": lambda a: a[7::-1, 15:7:-1],
        "transposed": lambda a: a[:8, :8].T,
        "strided": lambda a: a[1:17:2, 3:27:3],
        "one row": lambda a: np.broadcast_to(a[4, :8], (8, 8)),
        "planes": lambda a: a[3:11, 20:32],
    }
    view = views[order]
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    g = hl.Func("g")
    g[x, y] = source[x, y] * 2
    g.gpu_tile(x, y, xi, yi, 4, 4, hl.TailStrategy.GuardWithIf)
    source.dim(0).set_stride(hl.Expr())
    target = view(out) if order != "one row" else out[:8, :8]
    destination = hl.Buffer(target)
    g.output_buffer().dim(0).set_stride(hl.Expr())
    source.set(hl.Buffer(view(base)))
    with emulated():
        g.realize(destination, device_target)
    np.testing.assert_array_equal(target, view(base) * 2)
    assert (out != 0).sum() == (view(base) != 0).sum()


def test_crops_of_one_memory() -> None:
    """Two views of one Buffer in one call, and one after the other."""
    x, xi = hl.Var("x"), hl.Var("xi")
    source = hl.ImageParam(hl.Int(32), 1, "source")
    f = hl.Func("f")
    f[x] = source[x - 10] + 1
    f.gpu_tile(x, xi, 4, hl.TailStrategy.GuardWithIf)
    whole = hl.Buffer(hl.Int(32), [30])
    whole.fill(5)
    with emulated() as device:
        source.set(whole.cropped([(0, 10)]))
        f.realize(whole.cropped([(10, 10)]), EMULATED)
        assert [whole[i] for i in (0, 9, 10, 19, 20)] == [5, 5, 6, 6, 5]
        f.realize(whole.cropped([(10, 10)]), EMULATED)
        assert whole[10] == 6 and whole[20] == 5
        source.reset()
        del whole
        gc.collect()
        assert device.memory().used == 0


def test_memory_goes_back_with_the_last_buffer() -> None:
    device = emulated()
    with device:
        blur = Blur()
        out = blur.blur_y.realize(blur.sizes, EMULATED)
        view = out.cropped([(0, 4), (0, 4)])
        del out
        assert device.memory().used > 0
        assert view[0, 0] == blur.expected()[0, 0]
        del view
        blur.input.set(hl.Buffer(blur.array))
        gc.collect()
        assert device.memory().used == 0
        # What the device gave is kept for the next call.
        before = device.memory().allocations
        blur.check(EMULATED)
        assert device.memory().allocations == before
    blur.input.set(hl.Buffer(blur.array))
    gc.collect()
    device.close()


def test_methods() -> None:
    buffer = hl.Buffer(hl.Int(32), [4])
    buffer.fill(1)
    assert not buffer.has_device_allocation()
    with pytest.raises(NoDevice):
        buffer.set_device_dirty()
    assert buffer.copy_to_host() == 0 and buffer.device_sync() == 0 and buffer.device_free() == 0
    with emulated():
        buffer.copy_to_device(EMULATED)
        assert buffer.has_device_allocation()
        buffer.device_sync()
        buffer.set_device_dirty()
        assert buffer.device_dirty()
        buffer.set_device_dirty(False)
        assert not buffer.device_dirty()
        buffer.device_free()
        assert not buffer.has_device_allocation()
        buffer.device_malloc(EMULATED)
        assert buffer.has_device_allocation()
        buffer.device_deallocate()


def test_host_programs_see_what_devices_wrote() -> None:
    f, source = _twice()
    x, y = hl.Var("x"), hl.Var("y")
    middle = hl.Buffer(hl.Int(32), [8, 8])
    source.set(hl.Buffer(np.full((8, 8), 3, np.int32)))
    again = hl.ImageParam(hl.Int(32), 2, "again")
    h = hl.Func("h")
    h[x, y] = again[x, y] + 1
    with emulated():
        f.realize(middle, EMULATED)
        assert middle.device_dirty()
        again.set(middle)
        assert h.realize([8, 8])[2, 2] == 7  # on the host
        # A host's program writes it: the device's elements are old.
        again.set(hl.Buffer(np.full((8, 8), 20, np.int32)))
        h.realize(middle)
        assert middle.host_dirty()
        source.set(middle)
        assert f.realize([8, 8], EMULATED)[1, 1] == 42


def test_late_commands() -> None:
    """Kernels run when somebody waits for them; memory is not given to others before."""
    device = emulated(late=True)
    with device:
        blur = Blur()
        out = hl.Buffer(hl.Float(32), blur.sizes)
        for _ in range(3):
            blur.blur_y.realize(out, EMULATED)
        assert device.waiting() > 0
        np.testing.assert_array_equal(out.numpy_view(), blur.expected())
        assert device.waiting() == 0


def test_a_temporary_on_both_sides() -> None:
    """The host computes and reads what kernels read and compute."""
    x, xi = hl.Var("x"), hl.Var("xi")
    a, b, c, d = [hl.Func(n) for n in "abcd"]
    a[x] = x * x
    b[x] = a[x] + a[x + 1]
    c[x] = b[x] - a[x]
    d[x] = c[x] + b[x + 1] + a[x]
    a.compute_root()  # host
    b.compute_root().gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    c.compute_root()  # host
    d.gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    with emulated() as device:
        got = d.realize([50], EMULATED).numpy_view()
    n = np.arange(60)
    va = n * n
    vb = va[:-1] + va[1:]
    want = (vb[:-1] - va[:-2]) + vb[1:] + va[:-2]
    np.testing.assert_array_equal(got, want[:50])
    assert len(device.launches()) == 2


def test_kernels_in_a_parallel_loop_of_the_host() -> None:
    x, y, xi = hl.Var("x"), hl.Var("y"), hl.Var("xi")
    f, g = hl.Func("f"), hl.Func("g")
    g[x, y] = x + 10 * y
    f[x, y] = g[x, y] + g[x + 1, y]
    f.parallel(y).gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    g.compute_at(f, y).gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    with emulated() as device:
        got = f.realize([20, 6], EMULATED).numpy_view()
        yy, xx = np.mgrid[:6, :20]
        np.testing.assert_array_equal(got, 2 * xx + 1 + 20 * yy)
        assert len(device.launches()) == 12
        assert device.memory().used == 0


def test_both_sides_in_a_parallel_loop_of_the_host() -> None:
    """Tasks have temporaries of their own on both sides, and share an input and an output."""
    x, y, xi = hl.Var("x"), hl.Var("y"), hl.Var("xi")
    a, g, h, f = [hl.Func(n) for n in "aghf"]
    source = hl.ImageParam(hl.Int(32), 2, "source")
    a[x, y] = source[x, y]
    g[x, y] = a[x, y] * 2
    h[x, y] = g[x, y] + a[x, y]
    f[x, y] = h[x, y] + g[x, y]
    f.parallel(y)
    h.compute_at(f, y)  # the host
    for stage in (a, g):
        stage.compute_at(f, y).gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    yy, xx = np.mgrid[:40, :64]
    array = (xx + 10 * yy).astype(np.int32)
    with emulated() as device:
        for _ in range(5):
            source.set(hl.Buffer(array))
            got = f.realize([64, 40], EMULATED).numpy_view()
            np.testing.assert_array_equal(got, 5 * array)
        source.reset()
        gc.collect()
        assert device.memory().used == 0
