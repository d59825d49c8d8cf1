"""Prefetches reach the emitted program, a hint for each cache line, and change no value."""

from __future__ import annotations

import numpy as np

import bayplan as hl
from bayplan import driver


def test_a_prefetch_is_emitted_for_funcs_and_images() -> None:
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.Float(32), 2, "image")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = image[x, y] * 2
    g[x, y] = f[x, y] + f[x + 1, y + 1]
    f.compute_root().prefetch(image, y, y, 2)
    g.prefetch(f, y, y, 1).parallel(y)
    values = np.arange(41 * 41, dtype=np.float32).reshape(41, 41)
    image.set(hl.Buffer(values))
    result = np.asarray(g.realize([40, 40]))
    assert np.array_equal(result, 2 * (values[:40, :40] + values[1:, 1:]))
    hints = [line for line in driver.c_source(g._functions()).splitlines() if "prefetch(" in line]
    assert len(hints) == 2
    name = f.name().replace("$", "_")
    assert f"__builtin_prefetch({name} + " in hints[0] + hints[1]
    # A line of 64 bytes holds sixteen float32.
    assert all("* 16" in line or "* INT64_C(16)" in line for line in hints)
