"""Recognises idioms of narrow integers that targets have instructions for.

Averages and high halves of products are written with a detour over a wider type. As operations of
their own they need no wider vectors.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir import build
from bayplan.ir.exprs import Add, Call, Cast, Const, Div, Expr, Mul
from bayplan.ir.stmts import Stmt
from bayplan.ir.types import Type
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering


def find_intrinsics(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with `(wide(a) + wide(b) + 1) / 2` and the like as intrinsics.

    Order: after all bounds analysis, which knows the plain form better; before vectorize_loops.
    """
    return _Find()(stmt)


class _Find(Rewriter):
    def rewrite_Cast(self, node: Cast) -> Expr:
        t = node.type
        value = self(node.value)
        if t.is_int_or_uint() and 8 <= t.width <= 16 and value.type.is_int_or_uint():
            found = _average(t, value)
            if found is None:
                found = _high_half(t, value)
            if found is not None:
                return found
        return node if value is node.value else build.cast(t, value)


def _average(t: Type, e: Expr) -> Any:
    """The average of two values of type `t`, rounded down or up; None for everything else."""
    amount = _shifted_by(e)
    if amount is None or amount[1] != 1:
        return None
    wide = amount[0].type
    if wide.width < 2 * t.width:
        return None
    terms, constant = _terms(amount[0])
    if len(terms) != 2 or constant not in (0, 1):
        return None
    a, b = _narrowed(t, terms[0]), _narrowed(t, terms[1])
    if a is None or b is None:
        return None
    return build.intrinsic(t, "rounding_halving_add" if constant else "halving_add", a, b)


def _high_half(t: Type, e: Expr) -> Any:
    """The upper 16 bits of a product of two values of type `t`."""
    amount = _shifted_by(e)
    if amount is None or amount[1] != 16 or t.width != 16 or type(amount[0]) is not Mul:
        return None
    if amount[0].type.width < 32:
        return None
    a, b = _narrowed(t, amount[0].a), _narrowed(t, amount[0].b)
    if a is None or b is None:
        return None
    return build.intrinsic(t, "mul_shift_right", a, b, build.const(t.with_code("uint"), 16))


def _shifted_by(e: Expr) -> tuple[Expr, int] | None:
    """What is divided by a power of two, and which power."""
    if type(e) is Div:
        divisor = build.constant_value(e.b)
        if isinstance(divisor, int) and divisor > 1 and divisor & (divisor - 1) == 0:
            return e.a, divisor.bit_length() - 1
    if type(e) is Call and e.is_intrinsic("shift_right"):
        shift = build.constant_value(e.args[1])
        if isinstance(shift, int) and shift > 0:
            return e.args[0], shift
    return None


def _terms(e: Expr) -> tuple[list[Expr], int]:
    """The terms of a sum and the sum of its constants."""
    if type(e) is Add:
        terms, constant = _terms(e.a)
        more, other = _terms(e.b)
        return terms + more, constant + other
    if type(e) is Const:
        return [], int(e.value)
    return [e], 0


def _narrowed(t: Type, e: Expr) -> Expr | None:
    """The value as one of type `t`, where it is one that was widened."""
    if type(e) is Cast and t.can_represent(e.value.type):
        return build.cast(t, e.value)
    if type(e) is Const and t.can_represent(e.value):
        return Const(t, e.value)
    return None
