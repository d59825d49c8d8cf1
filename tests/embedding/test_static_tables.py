"""Buffers of the algorithm become constant tables: exact, once, quickly."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import bayplan as hl
from bayplan.targets.c_static_tables import element_texts
from tests.embedding.programs import build_and_run, run

_PRELUDE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
"""

_TYPES = {
    "float64": ("double", hl.Float(64)),
    "float32": ("float", hl.Float(32)),
    "float16": ("uint16_t", hl.Float(16)),
    "int64": ("int64_t", hl.Int(64)),
    "uint64": ("uint64_t", hl.UInt(64)),
    "int32": ("int32_t", hl.Int(32)),
    "uint32": ("uint32_t", hl.UInt(32)),
    "int16": ("int16_t", hl.Int(16)),
    "uint8": ("uint8_t", hl.UInt(8)),
    "int8": ("int8_t", hl.Int(8)),
    "bool": ("uint8_t", hl.Bool()),
}


def bytes_in_c(folder: Path, arrays: dict[str, Any]) -> dict[str, bytes]:
    """The bytes of each array as a C compiler sees its texts."""
    parts, prints = [], []
    for name, array in arrays.items():
        c_type, t = _TYPES[name]
        texts = ", ".join(element_texts(t, array))
        parts.append(f"static const {c_type} t_{name}[] = {{{texts}}};")
        prints.append(f'    fwrite(t_{name}, 1, sizeof t_{name}, fopen("{folder}/{name}", "wb"));')
    text = "\n".join([_PRELUDE, *parts, "int main(void) {", *prints, "    return 0;", "}"])
    (folder / "tables.c").write_text(text)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    run(["gcc", *strict, folder / "tables.c", "-o", folder / "tables"])
    run([folder / "tables"])
    return {name: (folder / name).read_bytes() for name in arrays}


def test_every_type_at_its_limits(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {}
    for name in _TYPES:
        if name == "bool":
            arrays[name] = np.array([True, False, True])
        elif "int" in name:
            limits = np.iinfo(name)
            arrays[name] = np.array([limits.min, limits.max, 0, 1, limits.max // 3], name)
        else:
            f = np.finfo(name)
            values = [0.0, -0.0, 1.0, -2.0, 0.1, 1 / 3, f.max, f.min, f.tiny, f.smallest_subnormal,
                      np.inf, -np.inf, np.nan, 1e5, 123456]  # fmt: skip
            with np.errstate(over="ignore"):
                arrays[name] = np.array(values, name)
    found = bytes_in_c(tmp_path, arrays)
    for name, array in arrays.items():
        assert found[name] == array.tobytes(), name


def test_bits_of_nans(tmp_path: Path) -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000001234,
                     0xFFFFFFFFFFFFFFFF, 0x7FF0000000000001], np.uint64)  # fmt: skip
    small = np.array([0x7FC00000, 0xFFC00000, 0x7FC01234, 0x7F800001], np.uint32)
    arrays = {"float64": bits.view(np.float64), "float32": small.view(np.float32)}
    found = bytes_in_c(tmp_path, arrays)
    assert found["float64"] == bits.tobytes()
    assert found["float32"] == small.tobytes()


@hypothesis.given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=60),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=60),
)
@hypothesis.settings(max_examples=8, deadline=None)
def test_any_bits(tmp_path_factory: pytest.TempPathFactory, wide: Any, narrow: Any) -> None:
    arrays = {
        "float64": np.array(wide, np.uint64).view(np.float64),
        "float32": np.array(narrow, np.uint32).view(np.float32),
    }
    found = bytes_in_c(tmp_path_factory.mktemp("bits"), arrays)
    for name, array in arrays.items():
        assert found[name] == array.tobytes()


_CALLER = """
#include "lookup.h"
#include <stdio.h>

int main(void) {
    int32_t out[6 * 4];
    bp_dim dim[2] = {{-1, 6, 1, 0}, {2, 4, 6, 0}};
    bp_buffer b = {.host = (uint8_t *)out, .type = {BP_INT, 32, 1}, .dimensions = 2, .dim = dim};
    if (lookup(&b) != 0) return 1;
    for (int i = 0; i < 24; i++) printf("%d ", out[i]);
    return 0;
}
"""


def make_lookup(table: hl.Buffer) -> hl.Func:
    """Two Funcs, one of them parallel, that use the same table of 10 x 8 elements."""
    x, y = hl.Var("x"), hl.Var("y")
    first, lookup = hl.Func("first"), hl.Func("lookup")
    first[x, y] = table[hl.clamp(x, -3, 6), hl.clamp(y, 0, 7)] * 2
    lookup[x, y] = first[x, y] + table[hl.clamp(x + y, -3, 6), 1]
    first.compute_root().parallel(y)
    lookup.vectorize(x, 4, hl.TailStrategy.GuardWithIf)
    return lookup


