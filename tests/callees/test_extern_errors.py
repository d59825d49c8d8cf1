"""What goes wrong with an external function is one error that names the Func and the function."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.errors import (
    DefinitionError,
    ExternError,
    FoldError,
    ScheduleError,
    TypeMismatchError,
)


def _source(symbol: str) -> hl.Func:
    f = hl.Func("stage")
    f.define_extern(symbol, [], hl.Int(32), 2)
    return f


def test_a_result_other_than_0_ends_the_call(functions: ctypes.CDLL) -> None:
    f, h = _source("ex_fail"), hl.Func("h")
    x, y = hl.Var("x"), hl.Var("y")
    h[x, y] = f[x, y]
    f.compute_at(h, y)
    with pytest.raises(ExternError, match=r"ex_fail returned 42 when it computed stage") as info:
        h.realize([3, 3])
    assert info.value.where is not None and info.value.where.file.endswith("test_extern_errors.py")


def test_also_in_a_parallel_loop_and_as_the_answer_to_a_query(functions: ctypes.CDLL) -> None:
    x, y = hl.Var("x"), hl.Var("y")
    f, h = _source("ex_fail"), hl.Func("h")
    h[x, y] = f[x, y]
    h.parallel(y)
    f.compute_at(h, y)
    with pytest.raises(ExternError, match="returned 42"):
        h.realize([3, 8])
    with pytest.raises(ExternError, match=r"ex_fail_query returned -7 when it was asked"):
        _source("ex_fail_query").realize([3, 3])


def test_a_missing_function_says_where_it_was_looked_for() -> None:
    with pytest.raises(ExternError) as info:
        _source("ex_there_is_no_such_function").realize([3, 3])
    text = str(info.value)
    for part in ("ex_there_is_no_such_function", "stage", "registered functions", "this process",
                 "the C library", "register_extern"):  # fmt: skip
        assert part in text
    assert info.value.code == "BP-E001"


def test_a_library_that_is_not_there() -> None:
    with pytest.raises(ExternError, match=r"libnothing\.so cannot be loaded"):
        hl.load_externs("/nowhere/libnothing.so")


def test_definitions_that_cannot_be() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    g = hl.Func("g")
    g[x, y] = x
    f = hl.Func("f")
    with pytest.raises(DefinitionError, match="variable x cannot be an argument"):
        f.define_extern("some", [x + 1], hl.Int(32), [x, y])
    with pytest.raises(DefinitionError, match="no function can be given it"):
        f.define_extern("some", [hl.Func("undefined")], hl.Int(32), 2)
    with pytest.raises(DefinitionError, match="cannot be the name of a C function"):
        f.define_extern("no name", [], hl.Int(32), 2)
    with pytest.raises(DefinitionError, match=r'extern "C"'):
        f.define_extern("some", [], hl.Int(32), 2, hl.NameMangling.CPlusPlus)
    with pytest.raises(DefinitionError, match="runs on the host"):
        f.define_extern("some", [], hl.Int(32), 2, hl.NameMangling.C, hl.DeviceAPI.CUDA)
    with pytest.raises(TypeMismatchError, match="float16"):
        f.define_extern("some", [hl.f16(1.0)], hl.Int(32), 2)
    with pytest.raises(DefinitionError, match="reads g"):
        f.define_extern("some", [g[0, 0] + 1], hl.Int(32), 2)
    with pytest.raises(DefinitionError, match="defined already"):
        g.define_extern("some", [], hl.Int(32), 2)
    f.define_extern("some", [g], hl.Int(32), 2)
    with pytest.raises(DefinitionError):
        f[x, y] += 1
    with pytest.raises(DefinitionError, match=r"f\S* and again call some with different types"):
        again, h = hl.Func("again"), hl.Func("h")
        again.define_extern("some", [], hl.Int(32), 2)
        h[x, y] = f[x, y] + again[x, y]
        g.compute_root()
        f.compute_root()
        h.lowered_text()


def _stencil(*schedules: Any) -> hl.Func:
    x, y, xo = hl.Var("x"), hl.Var("y"), hl.Var("xo")
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x + y
    f.define_extern("ex_stencil", [g, 1], hl.Int(32), [x, y])
    h[x, y] = f[x, y]
    f.compute_root()
    for schedule in schedules:
        schedule(g, f, h, x, y, xo)
    return h


def test_schedules_that_cannot_be(functions: ctypes.CDLL) -> None:
    with pytest.raises(ScheduleError, match=r"g\S* is given to the function that computes f"):
        _stencil().lowered_text()

    def root(g: Any, *_: Any) -> None:
        g.compute_root()

    with pytest.raises(ScheduleError, match="cannot be vectorized"):
        _stencil(root, lambda g, f, h, x, y, xo: f.vectorize(y, 4)).lowered_text()
    with pytest.raises(ScheduleError, match="left to the C function"):
        _stencil(root, lambda g, f, h, x, y, xo: f.split(x, xo, x, 8).reorder(xo, x)).lowered_text()
    with pytest.raises(FoldError, match="knows nothing of rings"):
        _stencil(
            root, lambda g, f, h, x, y, xo: f.store_root().compute_at(h, y).fold_storage(y, 2)
        ).lowered_text()
    with pytest.raises(ScheduleError, match="shares no loops with others"):
        x, y = hl.Var("x"), hl.Var("y")
        one, other, both = _source("ex_source"), hl.Func("other"), hl.Func("both")
        other[x, y] = x
        both[x, y] = one[x, y] + other[x, y]
        one.compute_root()
        other.compute_root().compute_with(one, one.args()[1])
        both.lowered_text()
    with pytest.raises(ScheduleError, match="vectorized"):
        _stencil(
            root,
            lambda g, f, h, x, y, xo: h.split(x, xo, x, 4).vectorize(xo) and f.compute_at(h, xo),
        ).lowered_text()


def test_a_buffer_that_is_too_small_is_an_error_before_the_call(functions: ctypes.CDLL) -> None:
    image = hl.ImageParam(hl.Int(32), 2, "image")
    f = hl.Func("f")
    f.define_extern("ex_stencil", [image, 2], hl.Int(32), 2)
    image.set(hl.Buffer(np.zeros((5, 5), np.int32)))
    with pytest.raises(hl.HalideError, match="Input buffer image begins 2 too late in dimension 0"):
        f.realize([3, 3])


def test_a_python_function_that_raises_is_the_cause() -> None:
    @hl.register_extern
    def py_raises(out: Any) -> None:
        if not out.is_bounds_query():
            raise ValueError("no luck")

    with pytest.raises(ExternError, match="py_raises returned -1") as info:
        _source("py_raises").realize([3, 3])
    assert isinstance(info.value.__cause__, ValueError)
