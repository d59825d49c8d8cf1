"""Schedule directives: what is recorded, what is refused, and how."""

from __future__ import annotations

import pytest

import bayplan as hl
from tests.language.snippets_schedule import ACCEPTED_OR_REFUSED, run


@pytest.mark.parametrize("source", ACCEPTED_OR_REFUSED)
def test_same_as_halide(source: str) -> None:
    halide = pytest.importorskip("halide")
    assert run(hl, source) == run(halide, source)


def make() -> tuple[hl.Func, hl.Var, hl.Var]:
    x, y = hl.vars("x y")
    f = hl.Func("f")
    f[x, y] = x + y
    return f, x, y


def tails(stage: hl.Stage) -> list[str]:
    return [s.tail.name for s in stage.definition.schedule.splits]


def test_tail_of_pure_definition() -> None:
    f, x, _ = make()
    f.vectorize(x, 8).unroll(x, 4)
    assert tails(f._stage()) == ["ShiftInwards", "RoundUp"]
    f, x, _ = make()
    f.vectorize(x, 8).unroll(x, 16)
    assert tails(f._stage()) == ["ShiftInwards", "ShiftInwards"]


def test_tail_of_update() -> None:
    f, x, y = make()
    r = hl.RDom([(0, 10)])
    f[x, y] += r
    xi, xii, ri = hl.Var("xi"), hl.Var("xii"), hl.RVar("ri")
    f.update().split(x, x, xi, 8).split(xi, xi, xii, 4).split(r, hl.RVar("ro"), ri, 4)
    assert tails(f.update()) == ["RoundUp", "GuardWithIf", "GuardWithIf"]


def test_error_names_func_var_loops_and_line() -> None:
    f, _, _ = make()
    with pytest.raises(hl.ScheduleError) as caught:
        f.vectorize(hl.Var("zoo"), 8)
    text = str(caught.value)
    assert f.name() in text
    assert "zoo" in text
    assert "innermost first: x, y" in text
    assert __file__ in text


def test_directives_return_the_func() -> None:
    f, x, y = make()
    xi = hl.Var("xi")
    same = f.split(x, x, xi, 4).reorder(y, xi, x).vectorize(xi).parallel(x).compute_root()
    assert same is f
    assert [d.var for d in f.function().init.schedule.dims] == ["y", "x.xi", "x.x", "__outermost"]
    assert f.function().schedule.compute_level.is_root()


def test_split_off_names_are_stable() -> None:
    f, x, y = make()
    f.vectorize(x, 8).unroll(y, 2).vectorize(y, 4)
    names = [d.var for d in f.function().init.schedule.dims]
    assert names == ["x.vector$0", "x.x", "y.unroll$0", "y.y.vector$1", "y.y.y", "__outermost"]


def test_specialization_copies_what_was_scheduled_before() -> None:
    f, x, y = make()
    p = hl.Param(hl.Int(32), "p")
    f.parallel(y)
    special = f.specialize(p > 3).vectorize(x, 8)
    assert f.specialize(p > 3).definition is special.definition
    kinds = [d.kind.name for d in special.definition.schedule.dims]
    assert kinds == ["Vectorized", "Serial", "Parallel", "Serial"]
    assert [d.kind.name for d in f._stage().definition.schedule.dims] == [
        "Serial",
        "Parallel",
        "Serial",
    ]


def test_loop_level_is_set_later() -> None:
    f, x, _ = make()
    g = hl.Func("g")
    level = hl.LoopLevel()
    f.compute_at(level)
    g[x] = f[x, 0]
    level.set(hl.LoopLevel(g, x))
    recorded = f.function().schedule.compute_level
    assert (recorded.func, recorded.var) == (g.name(), "x")


def test_layout_and_bounds_are_recorded() -> None:
    f, x, y = make()
    f.reorder_storage(y, x).align_storage(x, 16).fold_storage(y, 3).bound(x, 0, 64)
    dims = f.function().schedule.storage_dims
    assert [d.var for d in dims] == ["y", "x"]
    assert str(dims[1].alignment) == "16"
    assert str(dims[0].fold_factor) == "3"
    (bound,) = f.function().schedule.bounds
    assert (bound.var, str(bound.min), str(bound.extent)) == ("x", "0", "64")
    constraint = f.function().output_buffers[0].constraints[0]
    assert (str(constraint.min_estimate), str(constraint.extent_estimate)) == ("0", "64")