@pytest.mark.parametrize("layout", ["packed", "columns", "part", "reversed"])
def test_one_table_for_all_that_use_it(tmp_path: Path, layout: str) -> None:
    whole = np.arange(80, dtype=np.int32).reshape(8, 10) ** 2
    given = {
        "packed": whole,
        "columns": np.asfortranarray(whole),
        "part": np.pad(whole, 3, constant_values=-7)[3:-3, 3:-3],
        "reversed": np.ascontiguousarray(whole[::-1, ::-1])[::-1, ::-1],
    }[layout]
    table = hl.Buffer(given, name="squares")
    table.set_min([-3, 0])
    lookup = make_lookup(table)
    wanted = [
        int(whole[y, x + 3] * 2 + whole[1, min(x + y, 6) + 3]) for y in range(2, 6)
        for x in range(-1, 5)
    ]  # fmt: skip
    lookup.compile_to_static_library(str(tmp_path / "lookup"), [], "lookup")
    printed = build_and_run(tmp_path, _CALLER, [tmp_path / "lookup.a"])
    assert [int(word) for word in printed.split()] == wanted
    lookup.compile_to_c(str(tmp_path / "lookup.c"), [], "lookup")
    text = (tmp_path / "lookup.c").read_text()
    assert len(re.findall(r"static const int32_t lookup_squares\w*\[80\] = {", text)) == 1
    assert "squares_buffer" not in text


def test_a_call_from_python_copies_nothing() -> None:
    array = np.arange(80, dtype=np.int32).reshape(8, 10)
    table = hl.Buffer(array, name="squares")
    table.set_min([-3, 0])
    lookup = make_lookup(table)
    before = lookup.realize([3, 3])[1, 1]
    array += 1000
    assert lookup.realize([3, 3])[1, 1] == before + 3000
    assert "static const int32_t" not in lookup.c_source()


def test_a_table_that_is_read_outside_is_refused(tmp_path: Path) -> None:
    """What a call with a table reads beyond it is an error of that call."""
    x = hl.Var("x")
    table, f = hl.Buffer(np.arange(5, dtype=np.int32), name="five"), hl.Func("outside")
    f[x] = table[x]
    f.compile_to_static_library(str(tmp_path / "outside"), [], "outside")
    caller = """
#include "outside.h"
#include <stdio.h>
int main(void) {
    int32_t out[6];
    bp_dim dim = {0, 6, 1, 0};
    bp_buffer b = {.host = (uint8_t *)out, .type = {BP_INT, 32, 1}, .dimensions = 1, .dim = &dim};
    char text[200];
    const int wide = outside(&b);
    bp_format_error(bp_default_context(), text, sizeof text);
    dim.extent = 5;
    printf("%d %d %s\\n", wide, outside(&b), text);
    return 0;
}
"""
    printed = build_and_run(tmp_path, caller, [tmp_path / "outside.a"])
    assert printed.startswith("-1 0 Input buffer five is 1 too short in dimension 0")


def test_two_hundred_thousand_doubles(tmp_path: Path) -> None:
    values = np.random.default_rng(7).standard_normal(200_000)
    x = hl.Var("x")
    table, f = hl.Buffer(values, name="big"), hl.Func("f")
    f[x] = table[hl.clamp(x, 0, 199_999)]
    start = time.perf_counter()
    f.compile_to_c(str(tmp_path / "f.c"), [], "f")
    seconds = time.perf_counter() - start
    # The budget is 2 s on a quiet machine; here only what would be a wrong algorithm fails.
    assert seconds < 20
    subprocess.run(["gcc", "-c", tmp_path / "f.c", "-o", tmp_path / "f.o"], check=True, timeout=120)
    print(f"{seconds:.2f} s")


def test_one_table_for_a_pipeline_and_those_that_it_calls(tmp_path: Path) -> None:
    x = hl.Var("x")
    table = hl.Buffer(np.array([3, 1, 4, 1, 5], np.int32), name="shared")
    image = hl.ImageParam(hl.Int(32), 1, "image")
    called, stage, source = hl.Func("called"), hl.Func("stage"), hl.Func("source")
    called[x] = image[x] * table[x % 5]
    source[x] = x + table[(x + 1) % 5]
    source.compute_root()
    stage.define_extern("called_by_it", {image: source}, callee=called)
    stage.compute_root()
    out = hl.Func("calling")
    out[x] = stage[x] + table[x % 5]
    wanted = [out.realize([5])[i] for i in range(5)]
    out.compile_to_static_library(str(tmp_path / "calling"), [], "calling")
    caller = """
#include "calling.h"
#include <stdio.h>
int main(void) {
    int32_t out[5];
    bp_dim dim = {0, 5, 1, 0};
    bp_buffer b = {.host = (uint8_t *)out, .type = {BP_INT, 32, 1}, .dimensions = 1, .dim = &dim};
    if (calling(&b) != 0) return 1;
    for (int i = 0; i < 5; i++) printf("%d ", out[i]);
    return 0;
}
"""
    printed = build_and_run(tmp_path, caller, [tmp_path / "calling.a"])
    assert [int(word) for word in printed.split()] == wanted
    values = [3, 1, 4, 1, 5]
    assert wanted == [(x + values[(x + 1) % 5]) * values[x] + values[x] for x in range(5)]
    out.compile_to_c(str(tmp_path / "calling.c"), [], "calling")
    assert (tmp_path / "calling.c").read_text().count("3, 1, 4, 1, 5") == 1
