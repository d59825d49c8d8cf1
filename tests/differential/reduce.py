"""Makes a failing program smaller: fewer lines, simpler expressions, smaller extents.

python -m tests.differential.reduce SEED [--stored]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

from tests.differential.choices import Choices
from tests.differential.compare import Judge, drop_lines
from tests.differential.generate import generate
from tests.differential.program import Program

Fails = Callable[[Program], bool]


def with_algorithm(program: Program, lines: list[str]) -> Program:
    """The same program with another algorithm."""
    other = program.with_schedule(program.schedule)
    other.algorithm = lines
    return other


def _simpler(line: str) -> Iterator[str]:
    """The line with one expression replaced by a part of it, large parts first."""
    tree = ast.parse(line)
    statement = tree.body[0]
    if not isinstance(statement, ast.Assign):
        return
    nodes = [n for n in ast.walk(statement.value) if isinstance(n, ast.Call | ast.BinOp)]
    for node in nodes:
        if isinstance(node, ast.BinOp):
            parts: list[ast.expr] = [node.left, node.right]
        else:
            parts = [a for a in node.args if not isinstance(a, ast.Constant)]
        for part in parts:
            yield ast.unparse(_Replace(node, part).visit(ast.parse(line)))


class _Replace(ast.NodeTransformer):
    """Replaces the node that reads like `old` by `new`."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old = ast.dump(old)
        self.new = new

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self.old:
            return self.new
        return super().generic_visit(node)


def _shrink_lines(program: Program, fails: Fails) -> Program:
    """Leaves out definitions and declarations."""
    i = len(program.algorithm) - 1
    while i > 0:
        lines = program.algorithm
        candidate = with_algorithm(program, lines[:i] + lines[i + 1 :])
        if fails(candidate):
            program = candidate
        i -= 1
    return program


def _shrink_expressions(program: Program, fails: Fails) -> Program:
    i = 0
    while i < len(program.algorithm):
        for line in _simpler(program.algorithm[i]):
            lines = list(program.algorithm)
            lines[i] = line
            candidate = with_algorithm(program, lines)
            if fails(candidate):
                program = candidate
                break
        else:
            i += 1
    return program


def reduce_program(program: Program, fails: Fails) -> Program:
    """The smallest program found that still fails."""
    program = drop_lines(program, fails)
    program = _shrink_lines(program, fails)
    program = _shrink_expressions(program, fails)
    program = _shrink_lines(program, fails)
    return drop_lines(program, fails)


def main() -> int:
    """Reduces the program of a seed and prints its script."""
    program = generate(Choices.from_seed(int(sys.argv[1])), "--stored" in sys.argv)
    with Judge() as judge:
        first = judge.judge(program)
        print(first.kind, first.message, file=sys.stderr)
        if first.kind != "differ":
            return 0
        # An error must stay the same error; a difference may change its numbers.
        marker = (
            first.message.strip().splitlines()[-1].split(":")[0]
            if "fails" in first.message
            else "against"
        )

        def fails(candidate: Program) -> bool:
            verdict = judge.judge(candidate)
            return verdict.kind == "differ" and marker in verdict.message

        small = reduce_program(program, fails)
        print("# " + judge.judge(small).message.replace("\n", "\n# "))
        print(small.script())
    return 1


if __name__ == "__main__":
    sys.exit(main())
