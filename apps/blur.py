"""A 3 x 3 box blur of a 16-bit image in two passes: the smallest pipeline that slides.

Sums wrap at 65536, so input values should stay at or below 21845. The input must cover two
more columns and rows than the output: there is no boundary condition.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

GPU_SCHEDULES = ("inline", "cache", "slide", "slide_vector")


def build(hl: Any, *, vector: int = 16, strip: int = 32, gpu: str | None = None) -> App:
    """Builds the blur: parallel strips of rows, `blur_x` slides in each; or blocks of a GPU.

    Args:
        hl: The module to build with.
        vector: Lanes of both stages.
        strip: Rows of the output in one parallel task.
        gpu: None for the CPU, else one of GPU_SCHEDULES.
    """
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.UInt(16), 2, "input")
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")

    blur_x[x, y] = (source[x, y] + source[x + 1, y] + source[x + 2, y]) / 3
    blur_y[x, y] = (blur_x[x, y] + blur_x[x, y + 1] + blur_x[x, y + 2]) / 3

    if gpu is None:
        yi = hl.Var("yi")
        blur_y.split(y, y, yi, strip).parallel(y).vectorize(x, vector)
        blur_x.store_at(blur_y, y).compute_at(blur_y, x).vectorize(x, vector)
    else:
        _schedule_gpu(hl, gpu, blur_x, blur_y, x, y)

    return App(
        "blur",
        blur_y,
        {"input": source},
        extents=(2560, 1920),
        smallest=(vector, strip),
        cases=[((0, 0), (37, 45)), ((3, -5), (131, 97)), ((0, 0), (vector, strip))],
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.integers(0, 4096, shape).astype("uint16"),
    )


def _schedule_gpu(hl: Any, which: str, blur_x: Any, blur_y: Any, x: Any, y: Any) -> None:
    """`cache` keeps a tile of `blur_x` in shared memory; in `slide` a thread has eight rows."""
    xi, yi, rows = hl.vars("xi yi rows")
    if which == "slide_vector":
        blur_y.vectorize(x, 2)
    if which in ("slide", "slide_vector"):
        blur_y.split(y, y, rows, 8).reorder(rows, x).unroll(rows)
        blur_y.gpu_tile(x, y, xi, yi, 32, 1)
        return
    blur_y.gpu_tile(x, y, xi, yi, 32, 8)
    if which == "cache":
        blur_x.compute_at(blur_y, x).gpu_threads(x, y)


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, (extents[0] + 2, extents[1] + 2)
