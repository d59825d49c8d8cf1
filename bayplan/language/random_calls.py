"""Numbers that look random but depend only on where they are computed and on a seed.

A call is a marker until a Func is defined with it; `finish_random` then turns it into integer
arithmetic over the call's number, its seed and the definition's free variables. The arithmetic is
a quadratic that permutes the 32-bit integers, applied once per term (a polynomial permutes
integers modulo a power of two when its linear coefficient is odd and its quadratic one even).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.ir import exprs as ir
from bayplan.ir.build import const
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.types import FLOAT32, Type, UInt
from bayplan.ir.walk import Rewriter
from bayplan.language import operations as op
from bayplan.language.casts import reinterpret
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import pure_intrinsic
from bayplan.language.promotion import cast_node

_U32: Final = UInt(32)

# The coefficients of the permutation that Halide programs get their numbers from.
_CONSTANT: Final = 576942909
_LINEAR: Final = 1121052041
_QUADRATIC: Final = 1040796640

_calls = 0


def _marker(t: Type, name: str, seed: Any) -> Expr:
    global _calls
    number = const(UInt(32).with_code("int"), _calls)
    _calls += 1
    if seed is None:
        return Expr(pure_intrinsic(t, name, number))
    e = as_node(seed)
    if not (e.type.is_int_or_uint() and e.type.width == 32):
        raise TypeMismatchError(
            f"the seed of {name} must be an int32 or uint32, but {e} has type {e.type}"
        )
    return Expr(pure_intrinsic(t, name, e, number))


def random_float(seed: Any = None) -> Expr:
    """A float32 in [0, 1), another one at each point and for each seed."""
    return _marker(FLOAT32, "random_float", seed)


def random_uint(seed: Any = None) -> Expr:
    """A uint32 of any value, another one at each point and for each seed."""
    return _marker(_U32, "random_uint", seed)


def random_int(seed: Any = None) -> Expr:
    """An int32 of any value, another one at each point and for each seed."""
    return reinterpret(_U32.with_code("int"), random_uint(seed))


def _permuted(x: ir.Expr) -> ir.Expr:
    if type(x) is ir.Const:
        n = int(x.value)
        return const(_U32, (_QUADRATIC * n + _LINEAR) * n + _CONSTANT)
    slope = ir.Add(ir.Mul(const(_U32, _QUADRATIC), x), const(_U32, _LINEAR))
    return ir.Add(ir.Mul(slope, x), const(_U32, _CONSTANT))


def _mixed(terms: Sequence[ir.Expr]) -> ir.Expr:
    """One uint32 that depends on all terms."""
    result = _permuted(cast_node(_U32, terms[0]))
    for term in terms[1:]:
        term = cast_node(_U32, term)
        if type(result) is ir.Const and type(term) is ir.Const:
            result = _permuted(const(_U32, result.value + term.value))
        else:
            result = _permuted(ir.Add(result, term))
    # The low bits repeat early, so the high ones are mixed in.
    return op.bitwise_xor(result, op.shift_right(result, const(_U32, 16)))


def _unit_float(number: ir.Expr) -> ir.Expr:
    """A float32 in [0, 1) of the upper 23 bits: mantissa of a float in [1, 2), less one."""
    mantissa = op.shift_right(number, const(_U32, 9))
    bits = op.bitwise_or(const(_U32, 127 << 23), mantissa)
    value = ir.Sub(reinterpret(FLOAT32, bits).node, const(FLOAT32, 1.0))
    # It lies there anyway; the clamp says so to the analysis of bounds.
    return ir.Max(ir.Min(value, const(FLOAT32, 1.0)), const(FLOAT32, 0.0))


class _FinishRandom(Rewriter):
    def __init__(self, free_variables: Sequence[ir.Expr], definition: int) -> None:
        super().__init__()
        tag = const(_U32.with_code("int"), definition)
        # The tag first and the innermost variable last, which keeps most terms loop-invariant.
        self.terms = [tag, *reversed(free_variables)]

    def rewrite_Call(self, node: ir.Call) -> Any:
        if node.kind is not ir.CallKind.PURE_INTRINSIC or not node.name.startswith("random_"):
            return self.rebuild(node)
        number = _mixed([*[self(arg) for arg in node.args], *self.terms])
        return _unit_float(number) if node.name == "random_float" else number


def has_random(node: ir.Expr) -> bool:
    """Whether the expression has calls that `finish_random` is to be asked for."""
    from bayplan.ir.walk import iterate

    return any(type(n) is ir.Call and n.name.startswith("random_") for n in iterate(node))


def finish_random(node: ir.Expr, free_variables: Sequence[ir.Expr], definition: int) -> ir.Expr:
    """The expression with its random numbers as arithmetic over the definition's variables.

    Args:
        node: a value of a definition.
        free_variables: the int32 Variables of the definition, pure ones first, innermost first.
        definition: a number that no other definition of the process has.
    """
    return _FinishRandom(free_variables, definition)(node) if has_random(node) else node
