"""Small programs whose kernels `bench.gpu` counts and tests run: what plans elsewhere got wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bayplan as hl

Shape = Callable[[], tuple[hl.Func, list[int]]]
LEVELS = 10
TYPES = [hl.UInt(8), hl.UInt(16), hl.UInt(32)]


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


def make_pyramid(growing: bool, kind: Any, base: Any) -> hl.Func:
    """Ten levels, each of twice or half as many elements as the one before; two blocks."""
    x, xo, xi, t = hl.Var("x"), hl.Var("xo"), hl.Var("xi"), hl.Var("t")
    out = hl.Func("pyramid")
    previous: hl.Func | None = None
    levels = []
    for i in range(LEVELS):
        f = hl.Func(f"level{i}")
        if previous is None:
            f[x] = hl.cast(TYPES[0], x * 7)
        else:
            read = previous[x / 2] if growing else previous[2 * x] + previous[2 * x + 1]
            f[x] = hl.cast(TYPES[i % 3], read + 1)
        extent = base * 2 ** (i if growing else LEVELS - 1 - i)
        f.bound(x, 0, extent)
        levels.append(f)
        previous = f
    assert previous is not None
    out[x] = hl.cast(hl.UInt(32), previous[x % (base if not growing else base * 512)])
    out.bound(x, 0, 64).split(x, xo, xi, 32).gpu_blocks(xo).gpu_threads(xi)
    for f in levels:
        f.compute_at(out, xo).split(x, xo, t, 32, hl.TailStrategy.GuardWithIf).gpu_threads(t)
        f.store_in(kind)
    return out


def floor_bytes(growing: bool, base: int) -> int:
    sizes = [
        TYPES[i % 3].bytes() * base * 2 ** (i if growing else LEVELS - 1 - i)
        for i in range(LEVELS)
    ]
    return max([a + b for a, b in zip(sizes, sizes[1:], strict=False)])


def three_stages(sharing: bool) -> tuple[hl.Func, list[int]]:
    """Three stages in a serial loop of the block, and a sum that is each thread's own.

    Args:
        sharing: whether the third lies in bytes of the first, whose elements are larger.
    """
    x, y, xo, xi = hl.Var("x"), hl.Var("y"), hl.Var("xo"), hl.Var("xi")
    first, second, third, out = (hl.Func(name) for name in ("first", "second", "third", "out"))
    first[x, y] = hl.u32(x * 3 + y)
    second[x, y] = first[63 - x, y] * 5
    own = hl.u32(0) if sharing else first[x, y]
    third[x, y] = hl.u16(second[63 - x, y] + own & 0xFFFF)
    out[x, y] = third[x, y]
    out.bound(x, 0, 64).split(x, xo, xi, 64).reorder(xi, y, xo).gpu_blocks(xo).gpu_threads(xi)
    for f in (first, second, third):
        f.compute_at(out, y).gpu_threads(x)
    return out, [64, 10]


def straight_line() -> tuple[hl.Func, list[int]]:
    """The reads need two barriers; the bytes of one that is dead are given on at once."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    first, turned, second, out = (hl.Func(n) for n in ("first", "turned", "second", "out"))
    first[x] = x * 7
    turned[x] = first[63 - x] + 1
    second[x] = turned[x] * 2
    out[x] = second[63 - x]
    out.bound(x, 0, 64).split(x, xo, xi, 64).gpu_blocks(xo).gpu_threads(xi)
    for f in (first, turned, second):
        f.compute_at(out, xo).gpu_threads(x)
    return out, [64]


def fill_at(offset: int) -> tuple[hl.Func, list[int]]:
    """64 bytes are copied, six of them from an offset on are filled, all are read."""
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    r = hl.RDom([(0, 6)], "r")
    copied, out = hl.Func("copied"), hl.Func("out")
    copied[x] = x + 1
    copied[r + offset] = 0
    out[x] = copied[x]
    out.bound(x, 0, 64).split(x, xo, xi, 64).gpu_blocks(xo).gpu_threads(xi)
    copied.compute_at(out, xo).bound(x, 0, 64).gpu_threads(x).update().gpu_threads(r)
    return out, [64]


SHAPES: list[tuple[Shape, int]] = [
    (around_a_loop, 3 * 256),
    (bytes_and_words, 16 + 34),
    (in_an_unrolled_loop, 2 * 256),
    (eight_of_which_three_live, 1536),
    (one_big_and_three_small, 2560),
]


def count_barriers(func: hl.Func) -> int:
    """Barriers in the text of a Func's kernels."""
    text = hl.Pipeline(func).device_source(hl.Target("host-opencl"))
    return str(text).count("barrier(CLK_")
