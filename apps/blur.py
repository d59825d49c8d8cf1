"""A 3 x 3 box blur of a 16-bit image in two passes: the smallest pipeline that slides.

Sums wrap at 65536, so input values should stay at or below 21845. The input must cover two
more columns and rows than the output: there is no boundary condition.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents


def build(hl: Any, *, vector: int = 16, strip: int = 32) -> App:
    """Builds the blur with its CPU schedule: parallel strips of rows, `blur_x` slides in each.

    Args:
        hl: The module to build with.
        vector: Lanes of both stages.
        strip: Rows of the output in one parallel task.
    """
    x, y, yi = hl.vars("x y yi")
    source = hl.ImageParam(hl.UInt(16), 2, "input")
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")

    blur_x[x, y] = (source[x, y] + source[x + 1, y] + source[x + 2, y]) / 3
    blur_y[x, y] = (blur_x[x, y] + blur_x[x, y + 1] + blur_x[x, y + 2]) / 3

    blur_y.split(y, y, yi, strip).parallel(y).vectorize(x, vector)
    blur_x.store_at(blur_y, y).compute_at(blur_y, x).vectorize(x, vector)

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


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, (extents[0] + 2, extents[1] + 2)
