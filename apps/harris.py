"""Harris corner response of a colour image: gradients, their products, 3 x 3 sums.

The determinant cancels, so results of different compilers are compared with an absolute
tolerance besides the relative one. The input is read two pixels beyond the output.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents


def build(hl: Any, *, strip: int = 32, gpu: bool = False) -> App:
    """Builds the corner detector.

    On the CPU `gray` slides in the rows of a strip; the two gradients slide too and share one
    loop nest by `compute_with`. On a GPU all three are tiles in shared memory, read through
    patches in registers.

    Args:
        hl: The module to build with.
        strip: Rows of the output in one parallel task.
        gpu: Schedule for a GPU.
    """
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.Float(32), 3, "input")
    gray, output = hl.Func("gray"), hl.Func("harris")
    gradient_x, gradient_y = hl.Func("Ix"), hl.Func("Iy")

    gray[x, y] = (
        hl.f32(0.299) * source[x, y, 0]
        + hl.f32(0.587) * source[x, y, 1]
        + hl.f32(0.114) * source[x, y, 2]
    )
    _define_gradients(hl, gray, gradient_x, gradient_y, x, y)

    products = [
        _product(hl, "Ixx", gradient_x, gradient_x, x, y),
        _product(hl, "Iyy", gradient_y, gradient_y, x, y),
        _product(hl, "Ixy", gradient_x, gradient_y, x, y),
    ]
    sxx, syy, sxy = (_sum3x3(hl, "S" + f.name()[1:3], f, x, y) for f in products)
    determinant, trace = hl.Func("det"), hl.Func("trace")
    determinant[x, y] = sxx[x, y] * syy[x, y] - sxy[x, y] * sxy[x, y]
    trace[x, y] = sxx[x, y] + syy[x, y]
    output[x, y] = determinant[x, y] - hl.f32(0.04) * trace[x, y] * trace[x, y]

    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    if gpu:
        _schedule_gpu(hl, output, gray, gradient_x, gradient_y)
    else:
        yi = hl.Var("yi")
        output.split(y, y, yi, strip).parallel(y).vectorize(x, vector)
        for stage in (gray, gradient_x, gradient_y):
            stage.store_at(output, y).compute_at(output, yi).vectorize(x, vector)
        gradient_x.compute_with(gradient_y, x)

    return App(
        "harris",
        output,
        {"input": source},
        mins=(3, 3),
        extents=(1530, 2554),
        smallest=(vector, strip),
        cases=[((3, 3), (67, 45)), ((2, 5), (131, 97)), ((2, 2), (vector, strip))],
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.random(shape).astype("float32"),
        rtol=1e-5,
        atol_of_max=1e-6,
    )


def _schedule_gpu(hl: Any, output: Any, gray: Any, ix: Any, iy: Any) -> None:
    """Blocks of 62 x 14 pixels, two pixels a thread; with their borders 64 x 16."""
    x, y, xi, yi = hl.vars("x y xi yi")
    output.gpu_tile(x, y, xi, yi, 62, 14).unroll(xi, 2)
    gray.compute_at(output, x).tile(x, y, xi, yi, 3, 2).unroll(xi).unroll(yi).gpu_threads(x, y)
    for gradient in (iy, ix):
        gradient.compute_at(output, x).unroll(x, 2).gpu_threads(x, y)
    ix.compute_with(iy, x)
    gray.in_(iy).compute_at(iy, x).vectorize(x, 2).unroll(x).unroll(y)
    for gradient in (iy, ix):
        gradient.in_().compute_at(output, xi).vectorize(x, 2).unroll(x).unroll(y)


def _define_gradients(hl: Any, gray: Any, ix: Any, iy: Any, x: Any, y: Any) -> None:
    """Defines the two Sobel gradients of `gray`."""
    one, two = hl.f32(1.0 / 12), hl.f32(2.0 / 12)
    minus_one, minus_two = hl.f32(-1.0 / 12), hl.f32(-2.0 / 12)
    iy[x, y] = (
        gray[x - 1, y - 1] * minus_one
        + gray[x - 1, y + 1] * one
        + gray[x, y - 1] * minus_two
        + gray[x, y + 1] * two
        + gray[x + 1, y - 1] * minus_one
        + gray[x + 1, y + 1] * one
    )
    ix[x, y] = (
        gray[x - 1, y - 1] * minus_one
        + gray[x + 1, y - 1] * one
        + gray[x - 1, y] * minus_two
        + gray[x + 1, y] * two
        + gray[x - 1, y + 1] * minus_one
        + gray[x + 1, y + 1] * one
    )


def _product(hl: Any, name: str, a: Any, b: Any, x: Any, y: Any) -> Any:
    f = hl.Func(name)
    f[x, y] = a[x, y] * b[x, y]
    return f


def _sum3x3(hl: Any, name: str, f: Any, x: Any, y: Any) -> Any:
    """The sum over the 3 x 3 neighbourhood, the x offset outer."""
    terms = [f[x + dx, y + dy] for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    g = hl.Func(name)
    g[x, y] = total
    return g


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return (mins[0] - 2, mins[1] - 2, 0), (extents[0] + 4, extents[1] + 4, 3)
