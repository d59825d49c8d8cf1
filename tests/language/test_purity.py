"""The proof that iterations of an RVar never meet, against all pairs of iterations."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan as hl

COEFFICIENT = st.integers(-4, 4)
FORM = st.tuples(COEFFICIENT, COEFFICIENT, st.integers(-9, 9), st.sampled_from([0, 2, 3]))


def value(form: tuple[int, int, int, int], x: int, y: int) -> int:
    """a x + b y + c, and its remainder where the form has a modulus."""
    a, b, c, modulus = form
    result = a * x + b * y + c
    return result % modulus if modulus else result


def expression(form: tuple[int, int, int, int], x: Any, y: Any) -> Any:
    """The same as an Expr."""
    a, b, c, modulus = form
    result = a * x + b * y + c
    return result % modulus if modulus else result


@settings(max_examples=150, deadline=None)
@given(
    store=st.tuples(FORM, FORM),
    loads=st.lists(st.tuples(FORM, FORM), max_size=2),
    extents=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    mins=st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
)
def test_never_wrong(
    store: tuple[Any, Any],
    loads: list[tuple[Any, Any]],
    extents: tuple[int, int],
    mins: tuple[int, int],
) -> None:
    u, v = hl.vars("u v")
    r = hl.RDom(list(zip(mins, extents, strict=True)), "r")
    f = hl.Func("f")
    f[u, v] = 0
    e = hl.Expr(1)
    for load in loads:
        e = e + f[expression(load[0], r.x, r.y), expression(load[1], r.x, r.y)]
    f[expression(store[0], r.x, r.y), expression(store[1], r.x, r.y)] = e
    dims = f.update().definition.schedule.dims
    points = list(itertools.product(*[range(m, m + n) for m, n in zip(mins, extents, strict=True)]))
    for axis in (0, 1):
        if dims[axis].dim_type.name != "PureRVar":
            continue
        for p, q in itertools.product(points, points):
            if p[axis] == q[axis]:
                continue
            written = (value(store[0], *q), value(store[1], *q))
            for place in [store, *loads]:
                assert (value(place[0], *p), value(place[1], *p)) != written
