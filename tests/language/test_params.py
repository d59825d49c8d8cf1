"""Scalar and buffer parameters."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl


def test_ways_to_make_a_param() -> None:
    assert hl.Param(hl.Int(32)).get() is None
    assert hl.Param(hl.Int(32), 5).get() == 5
    named = hl.Param(hl.Float(32), "gain", 2)
    assert (named.name(), named.get(), named.type()) == ("gain", 2.0, hl.Float(32))
    assert hl.Param(hl.Bool(), "flag", True).get() == 1
    assert hl.Param(type=hl.UInt(8), name="n", value=3).get() == 3
    assert repr(hl.Param(hl.UInt(8), "n")) == "<bayplan.Param 'n' type uint8>"


def test_values_are_kept_exactly_or_refused() -> None:
    p = hl.Param(hl.UInt(8), "p")
    p.set(255)
    p.set(np.uint8(7))
    p.set(3.0)
    assert p.get() == 3
    for wrong in (256, -1, 2.5):
        with pytest.raises(hl.TypeMismatchError, match="p: the value"):
            p.set(wrong)
    assert p.get() == 3


def test_params_in_expressions() -> None:
    p = hl.Param(hl.UInt(8), "p")
    assert (p + 1).type() == hl.UInt(8)
    assert (1.5 * p).type() == hl.Float(32)
    assert hl.Expr(p).type() == hl.UInt(8)
    assert (p < 3).type() == hl.Bool()
    assert hl.clamp(p, 0, 3).type() == hl.UInt(8)


def test_ranges() -> None:
    p = hl.Param(hl.Int(32), "p")
    assert not p.min_value().defined()
    p.set_range(-3, 10)
    assert (str(p.min_value()), str(p.max_value())) == ("-3", "10")


def test_image_param() -> None:
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.UInt(16), 2, "image")
    assert (image.name(), image.type(), image.dimensions()) == ("image", hl.UInt(16), 2)
    assert image[x, y].type() == hl.UInt(16)
    assert str(image.width()) == "image.extent.0"
    assert str(image.dim(1).min()) == "image.min.1"
    assert str(image.right()) == "image.min.0 + image.extent.0 - 1"
    assert image[x, hl._].type() == hl.UInt(16)
    with pytest.raises(hl.BufferError, match="has no channels"):
        image.channels()
    with pytest.raises(hl.BufferError, match="none numbered 5"):
        image.dim(5)
    with pytest.raises(hl.DefinitionError, match=r"2 dimensions.*3 coordinates"):
        image[x, y, 0]


def test_image_param_takes_buffers_that_fit() -> None:
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    assert not image.get().defined()
    image.set(np.zeros((3, 4), np.uint8))
    assert image.get().width() == 4
    with pytest.raises(hl.BufferError, match=r"image has elements of type uint8.*uint16"):
        image.set(hl.Buffer(hl.UInt(16), [3, 3]))
    with pytest.raises(hl.BufferError, match=r"image has 2 dimensions.*has 3"):
        image.set(hl.Buffer(hl.UInt(8), [3, 3, 3]))
    image.reset()
    assert not image.get().defined()


def test_constraints() -> None:
    image = hl.ImageParam(hl.UInt(8), 3, "image")
    image.dim(0).set_stride(3).dim(2).set_bounds(0, 3).set_stride(1)
    constraints = image.parameter().constraints
    assert str(constraints[0].stride) == "3"
    assert str(constraints[2].extent) == "3"
    image.dim(0).set_stride(hl.Expr())
    assert constraints[0].stride is None
    image.set_estimates([(0, 640), (0, 480), (0, 3)])
    assert str(constraints[1].extent_estimate) == "480"
    image.set_host_alignment(32)
    assert image.host_alignment() == 32
    with pytest.raises(hl.BufferError, match="power of two"):
        image.set_host_alignment(3)
    with pytest.raises(hl.TypeMismatchError, match="must be an int32"):
        image.dim(0).set_min(1.5)


def test_undefined_image_param() -> None:
    assert not hl.ImageParam().defined()
    assert repr(hl.ImageParam()) == "<bayplan.ImageParam ImageParam()>"
    with pytest.raises(hl.DefinitionError):
        hl.ImageParam().width()


def test_a_query_takes_over_the_bounds_that_the_program_proposes() -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Float(32), 1, "image")
    f = hl.Func("f")
    f[x] = image[x - 1] + image[x + 1]
    out = f.output_buffer().dim(0)
    out.set_bounds(0, hl.select(out.extent() < 12, out.extent() + 1, out.extent()))
    query = hl.Buffer.make_bounds_query(hl.Float(32), [7])
    query.set_min([2])
    f.infer_input_bounds(query)
    assert (query.dim(0).min(), query.dim(0).extent()) == (0, 12)
    assert (image.get().dim(0).min(), image.get().dim(0).extent()) == (-1, 14)
    with pytest.raises(hl.BufferError, match="has memory"):
        image.get().set_bounds([(0, 3)])
