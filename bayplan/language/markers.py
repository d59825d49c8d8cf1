"""Values with something said about them: how likely, how exact, that they do not exist."""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.types import Type
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import pure_intrinsic


def likely(value: Any) -> Expr:
    """The value; as a condition, or in a min or max, it nearly always decides."""
    e = as_node(value)
    return Expr(pure_intrinsic(e.type, "likely", e))


def likely_if_innermost(value: Any) -> Expr:
    """As `likely`, but only where that makes an innermost loop quicker."""
    e = as_node(value)
    return Expr(pure_intrinsic(e.type, "likely_if_innermost", e))


def strict_float(value: Any) -> Expr:
    """The value, whose float operations keep the order and the rounding that they have."""
    e = as_node(value)
    return Expr(pure_intrinsic(e.type, "strict_float", e))


def undef(t: Type) -> Expr:
    """No value: storing it is left out."""
    return Expr(ir.Call(t, "undef", (), ir.CallKind.PURE_INTRINSIC))


def memoize_tag(result: Any, *key: Any) -> Expr:
    """The value; results are never kept between calls here, so the key does not matter."""
    for value in key:
        as_node(value)
    return Expr(as_node(result))
