"""A separable convolution whose block holds its tile with the halo, then the rows' sums."""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

WEIGHTS = (1, 6, 15, 20, 15, 6, 1)
RADIUS = len(WEIGHTS) // 2


def build(hl: Any, *, tile: tuple[int, int] = (32, 16)) -> App:
    """Builds a binomial filter of 7 x 7 taps over uint8, with int32 sums.

    Args:
        hl: The module to build with.
        tile: Width and height of a block's piece of the output.
    """
    x, y, xi, yi = hl.vars("x y xi yi")
    source = hl.ImageParam(hl.UInt(8), 2, "input")
    edge = hl.BoundaryConditions.repeat_edge(source)
    halo, rows, output = hl.Func("halo"), hl.Func("rows"), hl.Func("smooth")
    halo[x, y] = edge[x, y]
    rows[x, y] = _weighted(hl, [hl.u16(halo[x + i, y]) for i in range(-RADIUS, RADIUS + 1)])
    columns = _weighted(hl, [hl.i32(rows[x, y + i]) for i in range(-RADIUS, RADIUS + 1)])
    output[x, y] = hl.u8((columns + 2048) / 4096)

    output.gpu_tile(x, y, xi, yi, *tile, hl.TailStrategy.GuardWithIf)
    halo.compute_at(output, x).gpu_threads(x, y)
    rows.compute_at(output, x).gpu_threads(x, y)

    return App(
        "separable",
        output,
        {"input": source},
        extents=(200, 150),
        smallest=(1, 1),
        cases=[((0, 0), (67, 45)), ((0, 0), (1, 1))],
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.integers(0, 256, shape).astype("uint8"),
    )


def _weighted(hl: Any, terms: list[Any]) -> Any:
    total = terms[0]
    for weight, term in zip(WEIGHTS[1:], terms[1:], strict=True):
        total = total + term * weight
    return total


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, extents
