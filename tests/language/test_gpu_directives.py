"""The directives that map loops to a GPU: forms, what they record, what they refuse."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

import bayplan as hl

halide = pytest.importorskip("halide")

GPU_FORMS = [
    "f.gpu_blocks(y)",
    "f.gpu_blocks(x, y)",
    "f.gpu_blocks(x, y, z)",
    "f.gpu_blocks(z, device_api=hl.DeviceAPI.CUDA)",
    "f.gpu_blocks(block_x=y, block_y=z)",
    "f.gpu_blocks(z, hl.DeviceAPI.OpenCL)",
    "f.gpu_blocks(z).gpu_threads(x, y)",
    "f.gpu_blocks(z).gpu_threads(thread_x=x, thread_y=y)",
    "f.gpu_blocks(z).gpu_threads(y).gpu_lanes(x)",
    "f.gpu_blocks(z).gpu_lanes(thread_x=x)",
    "f.gpu_single_thread()",
    "f.gpu_single_thread(hl.DeviceAPI.CUDA)",
    "f.gpu(z, y)",
    "f.gpu(block_x=z, thread_x=x)",
    "f.split(x, x, xi, 4).split(y, y, yi, 4).reorder(xi, yi, x, y).gpu(x, y, xi, yi)",
    "f.tile(x, y, xi, yi, 4, 4).split(z, z, zi, 2).reorder(xi, yi, zi, x, y, z)"
    ".gpu(x, y, z, xi, yi, zi)",
    "f.gpu_tile(x, xi, 4)",
    "f.gpu_tile(x, bx, xi, 4)",
    "f.gpu_tile(x, y, xi, yi, 4, 8)",
    "f.gpu_tile(x, y, bx, by, xi, yi, 4, 8)",
    "f.gpu_tile(x, y, z, xi, yi, zi, 4, 8, 2)",
    "f.gpu_tile(x, y, z, bx, by, bz, xi, yi, zi, 4, 8, 2)",
    "f.gpu_tile(x, xi, 4, hl.TailStrategy.GuardWithIf)",
    "f.gpu_tile(x, y, xi, yi, 4, 8, hl.TailStrategy.RoundUp, hl.DeviceAPI.CUDA)",
    "f.gpu_tile(x, xi, 4, tail=hl.TailStrategy.RoundUp, device_api=hl.DeviceAPI.OpenCL)",
    "f.gpu_tile(x=x, tx=xi, x_size=4)",
    "f.gpu_tile(x=x, bx=bx, tx=xi, x_size=4)",
    "f.gpu_tile(x, y, tx=xi, ty=yi, x_size=4, y_size=8)",
    "f.gpu_tile(x, y, bx=bx, by=by, tx=xi, ty=yi, x_size=4, y_size=8)",
    "f.reorder(z, x, y).gpu_tile(x, y, xi, yi, 4, 8)",
    "f.gpu_tile(x, xi, 4).gpu_threads(y)",
]
_NAMES = "x y z xi yi zi bx by bz".split()


def _nest(module: Any, text: str) -> str:
    names = {name: module.Var(name) for name in _NAMES}
    f = module.Func("f")
    f[names["x"], names["y"], names["z"]] = names["x"] + names["y"] * names["z"]
    exec(text, {"hl": module, "f": f, **names})
    f.bound(names["x"], 0, 64)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        f.print_loop_nest()
    return out.getvalue()


@pytest.mark.parametrize("text", GPU_FORMS)
def test_forms(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    ours = _nest(hl, text)
    capfd.readouterr()
    wheel = _nest(halide, text)
    wheel = wheel or "".join(capfd.readouterr())
    without_numbers = [_plain(t) for t in (ours, wheel)]
    assert without_numbers[0] == without_numbers[1]
    assert "gpu_" in ours


def test_loops_that_stages_share(capfd: pytest.CaptureFixture[str]) -> None:
    texts = []
    for module in (hl, halide):
        x, y, xi = [module.Var(name) for name in ("x", "y", "xi")]
        f, g, h = [module.Func(name) for name in "fgh"]
        f[x, y] = x + y
        g[x, y] = x * y
        h[x, y] = f[x, y] + g[x, y]
        h.gpu_tile(x, xi, 8)
        f.compute_at(h, x).gpu_threads(x)
        g.compute_at(h, x).gpu_threads(x).compute_with(f, x)
        h.print_loop_nest()
        texts.append("".join(capfd.readouterr()))
    assert texts[0] == texts[1] and "fused.x" in texts[0], texts


def _plain(text: str) -> str:
    """The text in which generated names have no numbers."""
    import re

    return re.sub(r"\bv\d+\b", "v", text)


@pytest.mark.parametrize(
    "text",
    [
        "f.gpu_blocks()",
        "f.gpu_blocks(x, y, z, xi)",
        "f.gpu_threads(3)",
        "f.gpu_lanes(x, 'cuda')",
        "f.gpu_lanes(x, y)",
        "f.gpu(x, y, z)",
        "f.gpu_tile(x, xi)",
        "f.gpu_tile(x, y, xi, yi, 4)",
        "f.gpu_tile(x, xi, 4, wrong=3)",
        "f.gpu_blocks(x, wrong=y)",
    ],
)
def test_wrong_forms(text: str) -> None:
    with pytest.raises(TypeError):
        _nest(hl, text)
    with pytest.raises(TypeError):
        _nest(halide, text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("f.gpu_blocks(xi)", "no loop xi"),
        ("f.gpu_tile(x, y, xi, 4)", "names a loop already"),
        ("f.gpu_tile(x, xi, 0)", "must be positive"),
    ],
)
def test_wrong_loops(text: str, part: str) -> None:
    with pytest.raises(hl.ScheduleError, match=part) as caught:
        _nest(hl, text)
    assert caught.value.where is not None


def test_updates_and_races() -> None:
    x, y, u = hl.vars("x y u")
    f, r = hl.Func("f"), hl.RDom([(0, 8)])
    f[x, y] = 0
    f[x, y] += r.x
    f.update().gpu_blocks(y).gpu_threads(x)
    with pytest.raises(hl.ScheduleError, match="may be a race"):
        f.update().gpu_lanes(r.x)
    with pytest.raises(hl.ScheduleError, match="may be a race"):
        f.update().gpu_tile(r.x, hl.RVar("ro"), hl.RVar("ri"), 4)


def test_line_and_device_are_kept() -> None:
    x, xi = hl.vars("x xi")
    f = hl.Func("f")
    f[x] = x
    f.gpu_tile(x, xi, 4, device_api=hl.DeviceAPI.CUDA)
    inner, outer, _ = f.function().definition(0).schedule.dims
    for dim in (inner, outer):
        assert dim.device is hl.DeviceAPI.CUDA
        assert dim.where is not None and dim.where.file.endswith("test_gpu_directives.py")
    f.serial(x)
    assert outer.device is hl.DeviceAPI.None_


def test_reorder_after_a_single_thread() -> None:
    x, y = hl.vars("x y")
    f = hl.Func("f")
    f[x, y] = x
    f.gpu_single_thread().reorder(y, x)
    with pytest.raises(hl.ScheduleError, match="innermost first: y, x, v"):
        f.gpu_threads(hl.Var("nothing"))


def test_copies_are_refused() -> None:
    f = hl.Func("f")
    f[hl.Var("x")] = 1
    for directive in (f.copy_to_device, f.copy_to_host):
        with pytest.raises(hl.ScheduleError, match="is not there in this version"):
            directive()
