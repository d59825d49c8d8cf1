"""Bounds hold at every point, and solved intervals hold what they say."""

from __future__ import annotations

import itertools

import pytest

from bayplan.analysis.bounds import bounds_of_expr_in_scope, find_constant_bound
from bayplan.analysis.interval import Interval
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.solve import solve_for_inner_interval, solve_for_outer_interval
from bayplan.ir.build import int32, var
from bayplan.ir.node import compilation
from bayplan.ir.types import Int, UInt
from bayplan.ir.walk import free_variables
from tests.analysis.evaluate import Shaper, evaluate


@pytest.mark.parametrize("seed", range(8))
def test_ends_hold_everywhere(seed: int) -> None:
    shaper = Shaper(500 + seed)
    with compilation():
        scope = {"x": Interval(var("x0"), var("x1")), "y": Interval(int32(-2), int32(5))}
        constant = {"x": Interval(int32(-3), int32(4)), "y": Interval(int32(-2), int32(5))}
        for _ in range(70):
            t = shaper.random.choice([Int(32), Int(32), Int(32), UInt(8), Int(16)])
            e = shaper.integer(t, 4)
            found = bounds_of_expr_in_scope(e, scope)
            low = find_constant_bound(e, "lower", constant)
            high = find_constant_bound(e, "upper", constant)
            env = shaper.environment(free_variables(e) | {"z"})
            for x, y in itertools.product(range(-3, 5), range(-2, 6)):
                env.update(x=x, y=y, x0=-3, x1=4)
                value = evaluate(e, env)
                told = (str(e), str(found), env)
                assert found.min is None or evaluate(found.min, env) <= value, told
                assert found.max is None or evaluate(found.max, env) >= value, told
                assert low is None or evaluate(low, env) <= value, (str(e), str(low), env)
                assert high is None or evaluate(high, env) >= value, (str(e), str(high), env)


@pytest.mark.parametrize("seed", range(6))
def test_solved_intervals(seed: int) -> None:
    shaper = Shaper(900 + seed)
    with compilation():
        for _ in range(70):
            condition = shaper.condition(3)
            outer = solve_for_outer_interval(condition, "x")
            inner = solve_for_inner_interval(condition, "x")
            names = free_variables(condition) | {"x", "y", "z"}
            for _ in range(25):
                env = shaper.environment(names)
                holds = bool(evaluate(condition, env))
                told = (str(condition), str(outer), str(inner), env)
                assert within(outer, env) or not holds, told
                assert not within(inner, env) or holds, told


def within(interval: Interval, env: dict[str, int]) -> bool:
    if interval.empty:
        return False
    if interval.min is not None and evaluate(interval.min, env) > env["x"]:
        return False
    return interval.max is None or evaluate(interval.max, env) >= env["x"]


@pytest.mark.parametrize("seed", range(4))
def test_direction_is_true(seed: int) -> None:
    shaper = Shaper(1300 + seed)
    with compilation():
        for _ in range(80):
            e = shaper.integer(Int(32), 4)
            direction = is_monotonic(e, "x")
            if direction is Monotonic.Unknown:
                continue
            env = shaper.environment(free_variables(e) | {"x"})
            values = [evaluate(e, {**env, "x": x}) for x in range(-9, 10)]
            steps = [b - a for a, b in itertools.pairwise(values)]
            if direction is not Monotonic.Decreasing:
                assert all(step >= 0 for step in steps), (str(e), env)
            if direction is not Monotonic.Increasing:
                assert all(step <= 0 for step in steps), (str(e), env)
