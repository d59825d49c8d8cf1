"""Kernels in their normal form: what it looks like, that it is right, and what is refused."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.memory import ForKind
from bayplan.ir.node import compilation
from bayplan.ir.printer import print_node
from bayplan.ir.stmts import For, Stmt
from bayplan.ir.verify import verify
from bayplan.ir.walk import iterate
from bayplan.lower import pipeline
from bayplan.lower.context import Lowering
from bayplan.reference import evaluate
from tests.lower.kernel_programs import PROGRAMS
from tests.lower.kernels_on_host import kernels_on_host

x, y, xi, yi, yo = hl.vars("x y xi yi yo")


def _lower(outputs: list[Any], target: str = "host-opencl", until: str = "") -> Stmt:
    """The statement behind a pass, verified after each."""
    with compilation():
        functions = [f.function() for f in outputs]
        lowering: Lowering = pipeline.prepare(functions, hl.Target(target))
        stmt = pipeline.schedule(lowering)
        stage = "scheduled"
        for name in pipeline.BEFORE_READABLE + pipeline.AFTER_READABLE:
            if name == "add_image_checks":
                pipeline.collect_arguments(stmt, lowering)
            stmt = pipeline.load_pass(name)(stmt, lowering)
            stage = pipeline._STAGE_AFTER.get(name, stage)
            verify(stmt, stage)
            if name == until:
                break
        return stmt


def _form(f: Any) -> str:
    """The text from the first production on, in its normal form after simplification."""
    text = print_node(_lower([f], until="trim_no_ops"))
    return re.sub(r"\$\d+", "", text[text.index("produce") :])


def _grids(stmt: Stmt) -> dict[str, tuple[list[str], list[str]]]:
    """Kernel -> the extents of its blocks and of its threads, x first."""
    grids: dict[str, tuple[list[str], list[str]]] = {}
    for node in iterate(stmt):
        if type(node) is For and node.kind.is_gpu:
            title, _, loop = re.sub(r"\$\d+", "", node.name).rpartition(".")
            sizes = grids.setdefault(title, ([], []))[loop.startswith("thread")]
            index = "xyz".index(loop[-1])
            sizes += [""] * (index + 1 - len(sizes))
            sizes[index] = str(node.extent)
    return grids


def _pair() -> tuple[Any, Any]:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y
    g[x, y] = f[x, y] + f[x + 1, y] + f[x, y + 2]
    return f, g


def test_blocks_stretches_and_guards() -> None:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y)
    lines = [line.strip() for line in _form(g).splitlines()]
    grid = [line for line in lines if line.startswith(("for", "if", "allocate"))]
    K = "g.s0.kernel"
    threads = [
        f"for (gpu_thread {K}.thread_id_y, 0, 6, partition=never) {{",
        f"for (gpu_thread {K}.thread_id_x, 0, 9, partition=never) {{",
    ]
    assert grid == [
        f"for (gpu_block {K}.block_id_y, 0, g.s0.y.y.loop_max + 1, partition=never) {{",
        f"for (gpu_block {K}.block_id_x, 0, g.s0.x.x.loop_max + 1, partition=never) {{",
        "allocate f[int32 * 9 * 6] in Auto",
        *threads,
        *threads,
        f"if ({K}.thread_id_y <= 3) {{",
        f"if ({K}.thread_id_x <= 7) {{",
    ]


def test_what_one_thread_does_alone_is_guarded() -> None:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x)
    form = _form(g)
    for axis in "xy":
        assert f"g.s0.kernel.thread_id_{axis} == 0" in form


def test_temporaries_between_threads_have_room_for_the_outer_ones() -> None:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, yi).gpu_threads(x)
    form = _form(g)
    assert "allocate f[int32 * 9 * 3 * 4] in Auto" in form
    assert "thread_id_y * 27" in form


def test_lanes_of_several_warps_are_32() -> None:
    f, g = _pair()
    g.split(x, x, xi, 8).split(y, y, yi, 4).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).gpu_lanes(x)
    ((_, threads),) = _grids(_lower([g], until="trim_no_ops")).values()
    assert threads == ["32", "4"]


def test_lanes_of_one_warp_are_as_many_as_there_are() -> None:
    _, g = _pair()
    g.split(x, x, xi, 8).reorder(xi, x, y).gpu_blocks(x).gpu_lanes(xi)
    ((_, threads),) = _grids(_lower([g], until="trim_no_ops")).values()
    assert threads == ["8"]


def test_sizes_of_the_call_are_computed_before_the_launch() -> None:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n")
    g.gpu_tile(x, xi, n)
    f.compute_at(g, x).gpu_threads(x)
    form = _form(g)
    assert form.count("thread_id_x, 0, n + 1,") == 2
    assert "if (g.s0.kernel.thread_id_x < n)" in form


def test_repeated_kernels_have_names_of_their_own() -> None:
    _, g = _pair()
    g.split(y, y, yi, 2).reorder(x, yi, y).split(x, x, xi, 8).gpu_blocks(x).gpu_threads(xi)
    g.unroll(yi)
    names = {n.name for n in iterate(_lower([g])) if type(n) is For and n.kind.is_gpu}
    assert len(names) == 4, names


@pytest.mark.parametrize(
    ("name", "reverse"),
    [*[(name, True) for name in PROGRAMS], ("matrix_product", False), ("lanes", False)],
)
def test_normal_forms_compute_the_same(name: str, reverse: bool) -> None:
    """In any order of blocks and threads."""
    build, extents = PROGRAMS[name]
    want = np.asarray(evaluate(build(), [0] * len(extents), extents))
    with kernels_on_host(reverse) as forms:
        got = np.asarray(build().realize(extents))
    np.testing.assert_array_equal(got, want)
    (form,) = forms
    assert any(type(n) is For and n.kind is ForKind.GPUBlock for n in iterate(form))


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_keep_their_form_to_the_end(name: str) -> None:
    build, _ = PROGRAMS[name]
    grids = _grids(_lower([build()]))
    assert grids and all(blocks and threads for blocks, threads in grids.values())


def test_checks_are_made_before_the_launch() -> None:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 40)
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y).bound(x, 0, n)
    with kernels_on_host():
        g.realize([30, 12])
        n.set(20)
        with pytest.raises(hl.BayplanError, match=r"promised to stay within 0\.\.19 in x"):
            g.realize([30, 12])


def test_a_specialization_that_fails_does_so_before_the_launch() -> None:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 1)
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y)
    f.specialize(n == 1)
    f.specialize_fail("n is 1 or nothing")
    with kernels_on_host():
        g.realize([30, 12])
        n.set(2)
        with pytest.raises(hl.BayplanError, match="n is 1 or nothing"):
            g.realize([30, 12])


APPS = [
    *[("blur", which) for which in ("inline", "cache", "slide", "slide_vector")],
    *[(name, True) for name in ("unsharp", "harris", "camera_pipe", "iir_blur")],
]


@pytest.mark.parametrize(("name", "gpu"), APPS)
def test_grids_are_those_of_the_wheel(name: str, gpu: Any, tmp_path: Path) -> None:
    """Blocks, where they are constants, and threads of every kernel, in order."""
    halide = pytest.importorskip("halide")
    module = importlib.import_module(f"apps.{name}")
    target = "host-cuda" if name == "iir_blur" else "host-opencl"
    pipe = halide.Pipeline(module.build(halide, gpu=gpu).output)
    path = tmp_path / "wheel.stmt"
    text = halide.StmtOutputFormat.Text
    pipe.compile_to_lowered_stmt(
        str(path), pipe.infer_arguments(), text, target=halide.Target(target)
    )
    launches = re.findall(
        r"halide_\w+_run\(\w+\[0\], \"\w+\", " + ", ".join([r"(\w+)"] * 6), path.read_text()
    )
    ours = _grids(_lower([module.build(hl, gpu=gpu).output], target))
    assert len(ours) == len(launches) > 0
    for launch, (blocks, threads) in zip(launches, ours.values(), strict=True):
        padded = [part + ["1"] * (3 - len(part)) for part in (blocks, threads)]
        assert list(launch[3:]) == padded[1]
        for want, got in zip(launch[:3], padded[0], strict=True):
            assert want == got or not want.isdigit()
