"""Sizes, regions and limits that are elements of inputs at constant places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.errors import AllocationTooLarge, BoundsError, BufferError, MissingArgument


def _size_in_image(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x * 2
    o[x] = a[hl.max(im[0], 0)] + a[hl.min(hl.max(im[0], 0), x)]
    a.compute_root()
    return o


def _in_an_inlined_func(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    a, at, o = hl.Func("a"), hl.Func("at"), hl.Func("o")
    a[x] = x * 3
    at[x] = im[1] + x
    o[x] = a[at[x]]
    a.compute_root().vectorize(x, 4)
    return o


def _at_a_place_that_is_read(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = im[x % 4] * 3
    o[x] = a[im[im[2]]] + x
    a.compute_root()
    return o


def _at_a_parameter(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    p = hl.Param(hl.Int(32), "p")
    p.set(3)
    p.set_range(0, 7)
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x + 1
    o[x] = a[im[p] + x] + a[im[p - 1]]
    a.compute_root()
    return o


def _in_a_loop_of_another(hl: Any, im: Any) -> Any:
    x, xo, xi = hl.vars("x xo xi")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x * x
    o[x] = a[x + im[1]] + a[x - im[0]]
    o.split(x, xo, xi, 4, hl.TailStrategy.GuardWithIf).parallel(xo)
    a.compute_at(o, xo)
    return o


def _region_of_the_input_itself(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    o = hl.Func("o")
    o[x] = im[x + im[0]] * 10
    return o


def _limit_of_a_reduction(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    r = hl.RDom([(0, 10)], "r")
    r.where(r.x < im[3])
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x + 5
    o[x] = 0
    o[x] += a[r.x + x]
    a.compute_root()
    return o


def _place_of_an_update(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x
    a[im[0] + 4] += 100
    o[x] = a[x] + a[im[0]]
    a.compute_root()
    return o


def _in_a_choice(hl: Any, im: Any) -> Any:
    x = hl.Var("x")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x * 7
    o[x] = a[hl.select(im[0] > im[1], x + im[0], x - im[2])]
    a.compute_root()
    return o


PROGRAMS = [
    _size_in_image,
    _in_an_inlined_func,
    _at_a_place_that_is_read,
    _at_a_parameter,
    _in_a_loop_of_another,
    _region_of_the_input_itself,
    _limit_of_a_reduction,
    _place_of_an_update,
    _in_a_choice,
]

DATA = [2, 1, 3, 4, 7, 6, 5, 0]


@pytest.mark.parametrize("build", PROGRAMS)
def test_values_are_those_of_the_wheel(build: Callable[[Any, Any], Any]) -> None:
    halide = pytest.importorskip("halide")
    found = []
    for module in (hl, halide):
        im = module.ImageParam(module.Int(32), 1, "im")
        data = np.array(DATA, dtype=np.int32)
        im.set(module.Buffer(data))
        found.append(np.asarray(build(module, im).realize([5])).tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [hl.UInt(8), hl.Int(16), hl.UInt(64), hl.Float(32)])
def test_elements_of_any_type(kind: Any) -> None:
    x = hl.Var("x")
    im = hl.ImageParam(kind, 2, "im")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x * 2
    o[x] = a[hl.clamp(hl.i32(im[1, 2]), 0, 100)]
    a.compute_root()
    buffer = hl.Buffer(kind, [3, 4])
    buffer.fill(9)
    im.set(buffer)
    assert np.asarray(o.realize([3])).tolist() == [18, 18, 18]


def _with(data: list[int], low: int = 0) -> tuple[Any, Any]:
    im = hl.ImageParam(hl.Int(32), 1, "im")
    buffer = hl.Buffer(np.array(data, dtype=np.int32))
    buffer.set_min([low])
    im.set(buffer)
    return _size_in_image(hl, im), im


@pytest.mark.parametrize(("data", "low"), [([], 0), ([7, 1], 1), ([7, 1], -2), ([7], -(2**31))])
def test_an_input_without_the_element_is_refused(data: list[int], low: int) -> None:
    o, _ = _with(data, low)
    with pytest.raises(BoundsError, match="Input buffer im"):
        o.realize([5])


def test_an_input_that_breaks_its_promise_is_refused_before_it_is_read() -> None:
    im = hl.ImageParam(hl.Int(32), 1, "im")
    im.dim(0).set_min(0)
    buffer = hl.Buffer(np.array([7], dtype=np.int32))
    buffer.set_min([1 << 30])
    im.set(buffer)
    x = hl.Var("x")
    a, o = hl.Func("a"), hl.Func("o")
    a[x] = x
    o[x] = a[im[1 << 30]]
    a.compute_root()
    with pytest.raises(hl.BayplanError, match="min of dimension 0 must be 0"):
        o.realize([5])


def test_a_size_beyond_32_bits_is_refused() -> None:
    o, _ = _with([2**31 - 1])
    with pytest.raises(AllocationTooLarge, match="reaches 2147483648"):
        o.realize([5])


@pytest.mark.parametrize(("first", "factor"), [(2**31 - 1, 1), (2**31 - 3, 1), (1 << 30, 4)])
@pytest.mark.parametrize("given", ["element", "parameter"])
def test_a_region_that_would_wrap_into_the_input_is_refused(
    first: int, factor: int, given: str
) -> None:
    x = hl.Var("x")
    im, other = hl.ImageParam(hl.Int(32), 1, "im"), hl.ImageParam(hl.Int(32), 1, "other")
    p = hl.Param(hl.Int(32), "p")
    p.set(first)
    im.set(hl.Buffer(np.array([first], dtype=np.int32)))
    other.set(hl.Buffer(np.arange(20, dtype=np.int32)))
    o = hl.Func("o")
    o[x] = other[x + (im[0] if given == "element" else p) * factor]
    with pytest.raises(BoundsError, match="which 32-bit indices do not reach"):
        o.realize([5])


def test_bounds_queries() -> None:
    x = hl.Var("x")
    im, other = hl.ImageParam(hl.Int(32), 1, "im"), hl.ImageParam(hl.Int(32), 1, "other")
    o = hl.Func("o")
    o[x] = other[x + im[2]]
    with pytest.raises(BufferError, match=r"other depends on im\[2\], which input buffer im"):
        o.infer_input_bounds([5])
    im.set(hl.Buffer(np.array([1, 2, 30], dtype=np.int32)))
    o.infer_input_bounds([5])
    assert (other.get().dim(0).min(), other.get().dim(0).extent()) == (30, 5)


def test_the_input_itself_is_asked_for_the_element() -> None:
    im = hl.ImageParam(hl.Int(32), 1, "im")
    o = _size_in_image(hl, im)
    o.infer_input_bounds([5])
    assert (im.get().dim(0).min(), im.get().dim(0).extent()) == (0, 1)


def test_bytes_of_the_workspace_follow_the_element() -> None:
    o, im = _with([9])
    call = hl.Pipeline(o).compile_to_callable([im])
    out = hl.Buffer(np.zeros(5, dtype=np.int32))
    for size in (0, 9, 1000):
        given = hl.Buffer(np.array([size], dtype=np.int32))
        assert call.workspace_bytes(given, out) == 4 * (max(size, 0) + 1)
        memory = np.zeros(call.workspace_bytes(given, out) + 64, dtype=np.uint8)
        call(given, out, workspace=memory)
        assert np.asarray(out).tolist() == [2 * size + 2 * min(size, x) for x in range(5)]
    empty = hl.Buffer(np.zeros([0], dtype=np.int32))
    with pytest.raises(BoundsError, match="Input buffer im"):
        call.workspace_bytes(empty, out)


def test_the_storage_report_names_the_element() -> None:
    o, im = _with([7, 1])
    report = hl.Pipeline(o).storage([5])
    (a,) = report.temporaries
    assert (a.bytes, a.extents) == (32, (8,))
    assert "im[0]" in a.formula and report.exact
    im.reset()
    with pytest.raises(MissingArgument, match=r"temporaries depend on im\[0\]"):
        hl.Pipeline(o).storage([5])


def test_a_pipeline_called_by_another_takes_its_memory_itself() -> None:
    im = hl.ImageParam(hl.Int(32), 1, "im")
    inner = _size_in_image(hl, im)
    x = hl.Var("x")
    data, o = hl.Func("data"), hl.Func("o")
    data[x] = x + 4
    data.compute_root()
    stage = hl.Func("stage")
    stage.define_extern(hl.Pipeline(inner), [data], hl.Int(32), 1)
    stage.compute_root()
    o[x] = stage[x] + 1
    want = [8 + 2 * min(4, i) + 1 for i in range(5)]
    assert np.asarray(o.realize([5])).tolist() == want
