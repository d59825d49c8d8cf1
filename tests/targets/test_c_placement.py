"""The generated C places temporaries as Python does."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.build.compilers import find_compiler
from bayplan.storage.placement import MOST_BYTES, Placement, keep_placement
from bayplan.targets.c_placement import read_place_prelude, write_placement

_HEAD = "#include <stdint.h>\n#include <stdbool.h>\n"


def _draw(rng: random.Random, count: int) -> Placement:
    lives, alignments = [], []
    for _ in range(count):
        begin = rng.randrange(20)
        lives.append((begin, begin + rng.choice([0, 1, 2, 5, 10])))
        alignments.append(rng.choice([1, 4, 16, 16, 24, 64]))
    hints = [[rng.randrange(2000) for _ in lives] for _ in range(rng.randrange(4))]
    return keep_placement(lives, alignments, hints)


def _draw_sizes(rng: random.Random, count: int) -> list[int]:
    kind = rng.randrange(5)
    if kind == 0:
        return [rng.randrange(3) for _ in range(count)]
    if kind == 1:
        return [rng.randrange(2**62) for _ in range(count)]
    if kind == 2:
        return [2 ** rng.randrange(20) for _ in range(count)]
    return [rng.randrange(5000) for _ in range(count)]


def _compile(placements: list[Placement], tmp_path: Path) -> list[Callable[..., int]]:
    text = _HEAD + read_place_prelude()
    for k, placement in enumerate(placements):
        text += write_placement(placement, f"plan{k}")
        text += (
            f"int64_t place{k}(const int64_t *sizes, int64_t *offsets) "
            f"{{ return bp_place(&plan{k}, &plan{k}_placed, sizes, offsets); }}\n"
        )
    source, library = tmp_path / "place.c", tmp_path / "place.so"
    source.write_text(text)
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-prototypes"]
    command = [*find_compiler().command, *flags, "-fPIC", "-shared", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    compiled = ctypes.CDLL(str(library))
    functions = [getattr(compiled, f"place{k}") for k in range(len(placements))]
    for function in functions:
        function.restype = ctypes.c_int64
    return functions


def test_the_generated_c_gives_the_numbers_of_python(tmp_path: Path) -> None:
    rng = random.Random(7)
    placements = [_draw(rng, rng.randrange(0, 14)) for _ in range(40)]
    functions = _compile(placements, tmp_path)
    overflows = 0
    for function, placement in zip(functions, placements):
        row = ctypes.c_int64 * max(1, placement.count)
        asked = [_draw_sizes(rng, placement.count) for _ in range(8)]
        # Again, so that remembered answers are given too.
        for sizes in asked + asked[::-1] + asked[2:5]:
            offsets = row()
            total = function(row(*sizes), offsets)
            try:
                expected = placement.place(sizes)
            except OverflowError:
                overflows += 1
                assert total == -1
                continue
            assert total == expected[1] <= MOST_BYTES
            assert list(offsets)[: placement.count] == expected[0]
    assert overflows > 0


def test_threads_that_share_remembered_answers_get_their_own(tmp_path: Path) -> None:
    rng = random.Random(11)
    placement = _draw(rng, 12)
    (function,) = _compile([placement], tmp_path)
    # More problems than answers are remembered, so that threads overwrite one another's.
    problems = [[rng.randrange(5000) for _ in range(12)] for _ in range(7)]
    expected = [placement.place(sizes) for sizes in problems]
    row = ctypes.c_int64 * 12
    faults: list[int] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        offsets = row()
        for _ in range(3000):
            k = draw.randrange(len(problems))
            total = function(row(*problems[k]), offsets)
            if (list(offsets), total) != expected[k]:
                faults.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_the_text_is_freestanding_and_also_cpp(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    placement = keep_placement([(0, 2), (1, 3), (2, 4)], [16, 16, 1], [[8, 8, 8], [9, 1, 9]])
    text = _HEAD + read_place_prelude() + write_placement(placement, "plan")
    linkage = 'extern "C" ' if "++" in compiler else ""
    text += f"{linkage}int64_t place(const int64_t *sizes, int64_t *offsets);\n"
    text += "int64_t place(const int64_t *sizes, int64_t *offsets) {\n"
    text += "    return bp_place(&plan, &plan_placed, sizes, offsets);\n}\n"
    cpp = "++" in compiler
    source = tmp_path / ("place.cc" if cpp else "place.c")
    source.write_text(text)
    standards = ["-std=c++11", "-std=c++17"] if cpp else ["-std=c99", "-std=c11"]
    for standard in standards:
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-c", str(source)]
        subprocess.run([compiler, standard, *flags, "-o", str(tmp_path / "place.o")], check=True)
    symbols = subprocess.run(
        ["nm", "-u", str(tmp_path / "place.o")], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not set(symbols) - {"U", "memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
