"""B27: shared memory over the device's limit is refused before the launch, with its parts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.analysis.evaluate import evaluate
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import AssertStmt
from bayplan.ir.walk import Rewriter, iterate
from bayplan.lower.pipeline import lower

EMULATED = hl.Target("host-cuda-emulated")
AUTO, SHARED = hl.MemoryType.Auto, hl.MemoryType.GPUShared


def make_program(elements: Any, names: Sequence[str], kind: hl.MemoryType) -> hl.Func:
    """Float32 temporaries of so many elements, all alive in one block of 64 threads."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    out = hl.Func("out")
    value: Any = 0.0
    funcs = []
    for i, name in enumerate(names):
        f = hl.Func(name)
        f[x] = hl.f32(x) * (2 * i + 1.0)
        value = value + f[(x * 7) % elements] + f[(x * 3) % elements]
        funcs.append(f)
    out[x] = value
    out.bound(x, 0, 64).split(x, xo, xi, 64).gpu_blocks(xo).gpu_threads(xi)
    for f in funcs:
        f.bound(x, 0, elements).compute_at(out, xo).split(x, xo, xi, 50).gpu_threads(xi)
        f.store_in(kind)
    return out


def expected(elements: int, count: int) -> np.ndarray:
    x = np.arange(64)
    terms = (x * 7) % elements + (x * 3) % elements
    return sum([terms * (2 * i + 1.0) for i in range(count)]).astype(np.float32)


class _Limit(Rewriter):
    """The program on a device whose blocks have so many bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def rewrite_Call(self, node: Call) -> Expr:
        from bayplan.ir.build import const

        if node.name == "device_shared_limit":
            return const(node.type, self.limit)
        return self.rebuild(node)


def launch_error(func: hl.Func, limit: int, **values: int) -> str:
    """What the launch is refused with on a device of that limit; "" where it is not."""
    with compilation():
        stmt = _Limit(limit)(lower(func._final_functions(), EMULATED, "b27").body)
        known: dict[str, Any] = dict(values)
        for node in iterate(stmt):
            if type(node).__name__ == "LetStmt":
                try:
                    known[node.name] = evaluate(node.value, known)
                except Exception:
                    continue
        for node in iterate(stmt):
            if isinstance(node, AssertStmt) and "shared memory" in node.site.template:
                if not evaluate(node.condition, known):
                    return node.site.template.format(*[evaluate(a, known) for a in node.args])
    return ""


def test_b27_an_error_has_what_is_needed_the_limit_and_the_parts() -> None:
    error = launch_error(make_program(128 * 128, ["tile"], SHARED), 49152)
    assert "needs 65536 bytes" in error
    assert "the device has 49152" in error
    assert "tile" in error
    assert error.endswith(" 65536")
    assert not launch_error(make_program(128 * 128, ["tile"], SHARED), 101376)
    assert "102400" in launch_error(make_program(25600, ["tile"], SHARED), 101376)


def test_b27_parts_of_constant_and_run_time_size_count_together() -> None:
    n = hl.Param(hl.Int(32), "n")
    func = make_program(n, ["first", "second"], SHARED)
    assert not launch_error(func, 49152, n=6144)
    error = launch_error(func, 49152, n=7500)
    assert "needs 60000 bytes" in error
    assert error.count(" 30000") == 2


def test_b27_what_fits_with_opt_in_runs_and_what_does_not_is_an_error() -> None:
    if not hl.host_supports_target_device(EMULATED):
        pytest.skip("no emulation")
    for elements, names in ((128 * 128, ["tile"]), (7500, ["first", "second"])):
        result = make_program(elements, names, SHARED).realize([64], EMULATED)
        np.testing.assert_array_equal(np.array(result), expected(elements, len(names)))
    with pytest.raises(hl.DeviceLimitError, match=r"needs 280000 bytes.*tile.* 280000"):
        make_program(70000, ["tile"], SHARED).realize([64], EMULATED)


def test_b27_auto_moves_to_global_memory_with_a_note() -> None:
    func = make_program(7500, ["first", "second"], AUTO)
    with pytest.warns(RuntimeWarning, match="60000 bytes of a block's shared memory.* 49152"):
        report = func.storage([64], target=EMULATED)
    kinds = sorted([(t.kind, t.asked, bool(t.why)) for t in report])
    assert kinds == [("gpu_global", "auto", True), ("gpu_shared", "auto", False)]
    if hl.host_supports_target_device(EMULATED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = np.array(func.realize([64], EMULATED))
        np.testing.assert_array_equal(result, expected(7500, 2))
