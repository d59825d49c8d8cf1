"""Names that C, C++, their headers or the emitted code have already are no trouble for users."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.targets.c_names import sanitise
from tests.embedding.programs import run

NAMES = """NULL EOF int32_t uint8_t size_t INT32_MIN INT64_MIN UINT64_MAX INT32_MAX UINT64_C
    offsetof min_i32 max_i32 mod_i32 div_i32 min_f32x8 load_f32x8 f32x8 i32x8 f32x8_mem ctx
    workspace
    workspace_bytes query args bool closure slot slots status t1 BP_ERROR bp_fail given
    begin end none bytes stdin class new this template operator private namespace delete
    typename virtual public try catch throw and or not xor alignas static_assert nullptr
    expf floorf wchar_t int for done x y main bool_ while_ index""".split()


def make_named(names: list[str]) -> tuple[hl.Func, list[Any]]:
    """Funcs and Params of these names in turns: in(x, y) + the sum of the parameters."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Int(32), 2, "in")
    params = [hl.Param(hl.Int(32), name) for name in names[1::2]]
    previous: Any = image
    func = hl.Func()
    for name, param in zip(names[::2], params):
        func = hl.Func(name)
        func[x, y] = hl.min(previous[x, y] + param % 1000, 1 << 20)
        func.compute_root()
        if len(name) % 3 == 0:
            func.vectorize(x, 8, hl.TailStrategy.GuardWithIf)
        if len(name) % 2:
            func.parallel(y)
        previous = func
    return func, [image, *params]


@pytest.mark.parametrize("names", [NAMES, NAMES[1:]], ids=["even", "odd"])
def test_funcs_and_parameters_of_any_name(tmp_path: Path, names: list[str]) -> None:
    func, arguments = make_named(names)
    outputs = {
        hl.OutputFileType.c_source: tmp_path / "named.c",
        hl.OutputFileType.c_header: tmp_path / "named.h",
    }
    func.compile_to(outputs, arguments, "named")
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    run(["gcc", "-std=c11", "-O0", *strict, "-c", tmp_path / "named.c", "-o", tmp_path / "n.o"])
    includes = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    for compiler, standard, suffix in (("gcc", "c11", "c"), ("g++", "c++20", "cpp")):
        if shutil.which(compiler) is not None:
            source = tmp_path / f"caller.{suffix}"
            source.write_text(f'{includes}#include "named.h"\n')
            run([compiler, f"-std={standard}", "-fsyntax-only", *strict, source])


def test_the_same_in_a_call_from_python() -> None:
    func, (image, *params) = make_named(NAMES)
    image.set(np.arange(12, dtype=np.int32).reshape(3, 4))
    for i, param in enumerate(params):
        param.set(i)
    total = sum(range(len(params)))
    assert np.asarray(func.realize([4, 3])).tolist() == [
        [total + 4 * y + x for x in range(4)] for y in range(3)
    ]


def test_readable_names_stay() -> None:
    for name in ("blur_f32", "blur_u8", "rows", "max_pool", "load", "exponent", "image_2", "f32"):
        assert sanitise(name) == name
