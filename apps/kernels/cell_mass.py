"""The action of the mass matrix of one hexahedron a block, all its temporaries in shared memory."""

from __future__ import annotations

from typing import Any

from apps.fem.elements import factors
from apps.harness import App, Box, Extents


def build(hl: Any, *, degree: int = 3) -> App:
    """Builds the operator: n = degree + 1 nodes, q = degree + 2 points along an axis.

    B along x, y and z, the weight of each point, then the transposed steps; a thread has one
    column of a stage's result along z.

    Args:
        hl: The module to build with.
        degree: Degree of the element.
    """
    n, q = degree + 1, degree + 2
    f64 = hl.Float(64)
    u, weight = hl.ImageParam(f64, 4, "u"), hl.ImageParam(f64, 4, "w")
    b = hl.ImageParam(f64, 2, "B")
    x, y, z, cell = here = hl.vars("x y z cell")
    node, point = hl.RDom([(0, n)], "node").x, hl.RDom([(0, q)], "point").x

    def stage(name: str, over: Any, value: Any, scale: Any = None) -> Any:
        total, f = hl.Func(f"{name}_sum"), hl.Func(name)
        total[here] += value
        f[here] = total[here] if scale is None else scale * total[here]
        total.compute_at(f, z).update().reorder(over, x, y, z, cell).unroll(over)
        return f

    along_x = stage("along_x", node, b[node, x] * u[node, y, z, cell])
    along_xy = stage("along_xy", node, b[node, y] * along_x[x, node, z, cell])
    weighted = stage("weighted", node, b[node, z] * along_xy[x, y, node, cell], weight[here])
    back_z = stage("back_z", point, b[z, point] * weighted[x, y, point, cell])
    back_yz = stage("back_yz", point, b[y, point] * back_z[x, point, z, cell])
    output = stage("mass", point, b[x, point] * back_yz[point, y, z, cell])

    output.bound(x, 0, n).bound(y, 0, n).bound(z, 0, n)
    output.reorder(z, x, y, cell).gpu_blocks(cell).gpu_threads(x, y)
    for f in (along_x, along_xy, weighted, back_z, back_yz):
        f.compute_at(output, cell).reorder(z, x, y).gpu_threads(x, y)
    for dimension in range(3):
        u.dim(dimension).set_bounds(0, n)
        weight.dim(dimension).set_bounds(0, q)
    b.dim(0).set_bounds(0, n)
    b.dim(1).set_bounds(0, q)

    return App(
        "cell_mass",
        output,
        {"u": u, "w": weight, "B": b},
        extents=(n, n, n, 6),
        smallest=(n, n, n, 0),
        input_box=_input_box,
        fill=_fill,
        rtol=1e-10,
        atol_of_max=1e-12,
    )


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    n, q = extents[0], extents[0] + 1
    if name == "u":
        return mins, extents
    if name == "w":
        return (0, 0, 0, mins[3]), (q, q, q, extents[3])
    return (0, 0), (n, q)


def _fill(name: str, shape: Extents, rng: Any) -> Any:
    if name == "B":
        return factors(shape[1] - 1)[0]
    return rng.standard_normal(shape)
