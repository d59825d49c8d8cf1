"""Buffers: layouts, views, memory that is shared and never copied."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayplan as hl


def shape(buffer: hl.Buffer) -> list[tuple[int, int, int]]:
    dims = [buffer.dim(d) for d in range(buffer.dimensions())]
    return [(dim.min(), dim.extent(), dim.stride()) for dim in dims]


def test_axes_are_reversed_and_memory_is_shared() -> None:
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    b = hl.Buffer(a, "b")
    assert shape(b) == [(0, 3, 1), (0, 2, 3)]
    assert b.name() == "b"
    assert b[2, 1] == 5
    b[2, 1] = 77
    assert a[1, 2] == 77
    back = np.asarray(b)
    back[0, 0] = -1
    assert a[0, 0] == -1
    assert np.array(b, copy=False).ctypes.data == a.ctypes.data


def test_axes_as_they_are() -> None:
    a = np.arange(6, dtype=np.uint8).reshape(2, 3)
    b = hl.Buffer(a, reverse_axes=False)
    assert shape(b) == [(0, 2, 3), (0, 3, 1)]
    assert b.numpy_view(reverse_axes=False).tolist() == a.tolist()


@pytest.mark.parametrize(
    ("dtype", "t"),
    [
        (np.bool_, hl.Bool()), (np.uint8, hl.UInt(8)), (np.uint16, hl.UInt(16)),
        (np.uint32, hl.UInt(32)), (np.uint64, hl.UInt(64)), (np.int8, hl.Int(8)),
        (np.int16, hl.Int(16)), (np.int32, hl.Int(32)), (np.int64, hl.Int(64)),
        (np.float16, hl.Float(16)), (np.float32, hl.Float(32)), (np.float64, hl.Float(64)),
    ],
)  # fmt: skip
def test_element_types(dtype: Any, t: hl.Type) -> None:
    b = hl.Buffer(np.ones((2, 3), dtype))
    assert b.type() == t
    assert b.all_equal(1)
    b.fill(0)
    assert not np.asarray(b).any()
    assert np.asarray(hl.Buffer(t, [4])).dtype == dtype


def test_elements_are_python_numbers() -> None:
    assert type(hl.Buffer(np.ones(2, np.float32))[0]) is float
    assert type(hl.Buffer(np.ones(2, np.uint8))[0]) is int
    assert type(hl.Buffer(np.ones(2, np.bool_))[0]) is bool


def test_negative_and_zero_strides() -> None:
    b = hl.Buffer(np.arange(6)[::-1])
    assert shape(b) == [(0, 6, -1)]
    assert [b[i] for i in range(6)] == [5, 4, 3, 2, 1, 0]
    assert b.copy()[0] == 5
    still = hl.Buffer(np.broadcast_to(np.uint8(7), (5, 4)))
    assert shape(still) == [(0, 4, 0), (0, 5, 0)]
    assert still[3, 4] == 7
    with pytest.raises(hl.BufferError, match="read-only"):
        still[0, 0] = 1


def test_sizes_beyond_32_bits_stay_exact() -> None:
    query = hl.Buffer.make_bounds_query(hl.UInt(8), [40960, 81920, 3])
    assert query.dim(2).stride() == 3355443200
    assert query.number_of_elements() == 10066329600
    assert query.host_address() == 0
    wide = hl.Buffer.make_bounds_query(hl.UInt(16), [65535, 65535])
    assert wide.size_in_bytes() == 8589672450
    assert hl.Buffer.make_bounds_query(hl.UInt(8), [4096, 4096, 256]).size_in_bytes() == 4294967296
    with pytest.raises(hl.AllocationTooLarge, match=str(2**66)):
        hl.Buffer(hl.UInt(8), [2**33, 2**33], "huge")


def test_no_elements() -> None:
    b = hl.Buffer(hl.Int(32), [0, 3])
    assert b.size_in_bytes() == 0
    assert np.asarray(b).shape == (3, 0)
    assert hl.Buffer(np.zeros((0, 4), np.int16)).width() == 4


def test_scalar() -> None:
    b = hl.Buffer.make_scalar(hl.Float(32))
    b[()] = 2.5
    assert b[()] == 2.5
    assert np.asarray(b).shape == ()


def test_storage_order() -> None:
    b = hl.Buffer(hl.UInt(8), [7, 5, 3], [2, 0, 1])
    assert [dim[2] for dim in shape(b)] == [3, 21, 1]
    assert shape(hl.Buffer.make_interleaved(hl.UInt(8), 7, 5, 3)) == shape(b)
    assert shape(hl.Buffer.make_with_shape_of(b)) == shape(b)
    assert shape(b.copy()) == shape(b)


def test_views() -> None:
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    b = hl.Buffer(a)
    assert shape(b.cropped(0, 1, 2)) == [(1, 2, 1), (0, 3, 4), (0, 2, 12)]
    assert b.cropped(0, 1, 2)[1, 0, 0] == 1
    assert shape(b.cropped([(1, 2), (2, 1)])) == [(1, 2, 1), (2, 1, 4), (0, 2, 12)]
    assert shape(b.sliced(1, 2)) == [(0, 4, 1), (0, 2, 12)]
    assert b.sliced(1, 2)[3, 1] == b[3, 2, 1]
    assert b.sliced(2)[3, 2] == b[3, 2, 0]
    assert shape(b.embedded(1, 9)) == [(0, 4, 1), (9, 1, 24), (0, 3, 4), (0, 2, 12)]
    assert b.transposed(0, 2)[1, 2, 3] == b[3, 2, 1]
    assert b.transposed([2, 0, 1])[1, 3, 2] == b[3, 2, 1]
    assert b.translated(0, 10)[13, 0, 0] == b[3, 0, 0]
    assert shape(b.translated([1, 2]))[1][0] == 2
    assert b.reverse_axes()[1, 2, 3] == b[3, 2, 1]
    b.set_min([5, 6])
    assert b[5, 6, 0] == 0
    assert (b.left(), b.right(), b.top(), b.bottom()) == (5, 8, 6, 8)
    assert b.contains([5, 6]) and not b.contains([0])


def test_views_stay_inside() -> None:
    b = hl.Buffer(hl.UInt(8), [3, 2], "b")
    with pytest.raises(hl.BoundsError, match=r"b cannot be cropped to \[1, 6\).*\[0, 3\)"):
        b.cropped(0, 1, 5)
    with pytest.raises(hl.BoundsError, match="sliced at 7"):
        b.sliced(0, 7)
    with pytest.raises(hl.BufferError, match="has 2 dimensions"):
        b.dim(2)
    with pytest.raises(
        IndexError, match="index 3 is out of bounds for axis 0 with min=0, extent=3"
    ):
        b[3, 0]
    with pytest.raises(ValueError, match="b has 2 dimensions, but 1 coordinates"):
        b[1]


def test_copy_from_takes_the_common_part() -> None:
    a = hl.Buffer(np.zeros((4, 4), np.int32))
    b = hl.Buffer(np.ones((4, 4), np.int32))
    b.set_min([2, 3])
    a.copy_from(b)
    assert np.asarray(a).sum() == 2
    with pytest.raises(hl.BufferError):
        a.copy_from(hl.Buffer(hl.UInt(8), [4, 4]))


def test_for_each_element_goes_through_dimension_0_first() -> None:
    b = hl.Buffer(hl.Int(8), [2, 2])
    b.set_min([5, 0])
    seen: list[list[int]] = []
    b.for_each_element(seen.append)
    assert seen == [[5, 0], [6, 0], [5, 1], [6, 1]]


def test_what_goes_in() -> None:
    assert hl.Buffer(array.array("h", [1, 2, 3]))[1] == 2
    assert hl.Buffer(bytearray(b"abc"))[2] == ord("c")
    readable = hl.Buffer(b"abc")
    assert readable[0] == ord("a") and not readable.is_writable()

    class Producer:
        """Only DLPack."""

        def __init__(self) -> None:
            self.array = np.arange(4, dtype=np.float32)

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    assert hl.Buffer(Producer())[3] == 3.0
    assert np.from_dlpack(hl.Buffer(np.arange(3)))[2] == 2


def test_what_does_not_go_in() -> None:
    with pytest.raises(TypeError, match="not of object"):
        hl.Buffer(object())
    with pytest.raises(hl.BufferError, match=r"complex|no such element type"):
        hl.Buffer(np.zeros(2, np.complex64))
    with pytest.raises(hl.BufferError, match="other order"):
        hl.Buffer(np.zeros(2, ">i4"))
    with pytest.raises(hl.BufferError, match="stride of 3 bytes"):
        hl.Buffer(np.zeros(12, np.uint8)[: 4 * 3].reshape(4, 3)[:, :2].view(np.uint16))
    with pytest.raises(hl.BoundsError, match="-1 in dimension 1"):
        hl.Buffer(hl.Int(8), [2, -1])


def test_memory_outlives_the_array() -> None:
    b = hl.Buffer(np.full((100, 100), 3, np.int32))
    for _ in range(20):
        b = hl.Buffer(b)
    assert b.all_equal(3)


def test_elements_must_fit() -> None:
    b = hl.Buffer(hl.UInt(8), [2])
    with pytest.raises(hl.BufferError, match="300 does not fit"):
        b[0] = 300
    with pytest.raises(TypeError):
        b[0] = 2.5


def test_uses_in_expressions() -> None:
    x = hl.Var("x")
    b = hl.Buffer(hl.UInt(8), [3, 2], "picture")
    assert type(b[x, 1]) is hl.Expr
    assert b[x, 1].type() == hl.UInt(8)
    assert str(b[x, hl._]) == f"{b.name()}(x, _0)"
    assert b[x, hl.u8(1)].defined()
    with pytest.raises(hl.DefinitionError, match=r"picture\S* has 2 dimensions.*1 coordinates"):
        b[x,]
    with pytest.raises(hl.TypeMismatchError, match="float32"):
        b[x, hl.f32(x)]
    other = hl.Buffer(hl.UInt(8), [3, 2], "picture")
    assert other[x, x].node.name != b[x, x].node.name


def test_undefined() -> None:
    assert not hl.Buffer().defined()
    with pytest.raises(hl.DefinitionError):
        hl.Buffer().type()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.permutations(range(len(sizes))))
    )
)
def test_any_storage_order_and_any_transpose(case: tuple[list[int], list[int]]) -> None:
    sizes, order = case
    b = hl.Buffer(hl.Int(32), sizes, order)
    assert b.size_in_bytes() == 4 * b.number_of_elements()
    view = b.numpy_view(reverse_axes=False)
    view[...] = np.arange(view.size).reshape(view.shape)
    turned = b.transposed(order)
    assert np.array_equal(turned.numpy_view(reverse_axes=False), view.transpose(order))
    assert np.array_equal(b.copy().numpy_view(), b.numpy_view())
    b.for_each_element(lambda p: view[tuple(p)] == b[tuple(p)] or pytest.fail(str(p)))
