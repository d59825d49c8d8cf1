"""Boundary conditions: the coordinates they read, and the forms of bounds they take."""

from __future__ import annotations

import pytest

import bayplan as hl

BC = hl.BoundaryConditions
KINDS = [BC.repeat_edge, BC.repeat_image, BC.mirror_image, BC.mirror_interior]


def source() -> hl.Func:
    x, y = hl.vars("x y")
    f = hl.Func("source")
    f[x, y] = x + y
    return f


def test_repeat_edge_marks_the_coordinate_likely() -> None:
    f = source()
    g = BC.repeat_edge(f, [(1, 3), (0, 4)])
    x = "max(min(likely(x), 3), 1)"
    y = "max(min(likely(y), 3), 0)"
    assert str(g.value()) == f"{f.name()}({x}, {y})"
    assert [v.name() for v in g.args()] == ["x", "y"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_forms_of_bounds(kind: object) -> None:
    assert callable(kind)
    f = source()
    for bounds in ([(0, 3), (0, 4)], [(0, 3)], [(None, None), (0, 4)], [hl.Range(0, 3)], []):
        assert kind(f, bounds).dimensions() == 2
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    buffer = hl.Buffer(hl.UInt(8), [3, 4])
    assert [v.name() for v in kind(image).args()] == ["_0", "_1"]
    assert kind(buffer).type() is hl.UInt(8)
    assert kind(buffer, [(0, 2), (0, 2)]).dimensions() == 2
    with pytest.raises(TypeError, match="needs the bounds"):
        kind(f)
    with pytest.raises(hl.DefinitionError, match="for 3 dimensions"):
        kind(f, [(0, 1)] * 3)
    with pytest.raises(hl.DefinitionError, match="only one of min and extent"):
        kind(f, [(0, None)])


def test_constant_exterior_of_a_tuple() -> None:
    x = hl.Var("x")
    f = hl.Func("pair")
    f[x] = (hl.u8(x), hl.f32(x))
    g = BC.constant_exterior(f, (3, 0.5), [(0, 10)])
    assert g.types() == [hl.UInt(8), hl.Float(32)]
    with pytest.raises(hl.DefinitionError, match="1 values"):
        BC.constant_exterior(f, 3, [(0, 10)])


def test_names() -> None:
    assert BC.mirror_image(source(), [(0, 3)]).name().startswith("mirror_image")
