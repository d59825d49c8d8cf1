"""B37: two updates of a donated array with a loop between them that only reads take no copy."""

from __future__ import annotations

from typing import Any

import numpy as np

import bayplan as hl
from bayplan import driver
from bayplan.ir.node import compilation
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import lower
from tests.storage.interpret_bytes import Interpreter

COUNT = 1048576


def _updates(donated: bool) -> tuple[Any, Any]:
    x, k = hl.Var("x"), hl.RDom([(0, 8)], "k")
    source = hl.ImageParam(hl.Float(32), 1, "source")
    a, s, out = hl.funcs("a s out")
    a[x] = 2 * source[x]
    s[()] = 0.0
    s[()] += a[k * 131072]
    out[x] = a[x] + s[()]
    a.compute_root()
    s.compute_root()
    if donated:
        out.may_alias(source)
    return out, source


def test_b37_the_donated_array_holds_all() -> None:
    out, source = _updates(donated=True)
    data = np.ones(COUNT, np.float32)
    address = data.ctypes.data
    buffer = hl.Buffer(data)
    source.set(buffer)
    out.realize(buffer)
    assert driver.context().counts.peak_bytes == 0
    assert data.ctypes.data == address
    assert (data == 18).all()
    report = out.storage(buffer)
    assert report.peak_bytes + report.stack_bytes <= 4096
    assert report["a"].arena == out.name() and report["a"].shares == (out.name(),)


def test_b37_stores_are_counted() -> None:
    t = hl.Var("t")
    count = 100_000
    step = hl.RDom([(0, count)], "step")
    a = hl.Func("a")
    a[t] = hl.undef(hl.Float(32))
    a[step] = hl.cast(hl.Float(32), step)
    assert len(a.storage([count])) == 0
    with compilation():
        program = lower([a._function], get_host_target(), "p")
        name = program.arguments[0].name
        values = {f"{name}.min.0": 0, f"{name}.extent.0": count, f"{name}.stride.0": 1}
        machine = Interpreter(values, {name: count * 4})
        machine.run(program.body)
    assert machine.stores == count
    result = np.frombuffer(machine.content(name), np.float32)
    np.testing.assert_array_equal(result, np.arange(count, dtype=np.float32))


def test_b37_an_array_that_is_not_donated_stays() -> None:
    out, source = _updates(donated=False)
    data = np.ones(COUNT, np.float32)
    source.set(hl.Buffer(data))
    result = hl.Buffer(np.zeros(COUNT, np.float32))
    out.realize(result)
    assert driver.context().counts.peak_bytes == 0
    assert (np.array(result) == 18).all()
    assert result.size_in_bytes() == 4_194_304
    assert (data == 1).all()
