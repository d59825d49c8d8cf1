"""One pipeline called from another: values, storage in the caller's plan, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.ir.errors import DefinitionError, TypeMismatchError


class Blur:
    """t(x, y) = image(x, y) + k image(x + 1, y); blur(x, y) = t(x, y) + t(x, y + 1)."""

    def __init__(self, name: str = "blur") -> None:
        x, y = hl.Var("x"), hl.Var("y")
        self.image = hl.ImageParam(hl.Int(32), 2, "image")
        self.k = hl.Param(hl.Int(32), "k", 2)
        self.t, self.out = hl.Func(f"{name}_t"), hl.Func(name)
        self.t[x, y] = self.image[x, y] + self.image[x + 1, y] * self.k
        self.out[x, y] = self.t[x, y] + self.t[x, y + 1]
        self.t.compute_root()

    @staticmethod
    def of(image: Callable[[Any, Any], Any], k: int) -> Callable[[Any, Any], Any]:
        def t(x: Any, y: Any) -> Any:
            return image(x, y) + image(x + 1, y) * k

        return lambda x, y: t(x, y) + t(x, y + 1)


def _grid(width: int, height: int) -> tuple[Any, Any]:
    return np.meshgrid(np.arange(width), np.arange(height), indexing="xy")


def _plane(x: Any, y: Any) -> Any:
    return x * 3 + y * 5


def _realize(f: hl.Func, sizes: list[int]) -> tuple[Any, int, int]:
    """The values, the requests of the call, and their bytes at the peak."""
    found = np.array(f.realize(sizes))
    counts = driver.context().counts
    return found, counts.allocations, counts.peak_bytes


SCHEDULES: dict[str, Callable[..., None]] = {
    "root": lambda f, h, x, y, yo: f.compute_root(),
    "row": lambda f, h, x, y, yo: f.compute_at(h, y),
    "parallel": lambda f, h, x, y, yo: (h.split(y, yo, y, 3).parallel(yo), f.compute_at(h, yo)),
    "row in parallel": lambda f, h, x, y, yo: (
        h.split(y, yo, y, 3).parallel(yo),
        f.compute_at(h, y),
    ),
    "tail": lambda f, h, x, y, yo: (
        h.split(y, yo, y, 3, hl.TailStrategy.GuardWithIf),
        f.compute_at(h, yo),
    ),
    "own loop in parallel": lambda f, h, x, y, yo: (
        f.compute_root().split(f.args()[1], yo, f.args()[1], 2).parallel(yo)
    ),
    "inlined": lambda f, h, x, y, yo: None,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_values_and_one_allocation_a_call(name: str) -> None:
    blur = Blur()
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 5
    f.define_extern(blur.out, {blur.image: g, "k": 7})
    h[x, y] = f[x, y] + f[x + 1, y]
    g.compute_root()
    SCHEDULES[name](f, h, x, y, yo)
    xs, ys = _grid(10, 8)
    expected = Blur.of(_plane, 7)(xs, ys) + Blur.of(_plane, 7)(xs + 1, ys)
    found, allocations, peak = _realize(h, [10, 8])
    np.testing.assert_array_equal(found, expected)
    # All temporaries, those of the callee among them, are in the caller's one arena.
    assert allocations == 1
    report = h.storage([10, 8])
    assert peak == report.required_bytes
    assert any(row.name == f"{f.name()}.workspace" for row in report.temporaries)


def test_the_workspace_of_the_caller_is_enough() -> None:
    blur = Blur()
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern(blur.out, {"k": 3})
    h[x, y] = f[x, y] * 2
    h.split(y, yo, y, 2).parallel(yo)
    f.compute_at(h, yo)
    call = h.compile_to_callable([blur.image])
    image = np.arange(20 * 20, dtype=np.int32).reshape(20, 20)
    out = hl.Buffer(hl.Int(32), [8, 8])
    size = call.workspace_bytes(image, out)
    assert size > 0
    call(image, out, workspace=np.zeros(size + 64, np.uint8))
    assert driver.context().counts.allocations == 0
    xs, ys = _grid(8, 8)
    expected = Blur.of(lambda x, y: y * 20 + x, 3)(xs, ys) * 2
    np.testing.assert_array_equal(np.array(out), expected)


def test_a_chain_of_calls_and_a_call_twice() -> None:
    inner = Blur("inner")
    x, y = hl.Var("x"), hl.Var("y")
    middle_in = hl.ImageParam(hl.Int(32), 2, "middle_in")
    a, middle = hl.Func("a"), hl.Func("middle")
    a.define_extern(inner.out, [middle_in, hl.i32(2)])
    middle[x, y] = a[x, y] - a[x + 1, y]
    a.compute_root()
    g, one, two, top = hl.Func("g"), hl.Func("one"), hl.Func("two"), hl.Func("top")
    g[x, y] = x * x + y
    one.define_extern(middle, [g])
    two.define_extern(middle, [one])
    inner_again = hl.Func("again")
    inner_again.define_extern(inner.out, {"image": g, "k": 5})
    top[x, y] = two[x, y] + inner_again[x, y]
    for f in (g, one, two):
        f.compute_root()
    inner_again.compute_at(top, y)
    found, allocations, peak = _realize(top, [6, 5])

    def plane(x: Any, y: Any) -> Any:
        return x * x + y

    def through(image: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        blurred = Blur.of(image, 2)
        return lambda x, y: blurred(x, y) - blurred(x + 1, y)

    xs, ys = _grid(6, 5)
    expected = through(through(plane))(xs, ys) + Blur.of(plane, 5)(xs, ys)
    np.testing.assert_array_equal(found, expected)
    assert allocations == 1
    assert peak == top.storage([6, 5]).required_bytes


def test_a_callee_is_an_output_too_and_runs_alone() -> None:
    blur = Blur()
    x, y = hl.Var("x"), hl.Var("y")
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern(blur.out)
    h[x, y] = f[x, y] + 1
    f.compute_root()
    image = np.arange(100, dtype=np.int32).reshape(10, 10)
    blur.image.set(hl.Buffer(image))
    both = hl.Pipeline([h, blur.out])
    first, second = both.realize([5, 5])
    np.testing.assert_array_equal(np.array(first), np.array(second) + 1)
    np.testing.assert_array_equal(np.array(blur.out.realize([5, 5])), np.array(second))


def test_several_outputs_are_the_values_of_one_func() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    s, a, b = hl.Func("s"), hl.Func("a"), hl.Func("b")
    s[x, y] = image[x, y] * 2
    a[x, y] = s[x, y] + 1
    b[x, y] = hl.f32(s[x, y + 1])
    s.compute_root()
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x + 10 * y
    f.define_extern(hl.Pipeline([a, b]), [g])
    h[x, y] = f[x, y][0] + hl.i32(f[x, y][1])
    g.compute_root()
    f.compute_at(h, y)
    found, allocations, _ = _realize(h, [6, 5])
    xs, ys = _grid(6, 5)
    np.testing.assert_array_equal(found, 2 * (xs + 10 * ys) + 1 + 2 * (xs + 10 * (ys + 1)))
    assert allocations == 1
    assert f.types() == [hl.Int(32), hl.Float(32)]


def test_a_callee_that_computes_more_than_it_is_asked_for() -> None:
    x, xi = hl.Var("x"), hl.Var("xi")
    image = hl.ImageParam(hl.Int(32), 1, "image")
    t, c = hl.Func("t"), hl.Func("c")
    t[x] = image[x] + 1
    c[x] = t[x] * 3
    t.compute_root()
    c.split(x, x, xi, 8, hl.TailStrategy.RoundUp)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x] = x * x
    f.define_extern(c, [g])
    h[x] = f[x] + f[x + 3]
    g.compute_root()
    for schedule in (lambda: f.compute_root(), lambda: f.compute_at(h, x)):
        schedule()
        found, allocations, _ = _realize(h, [13])
        xs = np.arange(13)
        np.testing.assert_array_equal(found, 3 * (xs**2 + 1) + 3 * ((xs + 3) ** 2 + 1))
        assert allocations == 1


def test_sizes_that_change_in_a_loop_are_the_largest_one() -> None:
    """Row y of a triangle has y + 1 elements: the callee's temporaries grow."""
    x, y = hl.Var("x"), hl.Var("y")
    n = hl.Param(hl.Int(32), "n", 1)
    r = hl.RDom([(0, n)], "r")
    t, c = hl.Func("t"), hl.Func("c")
    t[x] = x * 2
    c[x] = 0
    c[x] += t[x + r]
    t.compute_root()
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern(c, {"n": 1 + hl.Param(hl.Int(32), "m", 4)})
    h[x, y] = f[x + y * y]
    f.compute_at(h, y)
    found, allocations, _ = _realize(h, [4, 6])
    xs, ys = _grid(4, 6)
    expected = sum([2 * (xs + ys * ys + k) for k in range(5)])
    np.testing.assert_array_equal(found, expected)
    assert allocations == 1


