"""The interpreter of bytes agrees with the checker, on hand-built and on random programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples

import bayplan as hl
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, Stmt
from bayplan.ir.walk import Rewriter, iterate
from bayplan.storage.check import check_storage
from tests.differential.choices import Choices
from tests.differential.generate import generate
from tests.differential.program import Program
from tests.differential.strategies import programs
from tests.storage.interpret_bytes import Interpreter
from tests.storage.interpret_values import Faulty
from tests.storage.run_bytes import Unsupported, interpreter_for, lower_program, run_program
from tests.storage.statements import alias, arena, copy, fill, int32, var
from tests.storage.test_check import SLOT, chain, pointwise, workers


def run(stmt: Stmt, **options: Any) -> Interpreter:
    machine = Interpreter({}, {"out": 4000}, **options)
    machine.run(stmt)
    return machine


def is_refused(stmt: Stmt) -> bool:
    try:
        check_storage(stmt)
    except PlanError:
        return True
    return False


def is_faulty(stmt: Stmt) -> bool:
    try:
        for seed in range(3):
            run(stmt, seed=seed)
    except Faulty:
        return True
    return False


def test_every_placement_of_three_is_judged_alike() -> None:
    accepted = []
    for b in range(0, 801, 100):
        for c in range(0, 801, 100):
            stmt = chain((0, b, c))
            assert is_refused(stmt) == is_faulty(stmt), (b, c)
            if not is_refused(stmt):
                accepted.append((b, c))
    apart = [(b, c) for b in range(400, 801, 100) for c in range(0, 801, 100) if abs(b - c) >= 400]
    assert accepted == apart


def test_what_is_destroyed_is_named() -> None:
    with pytest.raises(Faulty, match=r"element 49 of a was destroyed by b"):
        run(chain((0, 0, 400)))
    with pytest.raises(Faulty, match="which has 1196"):
        run(chain((0, 400, 800), 1196))
    with pytest.raises(Faulty, match="before it is written"):
        run(arena(4, alias("a", 1, 0, copy("out", "a", int32(0)))))
    with pytest.raises(Faulty, match="no element 1"):
        run(arena(8, alias("a", 1, 0, fill("a", int32(1)))))


def test_workers_that_share_bytes_are_found_in_any_order() -> None:
    from bayplan.ir.build import mul

    for seed in range(4):
        run(workers(mul(SLOT, 80), 320), seed=seed, workers=4)
        with pytest.raises(Faulty, match="two workers have byte"):
            run(workers(mul(SLOT, 76), 320), seed=seed, workers=4)
        with pytest.raises(Faulty, match="two workers have byte"):
            run(workers(0), seed=seed, workers=2)


def test_in_place_takes_over_element_by_element() -> None:
    y, x = var("y"), var("x")
    run(pointwise(y * 10 + x), seed=1)
    with pytest.raises(Faulty, match="a was destroyed by b"):
        run(pointwise(y * 10 + x, (y * 10 + x + 99) % 100))


# Random programs.


@examples(
    max_examples=12,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_drawn_programs_keep_their_bytes(program: Program) -> None:
    try:
        run_program(program, limit=6000)
    except (Unsupported, hl.BayplanError) as error:
        assert not isinstance(error, PlanError), program.script()


class SameOffset(Rewriter):
    """Puts one alias where another lies."""

    def __init__(self, name: str, offset: Expr) -> None:
        super().__init__()
        self.name = name
        self.offset = offset

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        rebuilt: Allocate = self.rebuild(node)
        address = rebuilt.address
        if node.name != self.name or address is None:
            return rebuilt
        children = list(rebuilt.children())
        children[-2] = address.with_children([*address.args[:-1], self.offset])
        moved: Stmt = rebuilt.with_children(children)
        return moved


def neighbours(stmt: Stmt) -> Iterator[tuple[Allocate, Allocate]]:
    """Pairs of aliases of one arena, neither of them an arena itself."""
    nodes = [n for n in iterate(stmt) if isinstance(n, Allocate) and n.address is not None]
    for a in nodes:
        for b in nodes:
            assert a.address is not None and b.address is not None
            if a.name < b.name and a.address.args[-2] is b.address.args[-2]:
                yield a, b


def test_mutated_plans_are_refused_before_they_destroy_anything() -> None:
    """What the checker accepts runs without fault; of what it refuses, much does not."""
    accepted = refused = faults = 0
    for seed in range(40):
        if accepted + refused > 8:
            break
        with compilation():
            program = generate(Choices.from_seed(seed))
            lowered, _kept = lower_program(program)
            for a, b in islice(neighbours(lowered.body), 2):
                assert a.address is not None
                mutated = SameOffset(b.name, a.address.args[-1])(lowered.body)
                machine = interpreter_for(lowered, program, limit=4000)
                values = {name: lanes[0] for name, lanes in machine.names.items()}
                try:
                    check_storage(mutated, values)
                    accepted += 1
                except PlanError:
                    refused += 1
                try:
                    machine.run(mutated)
                except Unsupported:
                    continue
                except Faulty:
                    faults += 1
                    with pytest.raises(PlanError):
                        check_storage(mutated, values)
                    with pytest.raises(PlanError):
                        check_storage(mutated)
    assert refused > 3
    assert faults >= refused // 2, (accepted, refused, faults)
