"""Small programs whose temporaries `bench.storage` counts, for `halide` and `bayplan` alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from apps.harness import App, Box, Extents

LEVELS = 4


def _random(name: str, shape: tuple[int, ...], rng: Any) -> Any:
    return rng.random(shape).astype("float32")


def _same(name: str, mins: Extents, extents: Extents) -> Box:
    return mins, extents


def _app(
    name: str,
    output: Any,
    source: Any,
    extents: Sequence[int],
    input_box: Callable[[str, Extents, Extents], Box] = _same,
) -> App:
    return App(
        name,
        output,
        {"input": source},
        extents=extents,
        smallest=(1,) * len(extents),
        input_box=input_box,
        fill=_random,
        rtol=1e-5,
        atol_of_max=1e-6,
    )


def row_stages(hl: Any, *, stages: int = 7, width: int = 1000, rows: int = 1000) -> App:
    """Stages of one row, each reading the one before from its end, row after row."""
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.Float(32), 2, "input")
    end = source.dim(0).extent() - 1
    value, chain = source, []
    for n in range(stages):
        stage = hl.Func(f"row_{chr(97 + n)}")
        stage[x, y] = value[end - x, y] + hl.f32(1.0)
        chain.append(stage)
        value = stage
    output = hl.Func("rows")
    output[x, y] = value[end - x, y] * hl.f32(2.0)
    for stage in chain:
        stage.compute_at(output, y)
    for buffer in (source, output.output_buffer()):
        buffer.dim(0).set_bounds(0, source.dim(0).extent())
    return _app("row_stages", output, source, (width, rows))


def dead_then_three(hl: Any, *, size: int = 128) -> App:
    """A temporary of 2,048 bytes that dies, then three of 512 that are alive together."""
    x = hl.Var("x")
    source = hl.ImageParam(hl.Float(32), 1, "input")
    end = source.dim(0).extent() - 1
    large, first, second, third = (hl.Func(n) for n in ("large", "first", "second", "third"))
    output = hl.Func("sums")
    large[x] = source[x / 4] * hl.f32(2.0)
    first[x] = large[4 * x] + large[4 * x + 3]
    second[x] = first[end - x] + hl.f32(1.0)
    third[x] = second[end - x] + first[x]
    output[x] = first[end - x] + second[x] + third[end - x]
    for temporary in (large, first, second, third):
        temporary.compute_root().store_in(hl.MemoryType.Heap)
    for buffer in (source, output.output_buffer()):
        buffer.dim(0).set_bounds(0, source.dim(0).extent())
    return _app("dead_then_three", output, source, (size,))


def pointwise_chain(hl: Any, *, stages: int = 10, width: int = 1024, height: int = 1024) -> App:
    """Stages of the size of the result, each a function of the one before at the same point."""
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.Float(32), 2, "input")
    value, output = source, None
    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    for n in range(stages):
        output = hl.Func(f"step_{chr(97 + n)}")
        output[x, y] = value[x, y] * hl.f32(1.5) + hl.f32(1.0)
        # Shifted tails would compute points again whose arguments are overwritten by then.
        output.compute_root().vectorize(x, vector, hl.TailStrategy.GuardWithIf)
        value = output
    return _app("pointwise_chain", output, source, (width, height))


def average_chain(hl: Any, *, stages: int = 12, width: int = 3840, height: int = 2160) -> App:
    """Averages of the four neighbours, again and again; every stage is stored in full."""
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.Float(32), 2, "input")
    value, output = source, None
    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    for n in range(stages):
        output = hl.Func(f"average_{chr(97 + n)}")
        total = value[x - 1, y] + value[x + 1, y] + value[x, y - 1] + value[x, y + 1]
        output[x, y] = total * hl.f32(0.25)
        output.compute_root().vectorize(x, vector).parallel(y)
        value = output

    def grown(name: str, mins: Extents, extents: Extents) -> Box:
        low = tuple([m - stages for m in mins])
        return low, tuple([e + 2 * stages for e in extents])

    return _app("average_chain", output, source, (width, height), grown)


def local_pyramid(hl: Any, *, width: int = 1536, height: int = 1024) -> App:
    """A Gaussian pyramid and back, in parallel strips; all levels belong to the strip."""
    x, y, yo = hl.vars("x y yo")
    source = hl.ImageParam(hl.Float(32), 2, "input")
    vector = hl.get_host_target().natural_vector_size(hl.Float(32))
    quarter = hl.f32(0.25)
    levels = [hl.BoundaryConditions.repeat_edge(source)]
    for n in range(LEVELS):
        level, f = hl.Func(f"down_{chr(97 + n)}"), levels[-1]
        near, far = f[2 * x, 2 * y] + f[2 * x + 1, 2 * y], f[2 * x, 2 * y + 1]
        level[x, y] = (near + far + f[2 * x + 1, 2 * y + 1]) * quarter
        levels.append(level)
    back = levels[-1]
    ups = []
    for n in reversed(range(LEVELS)):
        up = hl.Func(f"up_{chr(97 + n)}")
        around = back[x / 2, y / 2] + back[(x + 1) / 2, y / 2] + back[x / 2, (y + 1) / 2]
        coarse = (around + back[(x + 1) / 2, (y + 1) / 2]) * quarter
        up[x, y] = levels[n][x, y] - coarse
        ups.append(up)
        back = up
    output = ups.pop()
    output.split(y, yo, y, 64).parallel(yo).vectorize(x, vector)
    for stage in (*levels[1:], *ups):
        inner = stage.args()[0]
        stage.compute_at(output, yo).vectorize(inner, vector)
    return _app("local_pyramid", output, source, (width, height))
