"""B41: a chain of 40 stages is explained in 60 lines, and its page stays small."""

from __future__ import annotations

import re
from typing import Any

import pytest

import bayplan as hl
from bayplan.driver.compile import compile_pipeline

STAGES = 40


def make_chain(tiled: bool) -> hl.Func:
    x, y, xi, yi = hl.vars("x y xi yi")
    previous: Any = hl.ImageParam(hl.Float(32), 2, "image")
    stages = []
    for i in range(STAGES):
        stage = hl.Func(f"stage_{i}")
        window = [previous[x + dx, y + dy] for dy in range(3) for dx in range(3)]
        total = window[0]
        for e in window[1:]:
            total = total + e
        stage[x, y] = total / 9
        stages.append(stage)
        previous = stage
    if tiled:
        stages[-1].tile(x, y, xi, yi, 64, 64)
    for stage in stages[:-1]:
        if tiled:
            stage.compute_at(stages[-1], x)
        else:
            stage.compute_root()
    return stages[-1]


@pytest.fixture(scope="module")
def tiled() -> hl.Func:
    return make_chain(tiled=True)


@pytest.fixture(scope="module")
def report(tiled: hl.Func) -> Any:
    return hl.Pipeline(tiled).storage([640, 640])


def plain(name: str) -> str:
    return re.sub(r"\$\d+", "", name)


def rows_of(text: str) -> list[list[str]]:
    """Cells of the lines of temporaries; two blanks are between cells."""
    lines = [line for line in text.splitlines() if line.startswith("stage_")]
    return [re.split(r"\s{2,}", line) for line in lines]


def test_b41_one_line_for_each_temporary(report: Any) -> None:
    text = report.explain()
    assert len(text.splitlines()) <= 60
    rows = rows_of(text)
    # The golden part: names, sizes and formulas; the window of stage k is 2 * (39 - k) larger.
    assert [(plain(r[0]), r[2].replace(",", "")) for r in rows] == [
        (f"stage_{k}", str(4 * (64 + 2 * (39 - k)) ** 2)) for k in range(39)
    ]
    assert [r[-1] for r in rows] == [
        f"4 * {64 + 2 * (39 - k)} * {64 + 2 * (39 - k)}" for k in range(39)
    ]
    assert all(r[1] in ("heap", "stack") and re.match(r"\[\d+, \d+\)", r[3]) for r in rows)


def test_b41_who_shares_and_the_peak_are_in_it(report: Any) -> None:
    heap = [t for t in report if t.kind == "heap"]
    assert all(t.shares for t in heap[2:])
    # A stage and the one before are alive together: two buffers hold the chain.
    assert report.peak_bytes == report.floor_bytes
    first, second = (4 * (64 + 2 * (39 - k)) ** 2 for k in (0, 1))
    assert report.peak_bytes <= first + second + 64
    assert report.peak_bytes < 0.2 * report.sum_bytes


def test_b41_sizes_in_terms_of_parameters() -> None:
    report = hl.Pipeline(make_chain(tiled=False)).storage([640, 480])
    output = report.pipeline
    text = report.explain()
    assert len(text.splitlines()) <= 60
    for k, (t, row) in enumerate(zip(report, rows_of(text), strict=True)):
        more = 2 * (39 - k)
        assert t.formula == f"4 * ({output}.extent[0] + {more}) * ({output}.extent[1] + {more})"
        assert row[-1] == t.formula and len(t.formula) <= 120
        assert t.bytes == 4 * (640 + more) * (480 + more)


def test_b41_the_page_is_small_and_closes_by_loops(tiled: hl.Func, report: Any) -> None:
    program = compile_pipeline(hl.Pipeline(tiled)._functions(), None).program
    page = report.to_html()
    assert len(page) <= 5 * len(str(program.body))
    assert "http" not in page and "<script" not in page and "url(" not in page
    loops = re.findall(r"<details open><summary><b>([^<]*)</b>", page)
    assert [plain(name) for name in loops] == ["the call", "stage_39.y", "stage_39.x"]


def test_b41_emitted_names_begin_with_the_users(tiled: hl.Func, report: Any) -> None:
    compiled = compile_pipeline(hl.Pipeline(tiled)._functions(), None)
    from bayplan.targets.c import emit

    source = emit(compiled.program).source
    for t in report:
        # The $ of a second Func of one name is no letter of C.
        assert re.search(rf"\b(float )?\*?(const )?{t.name.replace('$', '_')}\w*\b", source), t.name
