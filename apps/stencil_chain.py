"""A chain of 5 x 5 integer stencils: deep, so that compile time and sliding are what it tests.

Everything is uint16 and wraps. Groups of eleven stages share one pass over memory.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

GROUP = 11
MARGIN = 4
TILES = 4


def build(hl: Any, *, stencils: int = 32, width: int = 1536, height: int = 2560) -> App:
    """Builds the chain with its CPU schedule.

    Each group's last stage is computed at root in 4 x 4 parallel tiles; the stages before it
    slide down the tile in row buffers.

    Args:
        hl: The module to build with.
        stencils: Number of stencils, at least 1.
        width: Width for which the tiles are made; other sizes run, down to a quarter of it.
        height: Height for which the tiles are made.
    """
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.UInt(16), 2, "input")
    stages = [hl.BoundaryConditions.repeat_edge(source)]
    for n in range(1, stencils + 1):
        stage = hl.Func(f"stage_{n}")
        stage[x, y] = _stencil(stages[-1], x, y)
        stages.append(stage)
    output = hl.Func("stencil_chain")
    output[x, y] = stages[-1][x, y]

    vector = hl.get_host_target().natural_vector_size(hl.UInt(16))
    last = stencils
    while last > 0:
        root = output if last == stencils else stages[last]
        members = stages[max(last - GROUP + 1, 0) : last]
        extra = MARGIN * (stencils - last)
        tile = (width + extra) // TILES, (height + extra) // TILES
        _schedule_group(hl, root, members, tile, vector, is_output=last == stencils)
        last -= GROUP

    return App(
        "stencil_chain",
        output,
        {"input": source},
        extents=(width, height),
        smallest=(width // TILES, height // TILES),
        cases=[((0, 0), (width // 4 + 23, height // 4 + 5))],
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.integers(0, 65536, shape).astype("uint16"),
    )


def _stencil(f: Any, x: Any, y: Any) -> Any:
    """The 25 taps with weights 1 to 25."""
    total = None
    for i in range(-2, 3):
        for j in range(-2, 3):
            term = f[x + i, y + j] * ((i + 3) * (j + 3))
            total = term if total is None else total + term
    return total


def _schedule_group(
    hl: Any, root: Any, members: list[Any], tile: tuple[int, int], vector: int, is_output: bool
) -> None:
    """Schedules one root and the stages that slide inside its tiles."""
    x, y, xo, yo, xi, yi, t = hl.vars("x y xo yo xi yi t")
    if not is_output:
        root.compute_root()
    root.tile(x, y, xo, yo, xi, yi, *tile).fuse(xo, yo, t).parallel(t).vectorize(xi, vector)
    for stage in members:
        dimension = stage.args()[0]
        stage.store_at(root, t).compute_at(root, yi).vectorize(dimension, vector)


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, extents
