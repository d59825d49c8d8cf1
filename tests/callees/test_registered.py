"""Functions that external stages find: Python's, ctypes', those of libraries, the C library's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import bayplan as hl
from tests.callees.conftest import SOURCE


def test_a_python_function_with_a_bounds_query() -> None:
    asked: list[Any] = []

    @hl.register_extern("py_blur")
    def blur(source: Any, radius: int, out: Any) -> None:
        if out.is_bounds_query():
            (x, w), (y, h) = out.bounds()
            asked.append(out.bounds())
            source.set_bounds([(x - radius, w + 2 * radius), (y, h)])
            return
        assert source.type() is hl.Float(32) and source.dimensions() == 2
        a, width = source.array(), out.array().shape[1]
        out.array()[:] = sum([a[:, i : i + width] for i in range(2 * radius + 1)])

    x, y = hl.Var("x"), hl.Var("y")
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = hl.f32(x * x + y)
    f.define_extern("py_blur", [g, 2], hl.Float(32), [x, y])
    h[x, y] = f[x, y] + 1
    g.compute_root()
    f.compute_at(h, y)
    h.parallel(y)
    found = np.array(h.realize([12, 5]))
    xs, ys = np.meshgrid(np.arange(12), np.arange(5), indexing="xy")
    expected = sum([(xs + d) ** 2 + ys for d in range(-2, 3)]) + 1
    np.testing.assert_array_equal(found, expected)
    assert ([(0, 12), (0, 5)]) in asked


def test_what_is_registered_anew_is_called() -> None:
    def constant(value: int) -> Any:
        def fill(out: Any) -> None:
            if not out.is_bounds_query():
                out.array()[:] = value

        return fill

    f = hl.Func("f")
    f.define_extern("py_constant", [], hl.Int(32), 1)
    for value in (3, 4):
        hl.register_extern("py_constant", constant(value))
        assert list(np.array(f.realize([2]))) == [value, value]


def test_a_ctypes_function_and_an_address(functions: ctypes.CDLL) -> None:
    for given in (functions.ex_source, ctypes.cast(functions.ex_source, ctypes.c_void_p).value):
        hl.register_extern("by_another_name", given)
        f = hl.Func("f")
        f.define_extern("by_another_name", [], hl.Int(32), 2)
        assert np.array(f.realize([3, 2]))[1, 2] == 201


def test_a_library_by_its_path(tmp_path: Path) -> None:
    source = SOURCE.read_text().replace("ex_source", "in_a_library")
    path = tmp_path / "liblocal.so"
    (tmp_path / "local.c").write_text(source)
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(path), str(tmp_path / "local.c")], check=True
    )
    hl.load_externs(path)
    f = hl.Func("f")
    f.define_extern("in_a_library", [], hl.Int(32), 2)
    assert np.array(f.realize([3, 2]))[1, 2] == 201