def test_an_image_of_the_caller_is_an_image_of_the_callee() -> None:
    blur = Blur()
    picture = hl.ImageParam(hl.Int(32), 2, "picture")
    f = hl.Func("f")
    f.define_extern(blur.out, {"image": picture, "k": 1})
    picture.set(hl.Buffer(np.arange(72, dtype=np.int32).reshape(8, 9)))
    xs, ys = _grid(8, 7)
    expected = Blur.of(lambda x, y: y * 9 + x, 1)(xs, ys)
    np.testing.assert_array_equal(np.array(f.realize([8, 7])), expected)
    with pytest.raises(hl.HalideError, match="Input buffer picture is 1 too short in dimension 0"):
        f.realize([9, 7])
    picture.reset()
    f.infer_input_bounds([8, 7])
    assert [d.extent() for d in (picture.get().dim(0), picture.get().dim(1))] == [9, 8]


def test_a_boundary_condition_in_the_callee() -> None:
    image = hl.ImageParam(hl.Int(32), 1, "image")
    x = hl.Var("x")
    c = hl.Func("c")
    edge = hl.BoundaryConditions.repeat_edge(image)
    c[x] = edge[x - 1] + edge[x + 1]
    f = hl.Func("f")
    f.define_extern(c, [image])
    image.set(hl.Buffer(np.arange(10, dtype=np.int32)))
    at = np.arange(10)
    expected = np.clip(at - 1, 0, 9) + np.clip(at + 1, 0, 9)
    np.testing.assert_array_equal(np.array(f.realize([10])), expected)


