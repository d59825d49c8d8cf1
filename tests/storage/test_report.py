"""The report says before the call what a counting allocator sees in it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator

import pytest

import bayplan as hl
from apps import harness
from bayplan import driver

APPS = ("blur", "unsharp", "harris", "camera_pipe", "iir_blur", "stencil_chain")


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = driver.set_num_threads(1)
    yield
    driver.set_num_threads(before)


def chain(stages: int) -> hl.Func:
    x = hl.Var("x")
    before = hl.Func("stage_0")
    before[x] = x
    before.compute_root()
    for i in range(1, stages):
        func = hl.Func(f"stage_{i}")
        func[x] = before[x] + before[x + 1]
        if i < stages - 1:
            func.compute_root()
        before = func
    return before


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", APPS)
def test_the_peak_is_what_the_allocator_counts(name: str) -> None:
    app = importlib.import_module(f"apps.{name}").build(hl)
    mins, extents = app.mins, app.extents
    arrays = harness.make_inputs(app, mins, extents, 0)
    harness.run(hl, app, arrays, mins, extents)
    counts = driver.context().counts
    output = hl.Buffer(app.output.types()[0], list(extents))
    output.set_min(list(mins))
    report = app.output.storage(output, workers=1)
    assert report.exact
    assert report.peak_bytes == counts.peak_bytes
    assert report.allocations == counts.allocations
    # Each temporary is aligned to a cache line, in the arena and in that of its worker.
    assert report.floor_bytes <= report.peak_bytes <= 1.02 * report.floor_bytes
    assert report.floor_bytes <= report.sum_bytes
    assert counts.live_bytes == 0


def test_a_chain_needs_two_stages_at_once() -> None:
    output = chain(6)
    report = output.storage([1000])
    assert [t.func.split("$")[0] for t in report] == [f"stage_{i}" for i in range(5)]
    assert [t.extents for t in report] == [(1000 + 5 - i,) for i in range(5)]
    assert report[report.temporaries[3].func].bytes == 4 * 1002
    assert report.sum_bytes == 4 * sum(1000 + 5 - i for i in range(5))
    assert report.floor_bytes == 4 * (1005 + 1004)
    line = report.temporaries[0].source
    assert line is not None
    assert line.file == __file__
    output.realize([1000])
    assert driver.context().counts.peak_bytes == report.peak_bytes


def test_lives_follow_program_order() -> None:
    report = chain(4).storage([1000])
    lives = [(t.life_begin, t.life_end) for t in report]
    assert all(begin < end for begin, end in lives)
    for i, t in enumerate(report):
        assert t.func in report.steps[t.life_begin]
        if i:
            assert lives[i - 1][1] == lives[i][0] + 1


def test_the_report_reads_as_text_json_and_page() -> None:
    report = chain(3).storage([64])
    assert "stage_1" in str(report)
    data = json.loads(report.to_json())
    assert data["peak_bytes"] == report.peak_bytes
    assert [t["name"] for t in data["temporaries"]] == [t.name for t in report]
    assert "stage_1" in report._repr_html_()


def test_a_pipeline_without_temporaries_takes_nothing() -> None:
    f, x = hl.Func("f"), hl.Var("x")
    f[x] = x + 1
    report = f.storage([10])
    assert len(report) == 0
    assert (report.peak_bytes, report.floor_bytes, report.sum_bytes) == (0, 0, 0)


def test_parameters_are_part_of_the_sizes() -> None:
    n = hl.Param(hl.Int(32), "taps", 3)
    x = hl.Var("x")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * 2
    r = hl.RDom([(0, n)])
    g[x] = 0
    g[x] += f[x + r]
    f.compute_root()
    assert g.storage([10])[f.name()].extents == (12,)
    assert g.storage([10], **{n.name(): 7})[f.name()].extents == (16,)
    # The parameter itself is not changed by asking.
    assert g.storage([10])[f.name()].extents == (12,)


def test_a_report_cannot_be_changed() -> None:
    report = chain(3).storage([64])
    with pytest.raises(AttributeError):
        report.peak_bytes = 1
    with pytest.raises(KeyError, match=r"no temporary 'stage_9'; there are: stage_0\S*, stage_1"):
        report["stage_9"]


def test_an_input_that_only_gives_a_size_must_be_there() -> None:
    x = hl.Var("x")
    table = hl.ImageParam(hl.Float(32), 1, "table")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * 2
    r = hl.RDom([(0, table.dim(0).extent())])
    g[x] = 0
    g[x] += f[r]
    f.compute_root().store_in(hl.MemoryType.Heap)
    with pytest.raises(hl.MissingArgument, match=r"extent of input buffer table in dimension 0"):
        g.storage([10])
    table.set(hl.Buffer(hl.Float(32), [33]))
    assert g.storage([10]).peak_bytes == 4 * 33


def test_bytes_beyond_63_bits_are_refused_as_the_call_refuses_them() -> None:
    x, y = hl.vars("x y")
    q = hl.Param(hl.Int(32), "q", 2**31 - 1)
    wide, out = hl.Func("wide"), hl.Func("out")
    wide[x, y] = x + y
    out[x] = wide[x, q] + wide[x * q, 0]
    wide.compute_root()
    with pytest.raises(hl.AllocationTooLarge, match=r"wide\S* needs \d+ bytes"):
        hl.Pipeline(out).storage([100])
    with pytest.raises(hl.AllocationTooLarge, match="wide"):
        out.realize([100])
