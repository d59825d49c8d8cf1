"""One name for one thing: where two meet, they are kept apart or refused, never mixed up."""

from __future__ import annotations

import pytest

import bayplan as hl


def test_a_func_after_an_input_of_its_name_gets_another() -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Int(32), 1, "twin_of_image")
    image.set(hl.Buffer(hl.Int(32), [9]))
    image.get().fill(7)
    f, g = hl.Func("twin_of_image"), hl.Func("g")
    f[x] = x + image[x]
    g[x] = f[x] * image[x]
    f.compute_root()
    assert f.name() == "twin_of_image$1" and image.name() == "twin_of_image"
    result = g.realize([4])
    assert [result[i] for i in range(4)] == [49, 56, 63, 70]


def test_an_input_after_a_func_of_its_name_is_refused() -> None:
    x = hl.Var("x")
    f, g = hl.Func("later_image"), hl.Func("g")
    image = hl.ImageParam(hl.Int(32), 1, "later_image")
    f[x] = x + image[x]
    g[x] = f[x]
    f.compute_root()
    with pytest.raises(hl.DefinitionError, match="input buffer later_image and the Func") as caught:
        g.compile_jit()
    assert caught.value.where is not None


def test_a_parameter_and_a_func() -> None:
    x = hl.Var("x")
    param = hl.Param(hl.Int(32), "twin_of_param", 7)
    f, g = hl.Func("twin_of_param"), hl.Func("g")
    f[x] = x + param
    g[x] = f[x] * param
    # Inlined it has no storage that could be taken for the parameter.
    result = g.realize([4])
    assert [result[i] for i in range(4)] == [49, 56, 63, 70]
    f.compute_root()
    with pytest.raises(hl.DefinitionError, match="parameter twin_of_param and the Func"):
        g.realize([4])


def test_two_inputs_and_an_output() -> None:
    x = hl.Var("x")
    first = hl.ImageParam(hl.Int(32), 1, "same_input")
    second = hl.ImageParam(hl.Int(32), 1, "same_input")
    f = hl.Func("f")
    f[x] = first[x] + second[x]
    with pytest.raises(hl.DefinitionError, match="same_input and the input buffer same_input have"):
        f.compile_jit()
    out = hl.Func("same_output")
    image = hl.ImageParam(hl.Int(32), 1, "same_output")
    out[x] = image[x]
    with pytest.raises(hl.DefinitionError, match="same_output and the output same_output have"):
        out.compile_jit()