def test_an_error_inside_is_the_callees_own() -> None:
    x = hl.Var("x")
    n = hl.Param(hl.Int(32), "n", 1)
    c, f, h = hl.Func("c"), hl.Func("f"), hl.Func("h")
    c[x] = hl.require(n > 0, x // n, "n is", n)
    f.define_extern(c)
    h[x] = f[x]
    f.compute_root()
    n.set(0)
    with pytest.raises(hl.HalideError, match="n is 0"):
        h.realize([4])
    n.set(2)
    assert list(np.array(h.realize([4]))) == [0, 0, 1, 1]


def test_calls_that_do_not_fit() -> None:
    blur = Blur()
    x, y = hl.Var("x"), hl.Var("y")
    g = hl.Func("g")
    g[x, y] = hl.f32(x)
    g.compute_root()

    def refused(error: type[Exception], text: str, *args: Any) -> None:
        f = hl.Func("f")
        with pytest.raises(error, match=text):
            f.define_extern(blur.out, *args)
            f.lowered_text()

    refused(DefinitionError, r"gives 1 arguments to blur\S*, which has 2 inputs \(image, k\)", [g])
    refused(
        TypeMismatchError,
        "image of blur.* has 2 dimensions of int32, not 2 of float32",
        {"image": g},
    )
    refused(TypeMismatchError, "k of blur.* has type int32, not float32", {"k": 0.5})
    refused(TypeMismatchError, "k of blur.* is a scalar", {"k": g})
    refused(DefinitionError, r"has no input j; it has image, k", {"j": 1})
    refused(
        TypeMismatchError, "is to hold float32, but what it calls gives int32", [], hl.Float(32), 2
    )
    refused(DefinitionError, "have 2 dimensions, not 3", [], hl.Int(32), 3)
    undefined, f = hl.Func("undefined"), hl.Func("f")
    with pytest.raises(DefinitionError, match="not defined yet"):
        f.define_extern(undefined)


def test_a_pipeline_that_calls_itself() -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Int(32), 1, "image")
    f, outer = hl.Func("f"), hl.Func("outer")
    # `outer` uses f, and f calls `outer`.
    stand_in = hl.Func("stand_in")
    stand_in[x] = image[x]
    outer[x] = f_of(f, x, stand_in)
    with pytest.raises(DefinitionError, match="calls itself"):
        outer.lowered_text()


