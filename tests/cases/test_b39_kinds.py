"""B39: kinds in the report are those of the plan, whatever the sizes; moved ones say both kinds."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.ir.errors import BayplanError
from bayplan.reference import evaluate
from tests.devices.targets import TARGETS


def make_program(budget: int) -> tuple[hl.Pipeline, hl.Target]:
    x = hl.Var("x")
    a, b, c, d, out = (hl.Func(name) for name in ("a", "b", "c", "d", "b39"))
    a[x] = hl.cast(hl.Float(64), x) * 0.5
    b[x] = hl.cast(hl.Float(32), x) + 1
    c[x] = hl.cast(hl.Float(32), x) * 3
    d[x] = a[x % 1000] + 2
    out[x] = d[x] + b[16383 - x % 16384] + c[x % 12]
    a.compute_root().bound(x, 0, 1000).store_in(hl.MemoryType.Heap)
    b.compute_root().bound(x, 0, 16384).store_in(hl.MemoryType.Stack)
    c.compute_root().bound(x, 0, 12).store_in(hl.MemoryType.Register)
    return hl.Pipeline(out), hl.get_host_target().with_stack_budget(budget)


def rows(report: object) -> dict[str, tuple[str, int]]:
    return {t.func.split("$")[0]: (t.kind, t.bytes) for t in report}


def test_b39_kinds_are_what_was_asked_for() -> None:
    pipeline, target = make_program(131072)
    report = pipeline.storage([20000], target=target)
    assert rows(report) == {"a": ("heap", 8000), "b": ("stack", 65536), "c": ("register", 48)}
    assert all(t.why == "" for t in report) and report.exact
    assert report["a"].asked == "heap" and report["b"].asked == "stack"
    assert report.allocations == 1 and report.required_bytes == report.peak_bytes == 8000
    assert sum(t.bytes for t in report if t.kind == "heap") == 8000


def test_b39_the_checking_allocator_sees_the_rows_on_the_heap() -> None:
    pipeline, target = make_program(131072)
    context = driver.context()
    context.check_allocations()
    try:
        pipeline.realize([20000], target)
        assert context.counts.peak_bytes == 8000 and context.counts.allocations == 1
        assert context.check_counts() == (1, 0, 0)
    finally:
        context.check_allocations(False)


def test_b39_a_moved_temporary_shows_both_kinds() -> None:
    pipeline, target = make_program(65000)
    with pytest.warns(RuntimeWarning, match="asked Stack, got Heap"):
        report = pipeline.storage([20000], target=target)
    assert rows(report) == {"a": ("heap", 8000), "b": ("heap", 65536), "c": ("register", 48)}
    assert (report["b"].asked, report["b"].kind) == ("stack", "heap")
    assert "over" in report["b"].why and "65000" in report["b"].why
    (note,) = [line for line in str(report).splitlines() if "asked Stack" in line]
    assert note.strip() == f"asked Stack, got Heap: {report['b'].why}"
    assert "asked Stack, got Heap" in report.to_html() and "asked Stack" in report.to_svg()
    described = json.loads(report.to_json())["temporaries"]
    assert [t["asked"] for t in described if t["name"] == report["b"].name] == ["stack"]
    pipeline.realize([20000], target)
    assert driver.context().counts.peak_bytes == report.peak_bytes >= 8000 + 65536


def test_a_temporary_without_a_bound_leaves_the_stack() -> None:
    x = hl.Var("x")
    near, out = hl.Func("near"), hl.Func("unbounded")
    near[x] = x * 2
    out[x] = near[x] + near[x + 1]
    near.compute_root().store_in(hl.MemoryType.Stack)
    words = r"near\S*: asked Stack, got Heap: no upper bound for unbounded\S*\.extent\[0\]$"
    with pytest.warns(RuntimeWarning, match=words):
        (t,) = hl.Pipeline(out).storage([500])
    assert (t.kind, t.asked, t.bytes) == ("heap", "stack", 501 * 4)
    assert t.why == f"no upper bound for {out.name()}.extent[0]"


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(BayplanError, match="-1"):
        hl.get_host_target().with_stack_budget(-1)


@pytest.mark.parametrize("kind", ["GPUShared", "GPUTexture", "LockedCache", "VTCM", "Static"])
def test_b39_kinds_that_the_host_has_not_become_heap(kind: str) -> None:
    """They are planned, hoisted and counted as others are."""
    x, y = hl.vars("x y")
    a, out = hl.Func("a"), hl.Func("out")
    a[x, y] = x + y
    out[x, y] = a[x, y] + a[x + 1, y]
    a.compute_at(out, y).store_in(getattr(hl.MemoryType, kind))
    with pytest.warns(RuntimeWarning, match=f"asked {kind}, got Heap: "):
        report = hl.Pipeline(out).storage([9, 7])
    assert (report[a].kind, report.peak_bytes) == ("heap", 40)
    assert report[a].why in str(report) and f"asked {kind}, got Heap" in str(report)
    xs, ys = np.meshgrid(np.arange(9), np.arange(7))
    assert np.array_equal(np.asarray(out.realize([9, 7])), 2 * (xs + ys) + 1)
    counts = driver.context().counts
    assert (counts.allocations, counts.peak_bytes) == (1, 40)


def make_device_program() -> hl.Func:
    """Temporaries of the host, of blocks and of threads, of all kinds, asked for or not."""
    x, xo, xi, n = hl.Var("x"), hl.Var("xo"), hl.Var("xi"), hl.Param(hl.Int(32), "n")
    names = ("both", "stacked", "mine", "large", "sized", "block", "global", "plain", "b39gpu")
    both, stacked, mine, large, sized, block, device, plain, out = map(hl.Func, names)
    both[x] = x * 2
    stacked[x] = x * 3
    mine[x] = stacked[x] + 1
    large[x] = mine[x % 64] + 2
    sized[x] = x * 2
    block[x] = both[x] + 5
    device[x] = block[x] + 1
    plain[x] = device[x] + 1
    out[x] = mine[x] + large[x % 2000] + sized[x % n] + plain[x]
    out.bound(x, 0, 64).split(x, xo, xi, 32).gpu_blocks(xo).gpu_threads(xi)
    both.compute_root()
    stacked.compute_root().store_in(hl.MemoryType.Stack)
    mine.compute_at(out, xi).store_in(hl.MemoryType.Register)
    large.compute_at(out, xi).bound(x, 0, 2000)
    sized.compute_at(out, xi).bound(x, 0, n).store_in(hl.MemoryType.Stack)
    block.compute_at(out, xo).gpu_threads(x).store_in(hl.MemoryType.Register)
    device.compute_at(out, xo).gpu_threads(x).store_in(hl.MemoryType.Heap)
    plain.compute_at(out, xo).gpu_threads(x)
    n.set(9)
    return out


def _plain(name: str) -> str:
    """The name without the number that keeps a Func apart from others."""
    stem, dot, _ = name.partition(".")
    return stem.split("$")[0] + dot + ("device" if dot else "")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_b39_kinds_on_a_device() -> None:
    report = make_device_program().storage([64], target=hl.Target("host-opencl"))
    found = {_plain(t.name): (t.asked, t.kind, bool(t.why)) for t in report}
    assert found == {
        "both": ("auto", "heap", False),
        "both.device": ("gpu_global", "gpu_global", False),
        "stacked": ("stack", "heap", True),
        "stacked.device": ("gpu_global", "gpu_global", False),
        "mine": ("register", "register", False),
        "large": ("auto", "gpu_global", False),
        "sized": ("stack", "gpu_global", True),
        "block": ("register", "gpu_shared", True),
        "global": ("heap", "gpu_global", False),
        "plain": ("auto", "gpu_shared", False),
    }
    assert all(t.source is not None for t in report)
    # Of a thread's own; striped over the threads of the block; one for the block.
    assert report["large"].extents == (2000, 32)
    assert report["sized"].extents == (9, 32)
    assert report["global"].extents == (32,)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target_text", TARGETS)
def test_b39_all_kinds_of_a_device_hold_values(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    result = np.array(make_device_program().realize([64], target))
    np.testing.assert_array_equal(result, evaluate(make_device_program(), [0], [64]))
