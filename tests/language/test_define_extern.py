"""What define_extern takes and records: the same as in the wheel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan
from bayplan.ir.errors import DefinitionError


def _kinds(hl: Any) -> list[tuple[bool, ...]]:
    func, param = hl.Func("g"), hl.Param(hl.Int(32), "p", 1)
    func[hl.Var("x")] = 1
    values = [
        func, hl.Buffer(np.zeros(3, np.int32)), hl.ImageParam(hl.Int(32), 1, "image"), param,
        hl.cast(hl.Int(64), 3) + 1, 7, 2.5,
    ]  # fmt: skip
    found = []
    for value in values:
        a = hl.ExternFuncArgument(value)
        found.append((a.defined(), a.is_func(), a.is_buffer(), a.is_image_param(), a.is_expr()))
    return [*found, (hl.ExternFuncArgument().defined(),)]


def test_kinds_of_arguments_are_those_of_the_wheel() -> None:
    assert _kinds(bayplan) == _kinds(pytest.importorskip("halide"))


def _facts(hl: Any) -> list[Any]:
    x, y = hl.Var("x"), hl.Var("y")
    a, b, c, d = [hl.Func(name) for name in "abcd"]
    a.define_extern("one", [], hl.Int(32), 2)
    b.define_extern("two", [], [hl.Int(32), hl.Float(64)], [x, y])
    c.define_extern("three", [], hl.UInt(8), [x], hl.NameMangling.C, hl.DeviceAPI.Host)
    d.define_extern(
        function_name="four", params=[hl.ExternFuncArgument(a)], type=hl.Int(16), arguments=[y, x]
    )
    found: list[Any] = []
    for f in (a, b, c, d):
        found.append(
            (
                f.is_extern(),
                f.extern_function_name(),
                f.defined(),
                f.dimensions(),
                f.outputs(),
                [v.name() for v in f.args()],
                [(t.bits(), t.is_float(), t.is_int()) for t in f.types()],
                f.num_update_definitions(),
            )
        )
    return found


def test_what_is_known_of_the_func_is_what_the_wheel_knows() -> None:
    assert _facts(bayplan) == _facts(pytest.importorskip("halide"))


def test_an_ordinary_func_is_not_external() -> None:
    f = bayplan.Func("f")
    f[bayplan.Var("x")] = 1
    assert not f.is_extern()
    assert f.extern_function_name() == ""


def test_a_pipeline_knows_its_types_and_dimensions() -> None:
    hl = bayplan
    x, y = hl.Var("x"), hl.Var("y")
    one, other, f = hl.Func("one"), hl.Func("other"), hl.Func("f")
    one[x, y] = hl.f32(x)
    other[x, y] = y
    f.define_extern("both", [], callee=hl.Pipeline([one, other]))
    assert f.types() == [hl.Float(32), hl.Int(32)]
    assert [v.name() for v in f.args()] == ["x", "y"]
    assert f.extern_function_name() == "both"
    with pytest.raises(DefinitionError):
        one[x, y] += 1.0
    with pytest.raises(TypeError, match="cannot be called"):
        hl.Func("g").define_extern("both", [], callee=3)
    flat, g = hl.Func("flat"), hl.Func("g")
    flat[x] = x
    with pytest.raises(DefinitionError, match="1 and 2 dimensions"):
        g.define_extern(hl.Pipeline([one, flat]))


def test_an_unknown_word_is_refused() -> None:
    f = bayplan.Func("f")
    with pytest.raises(TypeError, match="unexpected keyword argument 'mangle'"):
        f.define_extern("some", [], bayplan.Int(32), 1, mangle=1)
    with pytest.raises(TypeError, match="needs the types"):
        f.define_extern("some", [])