def f_of(f: hl.Func, x: hl.Var, stand_in: hl.Func) -> Any:
    """A use of f, whose callee is then made the pipeline that uses it."""
    f.define_extern(stand_in)
    use = f[x]
    holder: list[hl.Func] = []
    call = f.function().extern()
    assert call is not None

    class Late:
        """A pipeline that is known only later."""

        def _functions(self) -> list[Any]:
            return [holder[0].function()] if holder else [stand_in.function()]

    call.target.callee = Late()
    loop = hl.Func("loop")
    loop[x] = use + 1
    holder.append(loop)
    f.compute_root()
    loop.compute_root()
    return loop[x]


def test_a_size_that_grows_in_a_loop_is_the_largest_one() -> None:
    """Row y reads the elements 0 .. y of the callee, whose temporary has as many."""
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    t, c = hl.Func("t"), hl.Func("c")
    t[x] = x * 3
    c[x] = t[x] + t[x + 1]
    t.compute_root()
    for parallel in (False, True):
        f, h = hl.Func("f"), hl.Func("h")
        f.define_extern(c)
        h[x, y] = f[hl.clamp(x, 0, y)]
        f.compute_at(h, y)
        if parallel:
            h.split(y, yo, y, 4).parallel(yo)
        found, allocations, _ = _realize(h, [200, 150])
        xs, ys = _grid(200, 150)
        np.testing.assert_array_equal(found, 6 * np.minimum(xs, ys) + 3)
        assert allocations == 1
        assert "largest_over" in h.lowered_text()


def test_sizes_that_a_c_function_decides_inside_a_callee(functions: Any) -> None:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    g, c, d = hl.Func("g"), hl.Func("c"), hl.Func("d")
    g[x, y] = image[x, y] * 2
    c.define_extern("ex_stencil", [g, 1], hl.Int(32), [x, y])
    d[x, y] = c[x, y] + 1
    g.compute_root()
    c.compute_root()
    p, f, h = hl.Func("p"), hl.Func("f"), hl.Func("h")
    p[x, y] = x + 10 * y
    f.define_extern(d, [p])
    h[x, y] = f[x, y]
    p.compute_root()
    xs, ys = _grid(7, 6)
    expected = 2 * (xs - 1 + 10 * ys) + 2 * (xs + 1 + 10 * (ys + 1)) + 1
    for schedule in (lambda: f.compute_root(), lambda: f.compute_at(h, y)):
        schedule()
        found, _, _ = _realize(h, [7, 6])
        np.testing.assert_array_equal(found, expected)


def test_what_a_callee_cannot_say_before_the_call(functions: Any) -> None:
    """Its temporary's size is found in a loop, so no workspace holds it, nor the caller's."""
    x, y = hl.Var("x"), hl.Var("y")
    g, c, d = hl.Func("g"), hl.Func("c"), hl.Func("d")
    g[x, y] = x + y
    c.define_extern("ex_stencil", [g, 1], hl.Int(32), [x, y])
    d[x, y] = c[x, y] + 1
    c.compute_at(d, y)
    g.compute_at(d, y)
    f, h = hl.Func("f"), hl.Func("h")
    f.define_extern(d)
    h[x, y] = f[x, y]
    f.compute_root()
    xs, ys = _grid(7, 6)
    np.testing.assert_array_equal(np.array(h.realize([7, 6])), 2 * (xs + ys) + 2)
    call = h.compile_to_callable([])
    out = hl.Buffer(hl.Int(32), [7, 6])
    with pytest.raises(hl.HalideError, match="depends on data"):
        call.workspace_bytes(out)


