"""The mass matrix of quadrilaterals of high degree, in the numbering of the whole mesh.

The local matrix of a cell, ((p + 1)^2)^2 doubles in tensor order, is made by sum factorisation and
then written out with its rows and columns in another order: vertices, edges, inside. At degree 32
it takes 9,487,368 bytes, more than the stack that most systems give a thread.
"""

from __future__ import annotations

from typing import Any

from apps.fem.contraction import Contraction, lanes_of, rows_of
from apps.fem.elements import factors
from apps.harness import App, Box, Extents


def build(hl: Any, *, degree: int = 32, cells: int = 4) -> App:
    """Builds the assembly of element matrices of one degree.

    Args:
        hl: The module to build with.
        degree: Degree p of the element, n = p + 1 nodes and q = p + 2 points along an axis.
        cells: Usual number of cells; they run in parallel.
    """
    f64 = hl.Float(64)
    b, weight = hl.ImageParam(f64, 2, "B"), hl.ImageParam(f64, 3, "w")
    order = hl.ImageParam(hl.Int(32), 1, "order")
    n, q = degree + 1, degree + 2
    xq, yq = hl.RDom([(0, q)], "xq").x, hl.RDom([(0, q)], "yq").x
    jx, jy, ix, iy, i, j, cell = hl.vars("jx jy ix iy i j cell")

    # For each row of points the one-dimensional mass matrix, then their sum over the rows.
    of_row = Contraction(
        hl, "row_mass", (jx, ix, jy, cell), xq, [(b[ix, xq] * weight[xq, jy, cell], b[jx, xq])]
    )
    local = Contraction(
        hl, "local", (jx, jy, ix, iy, cell), yq,
        [(b[iy, yq] * of_row.func[jx, ix, yq, cell], b[jy, yq])],
    )  # fmt: skip
    matrix = hl.Func("element_mass")
    row, column = [hl.clamp(order[k], 0, n * n - 1) for k in (i, j)]
    matrix[j, i, cell] = local.func[column % n, column / n, row % n, row / n, cell]

    matrix.parallel(cell)
    tile = lanes_of(hl, n), rows_of(n)
    for stage, rows in ((of_row, ix), (local, jy)):
        stage.func.compute_at(matrix, cell)
        stage.schedule((jx, rows), tile)

    b.dim(0).set_bounds(0, n)
    b.dim(1).set_bounds(0, q)
    order.dim(0).set_bounds(0, n * n)
    for dimension in range(2):
        weight.dim(dimension).set_bounds(0, q)
        matrix.output_buffer().dim(dimension).set_bounds(0, n * n)
    return App(
        "element_mass",
        matrix,
        {"B": b, "w": weight, "order": order},
        values={"order": mesh_order(degree)},
        extents=(n * n, n * n, cells),
        smallest=(n * n, n * n, 0),
        input_box=lambda name, mins, extents: _input_box(name, mins, extents, degree),
        fill=_fill,
        rtol=1e-10,
        atol_of_max=1e-12,
    )


def mesh_order(degree: int) -> Any:
    """The tensor indices (y n + x) of the nodes: the 4 vertices, the edges, the inside."""
    import numpy as np

    n = degree + 1
    border = (np.arange(n) == 0) | (np.arange(n) == degree)
    dimension = (~border[:, None]).astype(int) + (~border[None, :]).astype(int)
    return np.argsort(dimension.ravel(), kind="stable").astype(np.int32)


def _input_box(name: str, mins: Extents, extents: Extents, degree: int) -> Box:
    q = degree + 2
    if name == "w":
        return (0, 0, mins[2]), (q, q, extents[2])
    if name == "B":
        return (0, 0), (degree + 1, q)
    return (0,), ((degree + 1) ** 2,)


def _fill(name: str, shape: tuple[int, ...], rng: Any) -> Any:
    if name == "B":
        return factors(shape[1] - 1)[0]
    return rng.random(shape)
