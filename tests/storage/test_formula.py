"""Formulas of sizes: short, in the user's names, and the same numbers as the report's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import bayplan as hl
from bayplan.ir.build import const, div, int32
from bayplan.ir.exprs import Max, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.types import INT32, Float
from bayplan.storage.formula import LONGEST, user_name, write_formulas
from bayplan.storage.plan import Arena, PlannedTemporary, StoragePlan

NAME = re.compile(r"[A-Za-z_][\w.$]*(?:\[\d+\])?")


def value_of(text: str, known: Mapping[str, Any], terms: Mapping[str, str]) -> int:
    """What a formula comes to, read as a person would."""

    def word(match: re.Match[str]) -> str:
        name = match.group()
        if name in ("min", "max"):
            return name
        return f"({value_of(terms[name], known, terms) if name in terms else known[name]})"

    return int(eval(NAME.sub(word, text).replace(" / ", " // "), {"min": min, "max": max}))


def chain_of_rows() -> hl.Func:
    """Stages of whole images and of rows, under a parallel loop."""
    x, y = hl.vars("x y")
    whole, rows, out = hl.Func("whole"), hl.Func("rows"), hl.Func("out")
    whole[x, y] = hl.cast(hl.Float(32), x * 3 + y)
    rows[x, y] = whole[x, y] + whole[x + 2, y + 1]
    out[x, y] = rows[x, y] + rows[x, y + 1] + whole[x, y]
    whole.compute_root()
    rows.compute_at(out, y)
    out.parallel(y)
    return out


def strips() -> hl.Func:
    """Sizes that are rounded up to whole vectors."""
    x, y, yi = hl.vars("x y yi")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x, y] = hl.cast(hl.UInt(16), x + y)
    second[x, y] = first[x, y] + first[x + 1, y]
    out[x, y] = second[x, y] + second[x, y + 2]
    out.split(y, y, yi, 8).parallel(y).vectorize(x, 16)
    first.store_at(out, y).compute_at(out, yi).vectorize(x, 16)
    second.store_at(out, y).compute_at(out, yi).vectorize(x, 16)
    return out


@pytest.mark.parametrize("build", [chain_of_rows, strips])
@pytest.mark.parametrize("size", [(40, 30), (65, 9), (1000, 17)])
@pytest.mark.parametrize("workers", [1, 3])
def test_formulas_come_to_the_bytes_of_the_report(
    build: Any, size: tuple[int, int], workers: int
) -> None:
    report = hl.Pipeline(build()).storage(list(size), workers=workers)
    known: dict[str, Any] = {"workers": workers}
    for d, extent in enumerate(size):
        known[f"{report.pipeline}.extent[{d}]"] = extent
        known[f"{report.pipeline}.min[{d}]"] = 0
    terms = dict(report.terms)
    assert len(report) >= 2
    for t in report:
        assert len(t.formula) <= LONGEST
        assert value_of(t.formula, known, terms) == t.bytes
        known[t.name] = -(-t.bytes // 64) * 64
    assert value_of(report.formula, known, terms) == pytest.approx(report.peak_bytes, abs=64)


def test_sizes_that_are_numbers_show_their_extents() -> None:
    x, y = hl.vars("x y")
    table, out = hl.Func("table"), hl.Func("out")
    table[x, y] = hl.cast(hl.Int(16), x * y)
    out[x, y] = table[x, y] + table[11 - x, y]
    table.compute_root().bound(x, 0, 12).bound(y, 0, 10).store_in(hl.MemoryType.Heap)
    (t,) = hl.Pipeline(out).storage([12, 10])
    assert t.formula == "2 * 12 * 10" and t.bytes == 240


def test_names_are_those_of_the_user() -> None:
    assert user_name("image.extent.0") == "image.extent[0]"
    assert user_name("f$3.min.12") == "f$3.min[12]"
    assert user_name("f.s0.x.x.loop_max") == "f.x.x.loop_max"
    assert user_name("n") == "n"


def make_plan(lets: list[tuple[str, Any]], *extents: Any) -> StoragePlan:
    true = const(INT32, 1)
    t = PlannedTemporary("t", Float(32), tuple(extents), 0, true, MemoryType.Heap, (0, 1), ())
    t.arena, t.member, t.group = "t", 0, 0
    arena = Arena("t", "call", (t,), 64)
    return StoragePlan((arena,), (t,), "t", (), ("write t",), tuple(lets))


def n(name: str) -> Variable:
    return Variable(INT32, name)


def test_lets_are_written_out() -> None:
    plan = make_plan([("a", n("im.extent.0") - 1), ("b", div(n("a"), 2) + 1)], n("b"), int32(3))
    formulas = write_formulas(plan)
    assert formulas.sizes == ("4 * ((im.extent[0] + 1) / 2) * 3",) and formulas.terms == ()
    assert formulas.names == (("im.extent[0]",),)
    assert formulas.peak == formulas.floor == "t"


def test_a_negated_minimum_reads_as_a_maximum() -> None:
    from bayplan.ir.exprs import Min

    plan = make_plan([], int32(88) - Min(int32(0) - n("out.extent.0"), int32(-351)))
    assert write_formulas(plan).sizes == ("4 * (max(out.extent[0], 351) + 88)",)


def test_what_is_too_long_gets_named_terms() -> None:
    e: Any = n("p0")
    for i in range(1, 40):
        e = div(Max(e * 2, n(f"parameter_{i}")), 3) + n(f"other_{i}")
    formulas = write_formulas(make_plan([], e, n("rows")))
    (size,) = formulas.sizes
    assert size == "4 * t.extent[0] * rows"
    terms = dict(formulas.terms)
    assert list(terms)[-1] == "t.extent[0]"
    assert all(len(text) <= LONGEST for text in terms.values())
    # All parameters are in one term or another, and each term is used.
    whole = " ".join([size, *terms.values()])
    assert all(f"parameter_{i}" in whole for i in range(1, 40))
    assert all(name in whole for name in terms)


def test_a_let_of_many_nodes_stays_a_name() -> None:
    e: Any = n("p0")
    for i in range(1, 200):
        e = div(Max(e * 2, n(f"q{i}")), 3) + n(f"r{i}")
    formulas = write_formulas(make_plan([("f.s0.x.max", e)], n("f.s0.x.max") + 1))
    assert formulas.sizes == ("4 * (f.x.max + 1)",)
    assert all(len(text) <= LONGEST for _, text in formulas.terms)


def test_sums_that_are_too_long_are_named() -> None:
    true = const(INT32, 1)
    names = [f"a_rather_long_name_{i}" for i in range(8)]
    members = []
    for i, name in enumerate(names):
        life = (i, i + 3)
        t = PlannedTemporary(name, Float(32), (n("w"),), 0, true, MemoryType.Heap, life, ())
        t.arena, t.member, t.group = "f.arena", i, i
        members.append(t)
    arena = Arena("f.arena", "call", tuple(members), 64)
    plan = StoragePlan((arena,), tuple(members), "f.arena", (), ("s",) * 10, ())
    formulas = write_formulas(plan)
    assert formulas.floor == f"max({', '.join(f'alive.{i}' for i in range(1, 7))})"
    assert formulas.peak == ""
    terms = dict(formulas.terms)
    assert terms["alive.1"] == " + ".join(names[:3]) and len(terms) == 6


def test_bytes_that_are_taken_over_count_once() -> None:
    true = const(INT32, 1)
    members = []
    for i, extent in enumerate((n("w"), n("w"), n("v"))):
        t = PlannedTemporary(
            f"t{i}", Float(32), (extent,), 0, true, MemoryType.Heap, (i, i + 2), ()
        )
        t.arena, t.member, t.group = "f.arena", i, 0
        members.append(t)
    arena = Arena("f.arena", "call", tuple(members), 64)
    plan = StoragePlan((arena,), tuple(members), "f.arena", (), ("s",) * 5, ())
    assert write_formulas(plan).peak == "max(t0, t2)"
    members[2].extents = (n("w"),)
    assert write_formulas(plan).peak == "t0"
