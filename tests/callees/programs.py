"""Programs with external stages, for the wheel and for Bayplan: each gives arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], list[Any]]


def _vars(hl: Any) -> list[Any]:
    return [hl.Var(name) for name in ("x", "y", "xo", "yo")]


def _arg(hl: Any, value: Any) -> Any:
    return hl.ExternFuncArgument(value)


def _stencil(hl: Any, schedule: Callable[..., None]) -> list[Any]:
    x, y, xo, yo = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 7
    k = hl.Param(hl.Int(32), "k", 2)
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, k)], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + f[x, y + 1]
    schedule(g, f, h, x, y, xo, yo)
    return [np.array(h.realize([20, 10]))]


def stencil_root(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        g.compute_root()
        f.compute_root()

    return _stencil(hl, schedule)


def stencil_by_rows(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        g.compute_at(h, y)
        f.compute_at(h, y)

    return _stencil(hl, schedule)


def stencil_inlined(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        g.compute_root()

    return _stencil(hl, schedule)


def stencil_inlined_into_vectors(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        g.compute_root()
        h.vectorize(x, 4)

    return _stencil(hl, schedule)


def stencil_parallel(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        f.compute_root().split(y, yo, y, 4).parallel(yo)
        g.compute_at(f, yo)

    return _stencil(hl, schedule)


def stencil_tiled(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        f.compute_root().tile(x, y, xo, yo, x, y, 8, 4)
        g.compute_at(f, xo)

    return _stencil(hl, schedule)


def stencil_input_stored_outside(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        g.store_root().compute_at(h, y)
        f.compute_at(h, y)

    return _stencil(hl, schedule)


def stencil_in_parallel_consumer(hl: Any) -> list[Any]:
    def schedule(g: Any, f: Any, h: Any, x: Any, y: Any, xo: Any, yo: Any) -> None:
        h.split(y, yo, y, 3).parallel(yo).vectorize(x, 4)
        f.compute_at(h, yo)
        g.compute_at(h, yo)

    return _stencil(hl, schedule)


def image_and_scalars(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    image = hl.ImageParam(hl.Int(32), 2, "image")
    n = hl.Param(hl.Int(32), "n", 3)
    f = hl.Func("f")
    addend = hl.cast(hl.Int(64), n * 2 + 1)
    args = [_arg(hl, image), _arg(hl, n), _arg(hl, addend)]
    f.define_extern("ex_scale", args, hl.Int(32), 2)
    image.set(hl.Buffer(np.arange(60, dtype=np.int32).reshape(10, 6)))
    return [np.array(f.realize([6, 4]))]


def image_in_stencil(hl: Any) -> list[Any]:
    """What the function needs of the image moves and grows."""
    image = hl.ImageParam(hl.Int(32), 2, "image")
    f, h = hl.Func("f"), hl.Func("h")
    x, y, _, _ = _vars(hl)
    f.define_extern("ex_stencil", [_arg(hl, image), _arg(hl, 1)], hl.Int(32), [x, y])
    h[x, y] = f[x + 2, y]
    f.compute_at(h, y)
    image.set(hl.Buffer(np.arange(200, dtype=np.int32).reshape(10, 20)))
    return [np.array(h.realize([10, 5]))]


def buffer_argument(hl: Any) -> list[Any]:
    buffer = hl.Buffer(np.arange(60, dtype=np.int32).reshape(10, 6))
    f = hl.Func("f")
    args = [_arg(hl, buffer), _arg(hl, 2), _arg(hl, hl.cast(hl.Int(64), 5))]
    f.define_extern("ex_scale", args, hl.Int(32), 2)
    return [np.array(f.realize([6, 10]))]


def tuple_values(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    a, b, f, h = hl.Func("a"), hl.Func("b"), hl.Func("f"), hl.Func("h")
    a[x, y] = x + y * 10
    b[x, y] = x * 7 - y
    types = [hl.Int(32), hl.Float(64)]
    f.define_extern("ex_two", [_arg(hl, a), _arg(hl, b)], types, [x, y])
    h[x, y] = f[x, y][0] + hl.cast(hl.Int(32), f[x, y][1] * 2)
    a.compute_root()
    b.compute_root()
    f.compute_at(h, y)
    return [np.array(h.realize([8, 6]))]


def tuple_output(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    a, b, f = hl.Func("a"), hl.Func("b"), hl.Func("f")
    a[x, y] = x + y * 10
    b[x, y] = x * 7 - y
    f.define_extern("ex_two", [_arg(hl, a), _arg(hl, b)], [hl.Int(32), hl.Float(64)], [x, y])
    a.compute_root()
    b.compute_root()
    return [np.array(r) for r in f.realize([8, 6])]


def tuple_argument(hl: Any) -> list[Any]:
    """A Tuple-valued Func is two buffers."""
    x, y, _, _ = _vars(hl)
    a, f = hl.Func("a"), hl.Func("f")
    a[x, y] = (x + y * 10, x - y)
    f.define_extern("ex_two", [_arg(hl, a)], [hl.Int(32), hl.Float(64)], [x, y])
    a.compute_root()
    return [np.array(r) for r in f.realize([6, 6])]


def source(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern("ex_source", [], hl.Int(32), 2)
    h[x, y] = f[x + 3, y - 1]
    f.compute_root()
    return [np.array(h.realize([5, 4]))]


def chain(hl: Any) -> list[Any]:
    """The regions of one function's input are another's output."""
    x, y, _, yo = _vars(hl)
    f, g, h, out = [hl.Func(n) for n in ("f", "g", "h", "out")]
    f.define_extern("ex_source", [], hl.Int(32), [x, y])
    g.define_extern("ex_stencil", [_arg(hl, f), _arg(hl, 3)], hl.Int(32), [x, y])
    h.define_extern("ex_mirror", [_arg(hl, g), _arg(hl, 40)], hl.Int(32), [x, y])
    out[x, y] = h[x, y] * 2
    f.compute_root()
    g.compute_root()
    h.compute_at(out, y)
    return [np.array(out.realize([12, 6]))]


def _seventeen(hl: Any, at: str) -> list[Any]:
    x, _, xo, _ = _vars(hl)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x] = x * x
    g.define_extern("ex_seventeen", [_arg(hl, f)], hl.Int(32), 1)
    h[x] = g[x] * 2
    h.split(x, xo, x, 10)
    f.compute_root()
    if at == "root":
        g.compute_root()
    else:
        g.compute_at(h, xo)
    return [np.array(h.realize([100]))]


def expansion_root(hl: Any) -> list[Any]:
    return _seventeen(hl, "root")


def expansion_in_parts(hl: Any) -> list[Any]:
    return _seventeen(hl, "xo")


def non_nesting(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g.define_extern("ex_greedy", [_arg(hl, f)], hl.Int(32), 2)
    h[x, y] = g[x, y]
    g.compute_at(h, y)
    f.compute_at(h, y)
    return [np.array(h.realize([200, 20]))]


def rows(hl: Any) -> list[Any]:
    """Input and output have different dimensions."""
    x, y, _, yo = _vars(hl)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x * y + 1
    g.define_extern("ex_row_sums", [_arg(hl, f), _arg(hl, 9)], hl.Int(32), [y])
    h[x, y] = g[y] + x
    h.split(y, yo, y, 4)
    f.compute_at(h, yo)
    g.compute_at(h, yo)
    return [np.array(h.realize([5, 10]))]


def number(hl: Any) -> list[Any]:
    x, _, _, _ = _vars(hl)
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern("ex_number", [_arg(hl, 4), _arg(hl, hl.f32(0.25))], hl.Float(32), 0)
    h[x] = f[()] * x if hl.__name__ == "bayplan" else f[[]] * x
    f.compute_root()
    return [np.array(h.realize([5]))]


def updated_input(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f = hl.Func("g"), hl.Func("f")
    r = hl.RDom([(0, 4)], "r")
    g[x, y] = x + y
    g[x, y] += r.x * x
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 1)], hl.Int(32), [x, y])
    g.compute_root()
    return [np.array(f.realize([6, 6]))]


def reordered_storage(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x + y * 100
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 1)], hl.Int(32), [x, y])
    h[x, y] = f[x, y]
    g.compute_root().reorder_storage(y, x)
    f.compute_root().reorder_storage(y, x)
    return [np.array(h.realize([6, 6]))]


def also_read_elsewhere(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x + y * 100
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 1)], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + g[x + 5, y - 5]
    g.compute_root()
    f.compute_root()
    return [np.array(h.realize([6, 6]))]


def conditional(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    p = hl.Param(hl.Bool(), "p", False)
    g[x, y] = x + y * 100
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 1)], hl.Int(32), [x, y])
    h[x, y] = hl.select(p, f[x, y], x)
    g.compute_root()
    f.compute_root()
    found = []
    for value in (False, True):
        p.set(value)
        found.append(np.array(h.realize([6, 6])))
    return found


def _scheduled(schedule: Callable[..., Any]) -> Program:
    """The stencil with that schedule."""
    return lambda hl: _stencil(hl, schedule)


def several_outputs(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 2)], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + f[x, y + 1]
    g.compute_root()
    first, second = hl.Pipeline([h, f]).realize([20, 11])
    # The wheel gives the row that h needs as well.
    return [np.array(first), np.array(second)[:11]]


def in_an_update(hl: Any) -> list[Any]:
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    r = hl.RDom([(0, 5)], "r")
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 2)], hl.Int(32), [x, y])
    h[x, y] = 0
    h[x, y] += f[x + r.x, y]
    g.compute_root()
    return [np.array(h.realize([4, 4]))]


def specialized(hl: Any) -> list[Any]:
    x, y, _, yo = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    p = hl.Param(hl.Int(32), "p", 1)
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 2)], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + f[x, y + 1]
    g.compute_root()
    f.compute_root().specialize(p > 0).split(y, yo, y, 4).parallel(yo)
    found = []
    for value in (1, 0):
        p.set(value)
        found.append(np.array(h.realize([20, 10])))
    return found


def elsewhere(hl: Any) -> list[Any]:
    """Outputs that do not begin at 0."""
    x, y, _, _ = _vars(hl)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [_arg(hl, g), _arg(hl, 2)], hl.Int(32), [x, y])
    h[x, y] = f[x, y] - f[x - 1, y]
    g.compute_root()
    f.compute_at(h, y)
    found = []
    for func in (h, f):
        out = hl.Buffer(hl.Int(32), [6, 5])
        out.set_min([100, -7])
        func.realize(out)
        found.append(np.array(out))
        f.compute_root()
    return found


_MORE: dict[str, Program] = {
    "bound": _scheduled(
        lambda g, f, h, x, y, xo, yo: (g.compute_root(), f.compute_root().bound(x, 0, 32))
    ),
    "align_bounds": _scheduled(
        lambda g, f, h, x, y, xo, yo: (g.compute_root(), f.compute_root().align_bounds(x, 8))
    ),
    "in_": _scheduled(
        lambda g, f, h, x, y, xo, yo: (
            g.compute_root(), f.in_(h).compute_at(h, y), f.compute_root(),
        )
    ),
    "unrolled": _scheduled(
        lambda g, f, h, x, y, xo, yo: (
            g.compute_root(), f.compute_at(h, y), h.unroll(x, 4).unroll(y, 2),
        )
    ),
    "serial": _scheduled(
        lambda g, f, h, x, y, xo, yo: (g.compute_root(), f.compute_root().serial(y))
    ),
    "parallel rows": _scheduled(
        lambda g, f, h, x, y, xo, yo: (g.compute_at(f, y), f.compute_root().parallel(y))
    ),
    "reordered": _scheduled(
        lambda g, f, h, x, y, xo, yo: (g.compute_root(), f.compute_root().reorder(y, x).serial(x))
    ),
    "align_storage": _scheduled(
        lambda g, f, h, x, y, xo, yo: (
            g.compute_root().align_storage(x, 32), f.compute_root().align_storage(x, 16),
        )
    ),
    "hoist_storage": _scheduled(
        lambda g, f, h, x, y, xo, yo: (
            g.hoist_storage_root().compute_at(h, y), f.compute_at(h, y),
        )
    ),
    "prefetch": _scheduled(
        lambda g, f, h, x, y, xo, yo: (
            g.compute_root(), f.compute_root(), h.prefetch(f, y, y, 2),
        )
    ),
}  # fmt: skip

ALL: dict[str, Program] = {
    f.__name__: f
    for f in (
        stencil_root, stencil_by_rows, stencil_inlined, stencil_inlined_into_vectors,
        stencil_parallel, stencil_tiled, stencil_input_stored_outside,
        stencil_in_parallel_consumer, image_and_scalars, image_in_stencil, buffer_argument,
        tuple_values, tuple_output, tuple_argument, source, chain, expansion_root,
        expansion_in_parts, non_nesting, rows, number, updated_input, reordered_storage,
        also_read_elsewhere, conditional, several_outputs, in_an_update, specialized, elsewhere,
    )
}  # fmt: skip
ALL.update(_MORE)
