"""Random expressions have the same value before and after simplification."""

from __future__ import annotations

import pytest

from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import alignment_of, range_of
from bayplan.analysis.simplify import prove, simplify
from bayplan.ir.build import le, logical_and
from bayplan.ir.build import var as variable
from bayplan.ir.node import compilation
from bayplan.ir.types import Int, Type, UInt
from bayplan.ir.walk import free_variables
from tests.analysis.evaluate import Shaper, evaluate

SCALARS = [Int(32), Int(32), Int(16), UInt(8), UInt(16), Int(8)]
VECTORS = [Int(32, 4), UInt(8, 4), Int(16, 2)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_value_is_kept(seed: int, depth: int) -> None:
    shaper = Shaper(seed * 1000 + depth)
    with compilation():
        for _ in range(80):
            t: Type = shaper.random.choice(SCALARS + VECTORS)
            e = shaper.integer(t, depth)
            if shaper.random.random() < 0.3:
                e = shaper.condition(depth, t.lane_count)
            simple = simplify(e)
            assert simple.type is e.type
            assert simplify(simple) is simple or evaluate_all(shaper, simple, simplify(simple))
            evaluate_all(shaper, e, simple)


def evaluate_all(shaper: Shaper, e: object, simple: object) -> bool:
    names = free_variables(e) | free_variables(simple)
    for _ in range(12):
        env = shaper.environment(names)
        assert evaluate(simple, env) == evaluate(e, env), (str(e), str(simple), env)
    return True


@pytest.mark.parametrize("seed", range(6))
def test_facts_do_not_lie(seed: int) -> None:
    """Under facts that an environment satisfies the value is kept, and ranges hold."""
    shaper = Shaper(77 + seed)
    x, y, z = variable("x"), variable("y"), variable("z")
    with compilation():
        for _ in range(80):
            low = shaper.random.randrange(-4, 5)
            facts = Facts().child()
            facts.bound_variable("x", low, low + shaper.random.randrange(0, 9))
            facts.align_variable("y", 4, shaper.random.randrange(0, 4))
            inner = facts.child().assume(logical_and(le(x + y, z), le(y, x + 8)))
            e = shaper.integer(Int(32), 4)
            condition = shaper.condition(3)
            simple = simplify(e, inner)
            verdict = prove(condition, inner)
            least, greatest = range_of(simple, inner)
            modulus, remainder = alignment_of(simple, inner)
            names = free_variables(e) | free_variables(condition) | {"x", "y", "z"}
            for _ in range(20):
                env = shaper.environment(names)
                known = facts.bounds["x"]
                env["x"] = shaper.random.randrange(known[0], known[1] + 1)
                env["y"] = env["y"] // 4 * 4 + facts.alignments["y"][1]
                if not (env["x"] + env["y"] <= env["z"] and env["y"] <= env["x"] + 8):
                    continue
                value = evaluate(e, env)
                told = (str(e), str(simple), env)
                assert evaluate(simple, env) == value, told
                assert least is None or value >= least, told
                assert greatest is None or value <= greatest, told
                assert value == remainder if modulus == 0 else value % modulus == remainder, told
                if verdict is not None:
                    assert bool(evaluate(condition, env)) == verdict, (str(condition), env)
