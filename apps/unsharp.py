"""Sharpens a colour image: the difference to a 7-tap Gaussian blur of its grey value is added.

The division by the grey value is unguarded, so inputs must be above 0.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from apps.harness import App, Box, Extents


def build(hl: Any, *, sigma: float = 1.5, strip: int = 32, gpu: bool = False) -> App:
    """Builds the sharpening filter.

    On the CPU three producers (`gray`, `blur_y`, `ratio`) slide in one loop over the rows of a
    strip; on a GPU a block keeps a tile of `gray` and `blur_y` in shared memory.

    Args:
        hl: The module to build with.
        sigma: Standard deviation of the blur in pixels.
        strip: Rows of the output in one parallel task.
        gpu: Schedule for a GPU.
    """
    x, y, c = hl.vars("x y c")
    source = hl.ImageParam(hl.Float(32), 3, "input")
    kernel, gray, output = hl.Func("kernel"), hl.Func("gray"), hl.Func("unsharp")
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")
    sharpen, ratio = hl.Func("sharpen"), hl.Func("ratio")

    # The divisor is rounded to float32 at each step, so that its bits do not depend on the
    # precision in which a compiler folds constants.
    divisor = _f32(_f32(math.sqrt(_f32(2 * math.pi))) * _f32(sigma))
    kernel[x] = hl.exp(hl.f32(-x * x) / hl.f32(2 * sigma * sigma)) / hl.f32(divisor)

    edge = hl.BoundaryConditions.repeat_edge(source)
    gray[x, y] = (
        hl.f32(0.299) * edge[x, y, 0]
        + hl.f32(0.587) * edge[x, y, 1]
        + hl.f32(0.114) * edge[x, y, 2]
    )
    blur_y[x, y] = (
        kernel[0] * gray[x, y]
        + kernel[1] * (gray[x, y - 1] + gray[x, y + 1])
        + kernel[2] * (gray[x, y - 2] + gray[x, y + 2])
        + kernel[3] * (gray[x, y - 3] + gray[x, y + 3])
    )
    blur_x[x, y] = (
        kernel[0] * blur_y[x, y]
        + kernel[1] * (blur_y[x - 1, y] + blur_y[x + 1, y])
        + kernel[2] * (blur_y[x - 2, y] + blur_y[x + 2, y])
        + kernel[3] * (blur_y[x - 3, y] + blur_y[x + 3, y])
    )
    sharpen[x, y] = hl.f32(2.0) * gray[x, y] - blur_x[x, y]
    ratio[x, y] = sharpen[x, y] / gray[x, y]
    output[x, y, c] = ratio[x, y] * source[x, y, c]

    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    if gpu:
        _schedule_gpu(hl, output, gray, blur_y, ratio)
    else:
        yo, yi = hl.vars("yo yi")
        output.split(y, yo, yi, strip).vectorize(x, vector).parallel(yo).reorder(x, c, yi, yo)
        for stage in (gray, blur_y, ratio):
            stage.store_at(output, yo).compute_at(output, yi).vectorize(x, vector)

    return App(
        "unsharp",
        output,
        {"input": source},
        extents=(1536, 2560, 3),
        smallest=(vector, strip, 1),
        cases=[((0, 0, 0), (67, 45, 3)), ((0, 0, 0), (131, 97, 3))],
        input_box=_input_box,
        fill=lambda name, shape, rng: (0.05 + 0.95 * rng.random(shape)).astype("float32"),
        rtol=1e-5,
        atol_of_max=1e-6,
    )


def _schedule_gpu(hl: Any, output: Any, gray: Any, blur_y: Any, ratio: Any) -> None:
    """Tiles of 32 x 32, one thread a pixel; `ratio` stays in a register."""
    x, y, c, xi, yi = hl.vars("x y c xi yi")
    output.reorder(c, x, y).bound(c, 0, 3).unroll(c).gpu_tile(x, y, xi, yi, 32, 32)
    ratio.compute_at(output, xi)
    gray.compute_at(output, x).tile(x, y, xi, yi, 2, 2).unroll(xi).unroll(yi).gpu_threads(x, y)
    blur_y.compute_at(output, x).unroll(x, 2).gpu_threads(x, y)


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, extents


def _f32(value: float) -> float:
    """Rounds to float32, for constants whose bits matter."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
