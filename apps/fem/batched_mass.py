"""The matrix-free action of the mass matrix on batches of hexahedra, by sum factorisation.

A batch of V cells goes through the stages together, so each temporary holds V cells: B along x, y
and z, the weight of each quadrature point, then the transposed steps back. V is known only at
the call, and so are the bytes of the five temporaries.
"""

from __future__ import annotations

from typing import Any

from apps.fem.contraction import Contraction, schedule_sweep
from apps.fem.elements import factors
from apps.harness import App, Box, Extents


def build(hl: Any, *, degree: int | None = None, batches: int = 8, batch: int = 16) -> App:
    """Builds the operator: one compiled program for every degree, or for one that is known.

    Args:
        hl: The module to build with.
        degree: Degree p of the element, n = p + 1 and q = p + 2. Without it n and q are read
            from the shape of the factor at the call, and vectors are used where n fills them.
        batches: Usual number of batches; they run in parallel.
        batch: Usual value of V, the cells of a batch.
    """
    f64 = hl.Float(64)
    u, weight = hl.ImageParam(f64, 5, "u"), hl.ImageParam(f64, 5, "w")
    b, together = hl.ImageParam(f64, 2, "B"), hl.Param(hl.Int(32), "V")
    n, q = b.dim(0).extent(), b.dim(1).extent()
    if degree is not None:
        n, q = degree + 1, degree + 2
    node, point = hl.RDom([(0, n)], "node").x, hl.RDom([(0, q)], "point").x
    x, y, z, cell, group = here = hl.vars("x y z cell group")

    # Vectors run along the quadrature points of x, so they need columns of B side by side.
    columns = hl.Func("B_columns")
    columns[x, y] = b[y, x]
    columns.compute_root()

    def contract(name: str, over: Any, factor: Any, value: Any, scale: Any = None) -> Contraction:
        return Contraction(hl, name, here, over, [(factor, value)], scale=scale)

    along_x = contract("along_x", node, columns[x, node], u[node, y, z, cell, group])
    along_xy = contract("along_xy", node, b[node, y], along_x.func[x, node, z, cell, group])
    weighted = contract(
        "weighted", node, b[node, z], along_xy.func[x, y, node, cell, group], weight[here]
    )
    back_z = contract("back_z", point, b[z, point], weighted.func[x, y, point, cell, group])
    back_yz = contract("back_yz", point, b[y, point], back_z.func[x, point, z, cell, group])
    mass = contract("mass", point, b[x, point], back_yz.func[point, y, z, cell, group])

    output = mass.func
    schedule_sweep(hl, (along_x, along_xy), weighted, (back_z, back_yz, mass), degree, n)

    result = output.output_buffer()
    for dimension in range(3):
        u.dim(dimension).set_bounds(0, n)
        weight.dim(dimension).set_bounds(0, q)
        result.dim(dimension).set_bounds(0, n)
    for buffer in (u, weight, result):
        buffer.dim(3).set_bounds(0, together)
    b.dim(0).set_bounds(0, n)
    b.dim(1).set_bounds(0, q)

    usual = (8 if degree is None else degree) + 1
    return App(
        "batched_mass",
        output,
        {"u": u, "w": weight, "B": b},
        params={"V": together},
        values={"V": batch},
        extents=(usual, usual, usual, batch, batches),
        smallest=(1, 1, 1, 0, 0) if degree is None else (usual, usual, usual, 0, 0),
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
        return (0, 0, 0, *mins[3:]), (q, q, q, *extents[3:])
    return (0, 0), (n, q)


def _fill(name: str, shape: tuple[int, ...], rng: Any) -> Any:
    if name == "B":
        return factors(shape[1] - 1)[0]
    return rng.random(shape)