def test_a_change_of_the_callee_is_seen_by_its_callers() -> None:
    blur = Blur()
    f = hl.Func("f")
    f.define_extern(blur.out)
    blur.image.set(hl.Buffer(np.arange(400, dtype=np.int32).reshape(20, 20)))
    before = np.array(f.realize([8, 8]))
    assert driver.context().counts.allocations == 1
    blur.t.compute_inline()
    np.testing.assert_array_equal(np.array(f.realize([8, 8])), before)
    assert driver.context().counts.allocations == 0


def test_two_pipelines_of_one_name() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    one, other, h = hl.Func("one"), hl.Func("other"), hl.Func("h")
    one.define_extern("same", {}, callee=Blur().out)
    other.define_extern("same", {}, callee=Blur("another").out)
    h[x, y] = one[x, y] + other[x, y]
    one.compute_root()
    other.compute_root()
    with pytest.raises(DefinitionError, match="two pipelines that are called have the name same"):
        h.lowered_text()


@pytest.mark.parametrize("feature", ["ASAN", "Profile"])
def test_builds_with_guards_and_marks(feature: str) -> None:
    target = hl.get_host_target().with_feature(getattr(hl.TargetFeature, feature))
    blur = Blur()
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 5
    f.define_extern(blur.out, {blur.image: g, "k": 7})
    h[x, y] = f[x, y] + f[x + 1, y]
    g.compute_root()
    h.split(y, yo, y, 3).parallel(yo)
    f.compute_at(h, y)
    xs, ys = _grid(10, 8)
    expected = Blur.of(_plane, 7)(xs, ys) + Blur.of(_plane, 7)(xs + 1, ys)
    np.testing.assert_array_equal(np.array(h.realize([10, 8], target)), expected)
    assert driver.context().counts.allocations == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parallel_loops_inside_parallel_loops(threads: int) -> None:
    blur = Blur()
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    u = hl.Func("u")
    again = hl.Func("again")
    u[x, y] = blur.out[x, y] * 2
    again[x, y] = u[x, y] + u[x + 1, y]
    blur.out.compute_root().parallel(y)
    blur.t.compute_at(blur.out, y)
    again.parallel(y)
    u.compute_at(again, y).vectorize(x, 4)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 5
    f.define_extern(again, {blur.image: g, "k": 7})
    h[x, y] = f[x, y] + 1
    g.compute_root()
    h.split(y, yo, y, 3).parallel(yo)
    f.compute_at(h, yo)
    xs, ys = _grid(33, 31)
    blurred = Blur.of(_plane, 7)
    expected = 2 * blurred(xs, ys) + 2 * blurred(xs + 1, ys) + 1
    before = hl.set_num_threads(threads)
    try:
        for _ in range(3):
            found, allocations, _ = _realize(h, [33, 31])
            np.testing.assert_array_equal(found, expected)
            assert allocations == 1
        assert h.storage([33, 31]).required_bytes == driver.context().counts.peak_bytes
    finally:
        hl.set_num_threads(before)


def test_an_input_that_turns_out_not_to_be_needed() -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Int(32), 1, "image")
    k = hl.Param(hl.Int(32), "k", 3)
    c, g, f = hl.Func("c"), hl.Func("g"), hl.Func("f")
    c[x] = image[x] * 0 + k
    g[x] = x
    g.compute_root()
    f.define_extern(c, [g, 5])
    assert list(np.array(f.realize([3]))) == [5, 5, 5]


def test_a_compiled_callable_has_its_own_order() -> None:
    blur = Blur()
    call = blur.out.compile_to_callable([blur.k, blur.image])
    x, y = hl.Var("x"), hl.Var("y")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = x * 3 + y * 5
    g.compute_root()
    f.define_extern(call, [4, g])
    xs, ys = _grid(6, 5)
    np.testing.assert_array_equal(np.array(f.realize([6, 5])), Blur.of(_plane, 4)(xs, ys))
    with pytest.raises(DefinitionError, match=r"1 arguments to a callable that has 2 inputs"):
        hl.Func("f").define_extern(call, [4])
