"""The list of passes as a whole: stages, times, origins, arguments, and the checks between."""

from __future__ import annotations

import pytest

import bayplan as hl
from bayplan.ir.build import var
from bayplan.ir.errors import InternalError
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Evaluate, Stmt
from bayplan.lower import pipeline
from bayplan.lower.context import Lowering
from bayplan.lower.program import LoweredProgram
from tests.lower.programs import PROGRAMS


def lowered(name: str, keep_stages: bool = False) -> LoweredProgram:
    output = PROGRAMS[name](hl)
    with compilation():
        return pipeline.lower(
            [output.function()], hl.get_host_target(), name, keep_stages=keep_stages
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_the_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    program = lowered(name)
    assert program.name == name
    assert [a.kind for a in program.arguments][-1] == "output_buffer"


def test_stages_and_times_follow_the_list() -> None:
    program = lowered("blur", keep_stages=True)
    names = ["schedule_functions", *pipeline.BEFORE_READABLE, *pipeline.AFTER_READABLE]
    on_host = [name for name in names if name not in pipeline.FOR_KERNELS]
    assert [name for name, _ in program.stages] == on_host
    assert [name for name, _ in program.timings] == ["prepare", *on_host]
    assert all(seconds >= 0 for _, seconds in program.timings)


def test_programs_with_kernels_go_through_all_passes() -> None:
    x, xi = hl.Var("x"), hl.Var("xi")
    f = hl.Func("f")
    f[x] = x
    f.gpu_tile(x, xi, 8)
    with compilation():
        program = pipeline.lower([f.function()], hl.Target("cuda-emulated"), "f")
    names = ["schedule_functions", *pipeline.BEFORE_READABLE, *pipeline.AFTER_READABLE]
    assert [name for name, _ in program.timings] == ["prepare", *names]
    assert set(names) >= pipeline.FOR_KERNELS


def test_stages_are_not_kept_unless_asked_for() -> None:
    assert lowered("blur").stages == []


def test_temporaries_know_their_func_and_line() -> None:
    program = lowered("tuples")
    origins = {name: origin for name, origin in program.origins.items() if name.startswith("f")}
    assert sorted(name[-2:] for name in origins) == [".0", ".1"]
    for name, origin in origins.items():
        assert name.startswith(origin.func)
        assert "programs.py" in str(origin.where)


def test_inputs_come_by_name_and_before_outputs() -> None:
    x = hl.Var("x")
    b = hl.ImageParam(hl.Int(32), 1, "bb")
    a = hl.ImageParam(hl.Int(32), 1, "cc")
    p = hl.Param(hl.Int(32), "aa")
    f = hl.Func("f")
    f[x] = b[x] + a[x] + p
    with compilation():
        program = pipeline.lower([f.function()], hl.get_host_target(), "f")
    assert [arg.name for arg in program.arguments] == ["aa", "bb", "cc", f.name()]


def test_a_fault_of_a_pass_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(stmt: Stmt, lowering: Lowering) -> Stmt:
        return Evaluate(var("nobody.defines.this"))

    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    load = pipeline.load_pass
    monkeypatch.setattr(
        pipeline, "load_pass", lambda name: broken if name == "hoist_storage" else load(name)
    )
    with pytest.raises(InternalError, match=r"after hoist_storage: .*nobody\.defines\.this"):
        lowered("blur")
