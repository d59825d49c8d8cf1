"""A histogram of bytes: each block counts its rows in shared memory, atomically; then one sum."""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

BINS = 256
ROWS = 16


def build(hl: Any, *, width: int = 192, height: int = 160) -> App:
    """Builds the counts of the 256 values of an image.

    Args:
        hl: The module to build with.
        width: Usual width of the image.
        height: Usual height of the image, a multiple of 16.
    """
    source = hl.ImageParam(hl.UInt(8), 2, "input")
    value, strip, lane, group = hl.vars("value strip lane group")
    r = hl.RDom([(0, source.width()), (0, ROWS)], "r")
    strips = hl.RDom([(0, source.height() / ROWS)], "s")
    partial, kept, counts = hl.Func("partial"), hl.Func("strip_counts"), hl.Func("counts")
    partial[value, strip] = hl.u32(0)
    partial[hl.i32(source[r.x, strip * ROWS + r.y]), strip] += hl.u32(1)
    kept[value, strip] = partial[value, strip]
    counts[value] = hl.u32(0)
    counts[value] += kept[value, strips.x]

    kept.compute_root().split(value, group, lane, 64).reorder(lane, group, strip)
    kept.gpu_blocks(strip).gpu_threads(lane)
    partial.compute_at(kept, strip).split(value, group, lane, 64).gpu_threads(lane)
    wide, part = hl.RVar("wide"), hl.RVar("part")
    partial.update().atomic().split(r.x, wide, part, 64, hl.TailStrategy.GuardWithIf)
    partial.update().reorder(part, wide, r.y).gpu_threads(part)
    counts.gpu_tile(value, lane, 64)
    counts.update().gpu_tile(value, lane, 64)

    def input_box(name: str, mins: Extents, extents: Extents) -> Box:
        return (0, 0), (width, height)

    return App(
        "histogram",
        counts,
        {"input": source},
        extents=(BINS,),
        smallest=(BINS,),
        input_box=input_box,
        fill=lambda name, shape, rng: rng.integers(0, 256, shape).astype("uint8"),
    )
