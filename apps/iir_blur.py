"""A recursive low-pass filter along both axes: scans down and up, then transposes, twice.

The sizes are compiled in: the buffers' bounds and strides are fixed, so no other size is
accepted by a built application.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents


def build(
    hl: Any,
    *,
    width: int = 1536,
    height: int = 2560,
    channels: int = 3,
    alpha: float = 0.5,
    gpu: bool = False,
) -> App:
    """Builds the filter: on the CPU strips of columns, one wide vector each.

    On a GPU a warp scans 32 columns in a slice of global memory and transposes through a tile in
    shared memory, whose rows are 33 wide so that a column meets all banks.

    Args:
        hl: The module to build with.
        width: Width of input and output.
        height: Height of input and output.
        channels: Planes of input and output.
        alpha: Usual weight of the new sample.
        gpu: Schedule for a GPU.
    """
    source = hl.ImageParam(hl.Float(32), 3, "input")
    weight = hl.Param(hl.Float(32), "alpha")

    schedule = _schedule_gpu if gpu else _schedule_cpu
    first = _blur_columns_transposed(hl, source, height, weight, "first", schedule)
    output = _blur_columns_transposed(hl, first, width, weight, "second", schedule)
    first.compute_root()

    for buffer in (source, output.output_buffer()):
        stride = 1
        for dimension, extent in enumerate((width, height, channels)):
            buffer.dim(dimension).set_bounds(0, extent).set_stride(stride)
            stride *= extent

    return App(
        "iir_blur",
        output,
        {"input": source},
        params={"alpha": weight},
        values={"alpha": alpha},
        extents=(width, height, channels),
        smallest=(width, height, channels),
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.random(shape).astype("float32"),
        rtol=1e-5,
        atol_of_max=1e-6,
    )


def _blur_columns_transposed(
    hl: Any, source: Any, rows: int, alpha: Any, name: str, schedule: Any
) -> Any:
    """Filters each column of `source` downwards then upwards, and returns the transpose."""
    x, y, c = hl.vars("x y c")
    column = hl.Func(f"{name}_columns")
    scan = hl.RDom([(1, rows - 1)], f"{name}_scan")
    up = rows - scan.x - 1
    one = hl.f32(1.0)

    column[x, y, c] = hl.undef(hl.Float(32))
    column[x, 0, c] = source[x, 0, c]
    column[x, scan.x, c] = (one - alpha) * column[x, scan.x - 1, c] + alpha * source[x, scan.x, c]
    column[x, up, c] = (one - alpha) * column[x, up + 1, c] + alpha * column[x, up, c]

    transposed = hl.Func(f"{name}_transposed")
    transposed[x, y, c] = column[y, x, c]

    schedule(hl, transposed, column, scan)
    return transposed


def _schedule_cpu(hl: Any, transposed: Any, column: Any, scan: Any) -> None:
    x, y, c, xo, yo = hl.vars("x y c xo yo")
    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    transposed.tile(x, y, xo, yo, x, y, vector, 4 * vector).vectorize(x)
    transposed.parallel(yo).parallel(c)
    column.compute_at(transposed, yo)
    column.update(0).unscheduled()
    for update in (1, 2):
        column.update(update).reorder(x, scan.x).vectorize(x)


def _schedule_gpu(hl: Any, transposed: Any, column: Any, scan: Any) -> None:
    x, y, c, xi, yi = hl.vars("x y c xi yi")
    transposed.compute_root().tile(x, y, xi, yi, 32, 32).gpu_blocks(y, c).gpu_lanes(xi)
    column.compute_at(transposed, y).store_in(hl.MemoryType.Heap).gpu_lanes(x)
    column.update(0).gpu_lanes(x)
    for update in (1, 2):
        column.update(update).reorder(x, scan.x).gpu_lanes(x).unroll(scan.x, 8)
    column.in_().compute_at(transposed, x).align_storage(x, 33).gpu_lanes(x)


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, extents
