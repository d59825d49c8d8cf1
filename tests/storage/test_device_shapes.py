"""Shapes of kernels that plans elsewhere got wrong: bytes of a block, and values on devices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate

TARGETS = ["host-opencl", "host-cuda-emulated"]


def around_a_loop() -> tuple[hl.Func, list[int]]:
    """A value made before a serial loop of the block, two stages in it that use it."""
    x, y, xo, xi = hl.Var("x"), hl.Var("y"), hl.Var("xo"), hl.Var("xi")
    made, first, second, out = (hl.Func(name) for name in ("made", "first", "second", "out"))
    made[x] = x * 3
    first[x, y] = made[x] + y
    second[x, y] = first[63 - x, y] + made[63 - x]
    out[x, y] = second[x, y] + first[63 - x, y]
    out.bound(x, 0, 64).split(x, xo, xi, 64).reorder(xi, y, xo).gpu_blocks(xo).gpu_threads(xi)
    made.compute_at(out, xo).gpu_threads(x)
    for f in (first, second):
        f.compute_at(out, y).gpu_threads(x)
    return out, [64, 64]


def bytes_and_words() -> tuple[hl.Func, list[int]]:
    """17 bytes, then 4 words, then a third that shares with both."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    small, words, third, out = (hl.Func(name) for name in ("small", "words", "third", "out"))
    small[x] = hl.u8(x * 11)
    words[x] = hl.u32(small[4 * x]) * 1000 + small[16 - x]
    third[x] = hl.u16(words[x % 4] % 251) + hl.u16(x)
    out[x] = hl.u32(third[16 - x % 17]) + third[x % 17]
    out.bound(x, 0, 64).split(x, xo, xi, 32).gpu_blocks(xo).gpu_threads(xi)
    for f, count in ((small, 17), (words, 4), (third, 17)):
        f.bound(x, 0, count).compute_at(out, xo).gpu_threads(x)
    return out, [64]


def in_an_unrolled_loop() -> tuple[hl.Func, list[int]]:
    """Two Funcs that are realised four times each in the body of one kernel."""
    x, y, yo, yi = hl.Var("x"), hl.Var("y"), hl.Var("yo"), hl.Var("yi")
    a, b, out = hl.Func("a"), hl.Func("b"), hl.Func("out")
    a[x, y] = x + y * 3
    b[x, y] = a[63 - x, y] + 1
    out[x, y] = b[63 - x, y] + a[x, y]
    out.bound(x, 0, 64).split(y, yo, yi, 4).reorder(x, yi, yo)
    out.gpu_blocks(yo).gpu_threads(x).unroll(yi)
    for f in (a, b):
        f.compute_at(out, yi).gpu_threads(x)
    return out, [64, 16]


def eight_of_which_three_live() -> tuple[hl.Func, list[int]]:
    """Eight Funcs of 512 bytes, at most three alive, the first of which outlives a younger one."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    funcs = [hl.Func(f"t{i}") for i in range(8)]
    uses = {1: [0], 2: [1], 3: [0, 2], 4: [3], 5: [4, 3], 6: [5], 7: [6, 5]}
    funcs[0][x] = x * 7
    for i, sources in uses.items():
        funcs[i][x] = sum([funcs[j][127 - x] for j in sources[1:]], funcs[sources[0]][x]) % 99
    out = hl.Func("out")
    out[x] = funcs[7][127 - x]
    out.bound(x, 0, 128).split(x, xo, xi, 128).gpu_blocks(xo).gpu_threads(xi)
    for f in funcs:
        f.bound(x, 0, 128).compute_at(out, xo).gpu_threads(x)
    return out, [128]


def one_big_and_three_small() -> tuple[hl.Func, list[int]]:
    """2,048 bytes that die, then three times 512 alive together."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    big, a, b, c, out = (hl.Func(name) for name in ("big", "a", "b", "c", "out"))
    big[x] = x * 7
    a[x] = big[4 * x] + 1
    b[x] = a[127 - x] * 2
    c[x] = a[x] + b[127 - x]
    out[x] = a[127 - x] + b[x] + c[127 - x]
    out.bound(x, 0, 128).split(x, xo, xi, 128).gpu_blocks(xo).gpu_threads(xi)
    for f, count in ((big, 512), (a, 128), (b, 128), (c, 128)):
        f.bound(x, 0, count).compute_at(out, xo)
        if count == 512:
            f.split(x, xo, xi, 128).gpu_threads(xi)
        else:
            f.gpu_threads(x)
    return out, [128]


SHAPES: list[tuple[Callable[[], tuple[hl.Func, list[int]]], int]] = [
    (around_a_loop, 3 * 256),
    (bytes_and_words, 16 + 34),
    (in_an_unrolled_loop, 2 * 256),
    (eight_of_which_three_live, 1536),
    (one_big_and_three_small, 2560),
]


@pytest.mark.parametrize(("build", "bytes"), SHAPES)
def test_bytes_of_a_block(
    build: Callable[[], tuple[hl.Func, list[int]]], bytes: int
) -> None:
    func, extents = build()
    report = func.storage(extents, target=hl.Target("host-opencl"))
    (arena,) = report.arenas
    assert arena.kind == "gpu_shared"
    assert arena.bytes == bytes


@pytest.mark.parametrize("target_text", TARGETS)
@pytest.mark.parametrize(("build", "bytes"), SHAPES)
def test_values(
    build: Callable[[], tuple[hl.Func, list[int]]], bytes: int, target_text: str
) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    func, extents = build()
    want = np.asarray(evaluate(build()[0], [0] * len(extents), extents))
    np.testing.assert_array_equal(np.asarray(func.realize(extents, target)), want)
