"""The action of the Laplacian on hexahedra, by sum factorisation.

For each cell the nodal values u are carried to the quadrature points one axis at a time, which
gives the three derivatives there; the symmetric matrix G of the cell (metric times quadrature
weight: xx, xy, xz, yy, yz, zz) makes the flux of them, and the transposed steps carry it back.
Sum factorisation is Orszag's: "Spectral methods for problems in complex geometries", J. Comput.
Phys. 37 (1980).

The stages between u and the result are Tuples, as their members come from the same loops: 16
temporaries a cell, 2 + 3 + 3 + 3 + 3 + 2. The moment that takes the most is the one at which the
three derivatives and the three fluxes are alive, 6 q^3 numbers.
"""

from __future__ import annotations

from typing import Any

from apps.fem.contraction import Contraction, lanes_of, schedule_sweep
from apps.fem.elements import factors
from apps.harness import App, Box, Extents

# Of the symmetric matrix of a point, the place of each entry in G.
METRIC = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


def build(hl: Any, *, degree: int | None = None, cells: int = 64) -> App:
    """Builds the operator: one compiled program for every degree, or for one that is known.

    Args:
        hl: The module to build with.
        degree: Degree p of the element, n = p + 1 and q = p + 2. Without it n and q are read
            from the shape of the factors at the call, and vectors are used where n fills them.
        cells: Usual number of cells.
    """
    f64 = hl.Float(64)
    u, metric = hl.ImageParam(f64, 4, "u"), hl.ImageParam(f64, 5, "G")
    b, d = hl.ImageParam(f64, 2, "B"), hl.ImageParam(f64, 2, "D")
    n, q = b.dim(0).extent(), b.dim(1).extent()
    if degree is not None:
        n, q = degree + 1, degree + 2
    node, point = hl.RDom([(0, n)], "node").x, hl.RDom([(0, q)], "point").x
    x, y, z, cell = here = hl.vars("x y z cell")

    # Vectors run along the quadrature points of x, so they need columns of B and D side by side.
    columns = hl.Func("B_columns"), hl.Func("D_columns")
    for copy, source in zip(columns, (b, d), strict=True):
        copy[x, y] = source[y, x]
        copy.compute_root()
    bt, dt = columns

    value = u[node, y, z, cell]
    along_x = Contraction(hl, "along_x", here, node, [(bt[x, node], value)], [(dt[x, node], value)])
    value, slope = along_x.parts(x, node, z, cell)
    along_xy = Contraction(
        hl, "along_xy", here, node,
        [(b[node, y], value)], [(b[node, y], slope)], [(d[node, y], value)],
    )  # fmt: skip
    value, slope_x, slope_y = along_xy.parts(x, y, node, cell)
    gradient = Contraction(
        hl, "gradient", here, node,
        [(b[node, z], slope_x)], [(b[node, z], slope_y)], [(d[node, z], value)],
    )  # fmt: skip

    flux = hl.Func("flux")
    flux[here] = _flux(metric, gradient.parts(*here), here)

    fx, fy, fz = [flux[x, y, point, cell][m] for m in range(3)]
    back_z = Contraction(
        hl, "back_z", here, point,
        [(b[z, point], fx)], [(b[z, point], fy)], [(d[z, point], fz)],
    )  # fmt: skip
    fx, fy, fz = back_z.parts(x, point, z, cell)
    back_yz = Contraction(
        hl, "back_yz", here, point,
        [(b[y, point], fx)], [(d[y, point], fy), (b[y, point], fz)],
    )  # fmt: skip
    fx, fyz = back_yz.parts(point, y, z, cell)
    laplacian = Contraction(hl, "laplacian", here, point, [(d[x, point], fx), (b[x, point], fyz)])

    output = laplacian.func
    when = schedule_sweep(
        hl, (along_x, along_xy), gradient, (back_z, back_yz, laplacian), degree, n
    )
    flux.compute_at(output, cell)
    wide = flux if when is None else flux.specialize(when)
    points = None if degree is None else degree + 2
    wide.vectorize(x, lanes_of(hl, points), hl.TailStrategy.ShiftInwards)

    for dimension in range(3):
        u.dim(dimension).set_bounds(0, n)
        metric.dim(dimension).set_bounds(0, q)
        output.output_buffer().dim(dimension).set_bounds(0, n)
    metric.dim(3).set_bounds(0, 6)
    for matrix in (b, d):
        matrix.dim(0).set_bounds(0, n)
        matrix.dim(1).set_bounds(0, q)

    usual = (8 if degree is None else degree) + 1
    return App(
        "hex_laplacian",
        output,
        {"u": u, "G": metric, "B": b, "D": d},
        extents=(usual, usual, usual, cells),
        smallest=(1, 1, 1, 0) if degree is None else (usual, usual, usual, 0),
        input_box=_input_box,
        fill=_fill,
        rtol=1e-10,
        atol_of_max=1e-12,
    )


def _flux(metric: Any, slope: Any, here: Any) -> tuple[Any, ...]:
    x, y, z, cell = here
    rows = []
    for row in METRIC:
        a, b, c = [metric[x, y, z, entry, cell] * s for entry, s in zip(row, slope, strict=True)]
        rows.append(a + b + c)
    return tuple(rows)


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    n, cells = extents[0], extents[3]
    q = n + 1
    if name == "u":
        return mins, extents
    if name == "G":
        return (0, 0, 0, 0, mins[3]), (q, q, q, 6, cells)
    return (0, 0), (n, q)


def _fill(name: str, shape: tuple[int, ...], rng: Any) -> Any:
    if name in ("B", "D"):
        return factors(shape[1] - 1)["BD".index(name)]
    return rng.standard_normal(shape)
