"""B05: sizes and strides beyond 32 bits are exact or refused by name before any allocation."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def test_b05_plane_stride_of_a_buffer() -> None:
    # The dense layout of the image, over one byte that nobody touches.
    one = np.zeros(1, np.uint8)
    strides = (40960 * 81920, 40960, 1)
    view = np.lib.stride_tricks.as_strided(one, (3, 81920, 40960), strides)
    buffer = hl.Buffer(view)
    assert buffer.dim(2).stride() == 3355443200
    assert buffer.number_of_elements() == 10066329600


@pytest.mark.parametrize(
    ("kind", "extents", "size_bytes"),
    [
        (8, [40960, 81920, 3], 10066329600),
        (16, [65535, 65535], 8589672450),
        (8, [4096, 4096, 256], 4294967296),
    ],
)
def test_b05_too_large_temporaries_are_refused(
    kind: int, extents: list[int], size_bytes: int
) -> None:
    dims = hl.vars("x y z")[: len(extents)]
    temporary, f = hl.Func("temporary"), hl.Func("f")
    temporary[dims] = hl.cast(hl.UInt(kind), dims[0])
    last = [e - 1 for e in extents]
    f[dims[0]] = temporary[tuple([0] * len(extents))] + temporary[tuple(last)]
    temporary.compute_root()
    context = driver.context()
    with pytest.raises(hl.AllocationTooLarge) as caught:
        f.realize([1])
    text = str(caught.value)
    assert "temporary" in text
    assert str(size_bytes) in text
    assert "2147483647" in text
    assert context.counts.allocations == 0


def test_b05_a_strided_view_of_one_element() -> None:
    page = np.full(4096, 7, np.uint8)
    view = np.lib.stride_tricks.as_strided(page, (1 << 16, 1 << 15), (0, 0))
    x = hl.Var("x")
    f = hl.Func("f")
    source = hl.ImageParam(hl.UInt(8), 2, "source")
    source.dim(0).set_stride(hl.Expr())
    source.set(hl.Buffer(view))
    f[x] = source[x * 1000, (1 << 16) - 1]
    try:
        got = np.asarray(f.realize([8]))
    except hl.AllocationTooLarge as error:
        assert "source" in str(error)
    else:
        assert (got == 7).all()
