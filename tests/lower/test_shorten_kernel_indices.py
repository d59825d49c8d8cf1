"""Tiles of blocks are indexed by thread ids."""

from __future__ import annotations

import re

import numpy as np

import bayplan as hl


def _tile(*, data: bool) -> hl.Func:
    """A stencil through a tile in shared memory; `data`: the tile begins where the input says."""
    x, xi = hl.vars("x xi")
    source = hl.Buffer(np.arange(64, dtype=np.int32) % 7, name="source")
    tile, output = hl.Func("tile"), hl.Func("output")
    tile[x] = source[hl.clamp(x, 0, 63)] * 3
    shift = hl.clamp(source[hl.clamp(x / 16, 0, 63)], 0, 2) if data else 1
    output[x] = tile[x] + tile[x + shift]
    output.gpu_tile(x, xi, 16)
    tile.compute_at(output, x).gpu_threads(x)
    return output


def test_the_base_of_a_block_cancels() -> None:
    source = hl.Pipeline(_tile(data=False)).device_source(hl.Target("host-cuda-emulated"))
    # Names may be taken before, and get a number.
    assert re.search(r"\btile\w*\[thread_id_x\] = ", source), source
    assert re.search(r"\btile\w*\[thread_id_x\] \+ tile\w*\[thread_id_x \+ 1\]", source), source


def test_lets_that_read_memory_stay_where_they_are() -> None:
    output = _tile(data=True)
    got = np.asarray(output.realize([50], hl.Target("host-cuda-emulated")))
    values = np.arange(64) % 7
    tile = values[np.clip(np.arange(80), 0, 63)] * 3
    x = np.arange(50)
    np.testing.assert_array_equal(got, tile[x] + tile[x + np.clip(values[x // 16], 0, 2)])
