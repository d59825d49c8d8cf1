"""Split factors given by parameters: any positive one gives the same values."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.errors import ScheduleError


def pipeline(factor: int) -> hl.Func:
    x, xo, xi = hl.vars("x xo xi")
    p = hl.Param(hl.Int(32), "p")
    p.set(factor)
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * x
    g[x] = f[x] + f[x + 1]
    f.compute_root().split(x, xo, xi, p, hl.TailStrategy.RoundUp)
    g.split(x, xo, xi, p, hl.TailStrategy.GuardWithIf)
    return g


@pytest.mark.parametrize("factor", [1, 4, 5, 100])
def test_positive_factors(factor: int) -> None:
    x = np.arange(14)
    np.testing.assert_array_equal(
        np.asanyarray(pipeline(factor).realize([14])), x * x + (x + 1) * (x + 1)
    )


@pytest.mark.parametrize("factor", [0, -3])
def test_other_factors_end_the_call(factor: int) -> None:
    with pytest.raises(ScheduleError, match=rf"is split by {factor} \(p\)"):
        pipeline(factor).realize([14])
