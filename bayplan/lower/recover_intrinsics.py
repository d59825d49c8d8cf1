"""Finds averages and high products in what was written with a wider type.

`u8((u16(a) + b + 1) / 2)` on vectors is one instruction of most machines, but only as long as its
operands stay narrow; widened it is eight. The same holds for the upper half of a 16-bit product.
"""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.exprs import Add, Broadcast, Call, Cast, Const, Div, Expr, Load, Mul
from bayplan.ir.stmts import Stmt
from bayplan.ir.types import Type
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering


def recover_intrinsics(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with averages and high products of narrow vectors as intrinsics.

    Order: before eliminate_common_subexpressions, which would name the widened operands.
    """
    return _Recover()(stmt)


class _Recover(Rewriter):
    def rewrite_Load(self, node: Load) -> Expr:
        # Indices hold none, and there are many.
        return node if node.type.lane_count == 1 else self.rebuild(node)  # type: ignore[return-value]

    def rewrite_Cast(self, node: Cast) -> Expr:
        value = self(node.value)
        if type(value) is Cast and value.value.type is node.type and _widens(value):
            return value.value
        return node if value is node.value else Cast(node.type, value)

    def rewrite_Div(self, node: Div) -> Expr:
        a, b = self(node.a), self(node.b)
        if a.type.lane_count > 1 and a.type.kind in ("int", "uint"):
            divisor = _constant(b)
            if divisor is not None and divisor > 1 and divisor & (divisor - 1) == 0:
                found = _narrow_shift(a, divisor.bit_length() - 1)
                if found is not None:
                    return found
        return node if a is node.a and b is node.b else Div(a, b)

    def rewrite_Call(self, node: Call) -> Expr:
        result = self.rebuild(node)
        if isinstance(result, Call) and result.is_intrinsic("shift_right"):
            amount = _constant(result.args[1])
            if result.type.lane_count > 1 and amount is not None:
                found = _narrow_shift(result.args[0], amount)
                if found is not None:
                    return found
        return result  # type: ignore[return-value]


def _constant(e: Expr) -> int | None:
    while type(e) is Broadcast:
        e = e.value
    return int(e.value) if type(e) is Const and e.type.kind != "float" else None


def _widens(e: Cast) -> bool:
    """Whether the conversion keeps every value."""
    source, t = e.value.type, e.type
    return (
        t.kind in ("int", "uint")
        and source.kind in ("int", "uint")
        and source.width >= 8
        and t.can_represent(source)
    )


def _narrow_shift(value: Expr, amount: int) -> Expr | None:
    """value >> amount computed in the narrow type of its operands, or None."""
    if amount == 1:
        return _average(value)
    if amount == 16 and type(value) is Mul:
        return _high_product(value)
    return None


def _narrowed(e: Expr, t: Type | None) -> tuple[Expr, Type] | None:
    """The operand in the narrow type that it comes from; constants take the type `t`."""
    if type(e) is Cast and _widens(e) and e.value.type.width in (8, 16):
        return (e.value, e.value.type) if t is None or e.value.type is t else None
    value = _constant(e)
    if value is not None and t is not None and t.can_represent(value):
        return build.const(t, value), t
    return None


def _terms(e: Expr) -> list[Expr]:
    if type(e) is Add:
        return [*_terms(e.a), *_terms(e.b)] if type(e.a) is Add or type(e.b) is Add else [e.a, e.b]
    return [e]


def _average(total: Expr) -> Expr | None:
    """(widen(a) + widen(b) + 1) / 2 of unsigned operands."""
    if type(total) is not Add:
        return None
    terms = _terms(total)
    if len(terms) > 3:
        return None
    rounding = False
    if len(terms) == 3:
        ones = [x for x in terms if _constant(x) == 1]
        if not ones:
            return None
        terms.remove(ones[0])
        rounding = True
    operands = _operands(terms)
    if operands is None:
        return None
    a, b, t = operands
    if t.kind != "uint" or total.type.width < 2 * t.width:
        return None
    name = "rounding_halving_add" if rounding else "halving_add"
    return Cast(total.type, build.intrinsic(t, name, a, b))


def _operands(pair: list[Expr]) -> tuple[Expr, Expr, Type] | None:
    first = _narrowed(pair[0], None) or _narrowed(pair[1], None)
    if first is None:
        return None
    t = first[1]
    a, b = _narrowed(pair[0], t), _narrowed(pair[1], t)
    return None if a is None or b is None else (a[0], b[0], t)


def _high_product(product: Mul) -> Expr | None:
    operands = _operands([product.a, product.b])
    if operands is None:
        return None
    a, b, t = operands
    if t.width != 16 or product.type.width < 32:
        return None
    sixteen = build.const(Type("uint", 16, t.lane_count), 16)
    return Cast(product.type, build.intrinsic(t, "mul_shift_right", a, b, sixteen))
