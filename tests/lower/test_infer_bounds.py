"""The regions that each loop requires, as texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bayplan as hl
from bayplan.ir.errors import BoundsError
from bayplan.ir.node import compilation
from bayplan.ir.stmts import LetStmt
from bayplan.ir.walk import iterate
from bayplan.lower.pipeline import load_pass, prepare, schedule
from tests.lower.programs import PROGRAMS
from tests.lower.test_initial_loops import stable

GOLDEN = ("blur", "updates", "filtered", "tails", "together", "together_updates", "bounded")
ALLOCATIONS = ("blur", "tails", "together", "bounded", "pyramid")


def after(output: hl.Func, *passes: str) -> str:
    """The text of a pipeline after the initial loops and some passes."""
    with compilation():
        lowering = prepare([output.function()], None)
        stmt = schedule(lowering)
        for name in ("find_func_bounds", "infer_bounds", *passes):
            stmt = load_pass(name)(stmt, lowering)
        return stable(str(stmt))


@pytest.mark.parametrize("name", GOLDEN)
def test_regions(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.regions.txt", after(PROGRAMS[name](hl)))


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_allocations(name: str, golden: Callable[[str, str], None]) -> None:
    text = after(
        PROGRAMS[name](hl), "uniquify_names", "simplify_program", "infer_allocation_bounds"
    )
    golden(f"{name}.allocations.txt", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_region_is_defined(name: str) -> None:
    with compilation():
        lowering = prepare([PROGRAMS[name](hl).function()], None)
        stmt = schedule(lowering)
        for pass_name in ("find_func_bounds", "infer_bounds", "infer_allocation_bounds"):
            stmt = load_pass(pass_name)(stmt, lowering)
        defined = {n.name for n in iterate(stmt) if isinstance(n, LetStmt)}
        from bayplan.ir.walk import free_variables_of_stmt

        undefined = free_variables_of_stmt(stmt) - defined
    outputs = tuple(f"{name}." for name in lowering.outputs)
    assert {n for n in undefined if not n.startswith(outputs)} <= {"p"} | {
        f"input.{field}.{d}" for field in ("min", "extent", "stride") for d in range(3)
    }


def test_unbounded_use_names_both_funcs() -> None:
    x = hl.Var("x")
    f, g, table = hl.Func("f"), hl.Func("g"), hl.ImageParam(hl.Int(32), 1, "table")
    f[x] = x
    g[x] = f[table[x]]
    f.compute_root()
    with pytest.raises(BoundsError, match="needs in dimension 0; clamp") as caught:
        after(g)
    assert f.name() in str(caught.value)
    assert "test_infer_bounds.py" in str(caught.value)


def test_a_long_chain_has_regions_of_linear_size() -> None:
    x = hl.Var("x")
    funcs = [hl.Func(f"stage{i}") for i in range(60)]
    funcs[0][x] = x
    for producer, consumer in zip(funcs, funcs[1:]):
        consumer[x] = producer[x - 1] + producer[x + 1]
        producer.compute_root()
    text = after(funcs[-1], "uniquify_names")
    assert len(text) < 60 * 2500
