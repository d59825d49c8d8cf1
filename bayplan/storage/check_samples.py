"""Sizes and parameters a program could be called with, for what the checker cannot prove."""

from __future__ import annotations

import random
from typing import Final

from bayplan.analysis.evaluate import Number, Unknown
from bayplan.ir.node import Node
from bayplan.ir.stmts import AssertStmt, Block, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import free_variables_of_stmt
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_walk import Scope

_WANTED: Final = 4
_TRIES: Final = 24


def find_samples(stmt: Stmt) -> list[Numbers]:
    """A few calls that the program's own checks do not refuse, always the same for a program."""
    draw = random.Random(1)
    names = sorted(free_variables_of_stmt(stmt))
    found: list[Numbers] = []
    for _ in range(_TRIES):
        numbers = Numbers(_draw_values(names, draw), 1 + len(found))
        if _is_accepted(stmt, numbers):
            found.append(numbers)
            if len(found) == _WANTED:
                break
    return found


def _draw_values(names: list[str], draw: random.Random) -> dict[str, Number]:
    values: dict[str, Number] = {}
    for name in names:
        field = name.split(".")[-2] if "." in name else ""
        if field == "min":
            values[name] = draw.choice([0, 0, 0, 3, -2])
        elif field == "stride":
            values[name] = 1 if name.endswith(".0") else draw.choice([64, 100, 1000, 4096])
        else:
            values[name] = draw.choice([1, 2, 5, 8, 16, 17, 32, 64, 99])
    return values


def _is_accepted(stmt: Stmt, numbers: Numbers) -> bool:
    """Whether no check at the begin of the program fails, as far as that can be told."""
    scope: Scope | None = None
    node: Node = stmt
    while True:
        if isinstance(node, LetStmt):
            scope = Scope(node.name, node.value, None, scope)
            node = node.body
        elif isinstance(node, ProducerConsumer):
            node = node.body
        elif isinstance(node, Block):
            for part in node.stmts[:-1]:
                if isinstance(part, IfThenElse):
                    part = part.then_case
                if isinstance(part, AssertStmt) and _fails(part, scope, numbers):
                    return False
            node = node.stmts[-1]
        else:
            return True


def _fails(check: AssertStmt, scope: Scope | None, numbers: Numbers) -> bool:
    try:
        return not numbers.value(check.condition, scope)
    except Unknown:
        return False
