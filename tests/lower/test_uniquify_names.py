"""After the pass each let and loop has a name of its own, and means the same as before."""

from __future__ import annotations

from bayplan.ir.build import add, block, var
from bayplan.ir.exprs import Let
from bayplan.ir.memory import ForKind
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Evaluate, LetStmt, Stmt
from bayplan.lower.uniquify_names import uniquify_names
from tests.lower.build_statements import loop, lowering


def uniquified(stmt: Stmt) -> str:
    return str(uniquify_names(stmt, lowering()))


def test_a_name_defined_again_further_in() -> None:
    with compilation():
        inner = LetStmt("x", add(var("x"), 1), Evaluate(var("x")))
        text = uniquified(LetStmt("x", var("n"), block([inner, Evaluate(var("x"))])))
    lines = [line.strip() for line in text.split("\n") if line.strip() not in ("", "{", "}")]
    assert lines == ["let x = n", "let x$1 = x + 1", "evaluate x$1", "evaluate x"]


def test_loops_of_equal_name_side_by_side() -> None:
    with compilation():
        one = loop("i", 0, 10, ForKind.Serial, Evaluate(var("i")))
        two = loop("i", 0, 20, ForKind.Serial, Evaluate(var("i")))
        text = uniquified(block([one, two]))
    assert "for (i, 0, 10)" in text
    assert "for (i$1, 0, 20)" in text


def test_a_name_from_outside_is_not_taken() -> None:
    with compilation():
        stmt = block([Evaluate(var("n")), LetStmt("n", add(var("m"), 1), Evaluate(var("n")))])
        free = LetStmt("m", add(var("k"), 1), Evaluate(var("m")))
        text = uniquified(block([Evaluate(var("k")), stmt, free]))
    assert text.count("let n = ") + text.count("let n$1 = ") == 1


def test_lets_in_expressions_are_expanded() -> None:
    with compilation():
        value = Let("t", add(var("a"), 1), add(var("t"), var("t")))
        result = uniquify_names(Evaluate(value), lowering())
        once = add(var("a"), 1)
        assert result is Evaluate(add(once, once))
