"""in_ and clone_in."""

from __future__ import annotations

import pytest

import bayplan as hl


def chain() -> tuple[hl.Func, hl.Func, hl.Func]:
    x = hl.Var("x")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x] = x
    g[x] = f[x] + 1
    h[x] = f[x] + g[x]
    return f, g, h


def test_one_wrapper_for_each_set_of_users() -> None:
    f, g, h = chain()
    first = f.in_(g)
    assert f.in_(g).function() is first.function()
    assert first.function().is_wrapper_of == f.name()
    assert f.in_(h).function() is not first.function()
    assert f.in_().function() is f.in_().function()
    assert f"{f.name()}(x)" == str(first.value())


def test_shared_wrappers() -> None:
    f, g, h = chain()
    both = f.in_([g, h])
    assert f.in_([h, g]).function() is both.function()
    with pytest.raises(hl.ScheduleError, match="is shared with"):
        f.in_(g)


def test_what_cannot_be_wrapped() -> None:
    f, _, _ = chain()
    with pytest.raises(hl.ScheduleError, match="in itself"):
        f.in_(f)
    with pytest.raises(hl.ScheduleError, match="empty list"):
        f.in_([])
    with pytest.raises(hl.ScheduleError, match="not defined"):
        hl.Func("nothing").in_()


def test_clone_has_definitions_and_schedule_of_its_own() -> None:
    x = hl.Var("x")
    r = hl.RDom([(0, 4)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x
    f[r] = f[r] + 1
    g[x] = f[x]
    f.vectorize(x, 4)
    copy = f.clone_in(g)
    assert str(copy.update_value()) == f"{copy.name()}(r$x) + 1"
    f.compute_root()
    assert copy.function().schedule.compute_level.is_inlined()
    assert [d.kind.name for d in copy._stage().definition.schedule.dims][0] == "Vectorized"


def test_wrapped_and_cloned_programs_keep_their_values() -> None:
    np = pytest.importorskip("numpy")
    f, g, h = chain()
    f.in_(g).compute_root()
    f.clone_in(h).compute_root().vectorize(hl.Var("x"), 4)
    g.compute_root()
    assert list(np.asarray(h.realize([8]))) == [2 * i + 1 for i in range(8)]
