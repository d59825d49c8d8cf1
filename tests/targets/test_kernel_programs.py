"""Programs that ask much of the form of kernels, on the devices of this machine."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from tests.devices.targets import TARGETS
from tests.lower.kernel_programs import PROGRAMS

OPENCL = (
    "producer_in_the_outer_thread_loop", "window_that_slides_in_a_block", "rows_of_a_triangle",
    "rows_that_differ_in_threads", "updates_in_a_block", "vectors_around_threads", "few_lanes",
    "kernels_in_loops_of_the_host", "specializations", "stages_that_share_blocks", "histogram",
    "sizes_from_parameters", "checks_in_a_kernel",
)  # fmt: skip
EMULATED = ("histogram", "matrix_product", "lanes", "window_that_slides_in_a_block", "tuples")


@pytest.mark.parametrize(
    ("name", "target_text"),
    [
        *[(name, "opencl") for name in OPENCL],
        *[(name, "cuda-emulated") for name in EMULATED],
        *[(name, "host-cuda") for name in PROGRAMS if "host-cuda" in TARGETS],
    ],
)
def test_devices_agree_with_the_evaluator(
    name: str, target_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    build, extents = PROGRAMS[name]
    want = np.asarray(evaluate(build(), [0] * len(extents), extents))
    np.testing.assert_array_equal(np.asarray(build().realize(extents, target)), want)


def test_no_iteration_ends_with_a_wait_that_only_some_do() -> None:
    """PoCL would not leave such a loop."""
    build, _ = PROGRAMS["window_that_slides_in_a_block"]
    for text, count in (("opencl", 3), ("cuda-emulated", 2)):
        source = hl.Pipeline(build()).device_source(hl.Target(text))
        assert source.count("barrier(CLK_LOCAL") + source.count("__syncthreads()") == count
    build, _ = PROGRAMS["matrix_product"]
    sources = [hl.Pipeline(build()).device_source(hl.Target(t)) for t in ("opencl", "cuda")]
    assert sources[0].count("barrier(CLK_LOCAL") == sources[1].count("__syncthreads()") > 0


def test_a_tail_that_computes_with_elements_without_a_value() -> None:
    """What is computed in vain must not change what is not; PoCL's compiler is LLVM."""
    target = hl.Target("opencl")
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    x, y, b, t, yo, yi, xo, xi = hl.vars("x y b t yo yi xo xi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    data = hl.Buffer((np.arange(40 * 40).reshape(40, 40) % 7).astype(np.int32))
    f[x, y] = hl.select(y <= data[x + 3, y], x, hl.i32(hl.absd(data[x + 3, y], y)))
    g[x, y] = hl.mux(5 + f[x, y], [f[x, y], f[x - 1, y + 3], 9, f[x, y]])
    h[x, y] = hl.max(g[x, y], hl.count_leading_zeros(g[x, y] | 1))
    h.split(y, b, t, 5, hl.TailStrategy.ShiftInwards).reorder(t, x, b)
    h.gpu_blocks(x, b).gpu_threads(t)
    g.compute_at(h, t).split(y, yo, yi, 3, hl.TailStrategy.ShiftInwards).reorder(yi, x, yo)
    g.split(x, xo, xi, 4, hl.TailStrategy.Predicate).unroll(yi)
    f.compute_at(h, t).split(y, yo, yi, 5, hl.TailStrategy.Predicate)
    want = np.asarray(evaluate(h, [0, 0], [19, 10]))
    np.testing.assert_array_equal(np.asarray(h.realize([19, 10], target)), want)
