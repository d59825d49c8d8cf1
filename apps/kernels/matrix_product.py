"""The product of two matrices: a block keeps tiles of both in shared memory, two of each.

While a block multiplies one pair of tiles it may already load the next pair: the tiles are folded
storage of two steps, so the writes of one step and the reads of the step before meet no byte.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

TILE = 16
DEPTH = 8


def build(hl: Any, *, depth: int = 64, dtype: str = "float32") -> App:
    """Builds C = A B, float32 or int32, with one thread for 2 x 2 elements of C.

    Args:
        hl: The module to build with.
        depth: Columns of A and rows of B at the usual size.
        dtype: Element type, "float32" or "int32".
    """
    t = hl.Float(32) if dtype == "float32" else hl.Int(32)
    x, y, xi, yi, xt, yt = hl.vars("x y xi yi xt yt")
    a, b = hl.ImageParam(t, 2, "A"), hl.ImageParam(t, 2, "B")
    k = hl.RDom([(0, a.width())], "k").x
    product, output = hl.Func("product"), hl.Func("C")
    product[x, y] += a[k, y] * b[x, k]
    output[x, y] = product[x, y]

    ko, ki = hl.RVar("ko"), hl.RVar("ki")
    round_up = hl.TailStrategy.RoundUp
    output.tile(x, y, xi, yi, TILE, TILE, round_up)
    output.tile(xi, yi, xt, yt, 2, 2).unroll(xt).unroll(yt)
    output.gpu_blocks(x, y).gpu_threads(xi, yi)
    product.compute_at(output, x).tile(x, y, xt, yt, 2, 2).unroll(xt).unroll(yt).gpu_threads(x, y)
    update = product.update()
    update.split(k, ko, ki, DEPTH).tile(x, y, xt, yt, 2, 2)
    update.reorder(xt, yt, ki, x, y, ko).unroll(xt).unroll(yt).gpu_threads(x, y)
    for matrix, along in ((a, 0), (b, 1)):
        tile = matrix.in_()
        vars_ = tile.args()
        tile.store_at(output, x).compute_at(product, ko).gpu_threads(*vars_)
        tile.fold_storage(vars_[along], 2 * DEPTH)

    for matrix in (a, b):
        matrix.dim(0).set_min(0)
        matrix.dim(1).set_min(0)
    a.dim(0).set_extent(a.width() / DEPTH * DEPTH)
    b.dim(1).set_extent(a.width() / DEPTH * DEPTH)

    def input_box(name: str, mins: Extents, extents: Extents) -> Box:
        return (0, 0), ((depth, extents[1]) if name == "A" else (extents[0], depth))

    return App(
        "matrix_product",
        output,
        {"A": a, "B": b},
        extents=(64, 48),
        smallest=(TILE, TILE),
        multiples=(TILE, TILE),
        input_box=input_box,
        fill=lambda name, shape, rng: rng.integers(-9, 10, shape).astype(dtype),
        rtol=1e-5 if dtype == "float32" else 0.0,
        atol_of_max=1e-6,
    )
