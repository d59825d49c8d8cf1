"""The expression a user writes, its operators, and what converts to it by itself."""

from __future__ import annotations

import sys
from typing import Any, Final

from bayplan.ir import exprs as ir
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.source import _PACKAGE
from bayplan.ir.types import BOOL, FLOAT32, INT32, INT64, Type
from bayplan.language import operations as op
from bayplan.language.promotion import constant, literal, match_types

__all__ = [
    "Expr",
    "Operators",
    "as_expr",
    "as_node",
    "as_nodes",
    "constant",
    "is_expr_like",
    "match_types",
]

_INT32_MIN: Final = -(1 << 31)
_INT32_MAX: Final = (1 << 31) - 1


class Operators:
    """Gives arithmetic, comparisons and bit operations to what can stand in an expression.

    A subclass has a property or attribute `node`, the ir node it stands for.
    """

    __slots__ = ()

    # numpy scalars and arrays on the left leave the operation to us.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    @property
    def node(self) -> ir.Expr:
        """The ir node this stands for."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return _operate(op.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _operate(op.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _operate(op.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _operate(op.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _operate(op.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _operate(op.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _operate(op.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _operate(op.div, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _operate(op.floor_div, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _operate(op.floor_div, other, self)

    def __mod__(self, other: Any) -> Any:
        return _operate(op.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _operate(op.mod, other, self)

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)

    def __lshift__(self, other: Any) -> Any:
        return _shift(op.shift_left, op.shift_right, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _operate(op.shift_left, other, self)

    def __rshift__(self, other: Any) -> Any:
        return _shift(op.shift_right, op.shift_left, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _operate(op.shift_right, other, self)

    def __and__(self, other: Any) -> Any:
        return _operate(op.bitwise_and, self, other)

    def __rand__(self, other: Any) -> Any:
        return _operate(op.bitwise_and, other, self)

    def __or__(self, other: Any) -> Any:
        return _operate(op.bitwise_or, self, other)

    def __ror__(self, other: Any) -> Any:
        return _operate(op.bitwise_or, other, self)

    def __xor__(self, other: Any) -> Any:
        return _operate(op.bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _operate(op.bitwise_xor, other, self)

    def __lt__(self, other: Any) -> Any:
        return _operate(op.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _operate(op.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _operate(op.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _operate(op.ge, self, other)

    def __eq__(self, other: Any) -> Any:
        return _operate(op.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return _operate(op.ne, self, other)

    def __neg__(self) -> Expr:
        return Expr(op.negate(self.node))

    def __pos__(self) -> Expr:
        return Expr(self.node)

    def __invert__(self) -> Expr:
        return Expr(op.bitwise_not(self.node))

    def __bool__(self) -> bool:
        raise ValueError(
            f"the Expr ({self.node}) has no truth value before the program runs; "
            "where `and`, `or` or `not` was meant, use `&`, `|` or `logical_not`"
        )

    def logical_not(self) -> Expr:
        """The contrary of a bool."""
        return Expr(op.logical_not(self.node))


class Expr(Operators):
    """A value to be computed. Made of Vars, Params, constants and uses of Funcs and buffers.

    Attributes:
        node: the immutable ir node; None for `Expr()`, which is undefined.
    """

    __slots__ = ("node",)

    node: ir.Expr  # type: ignore[assignment]

    def __init__(self, value: Any = None) -> None:
        self.node = None if value is None else as_node(value, strings=True)  # type: ignore[assignment]

    def defined(self) -> bool:
        """Whether this is an expression at all."""
        return self.node is not None

    def type(self) -> Type:
        """The element type of the value."""
        return _defined(self.node).type

    def __str__(self) -> str:
        return "(undefined)" if self.node is None else str(self.node)

    def __repr__(self) -> str:
        if self.node is None:
            return "<undefined bayplan.Expr>"
        return f"<bayplan.Expr of type {self.node.type}: {self.node}>"


def _defined(node: ir.Expr | None) -> ir.Expr:
    if node is None:
        raise DefinitionError("an undefined Expr is used in an expression")
    return node


def _plain_number(value: Any) -> bool | int | float | None:
    """A Python number for numpy scalars and other number-like objects, else None."""
    if hasattr(value, "__array_interface__") or hasattr(value, "dtype"):
        if getattr(value, "ndim", 1) != 0:
            return None
        plain = value.item()
        return plain if isinstance(plain, bool | int | float) else None
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if hasattr(value, "__float__") and not isinstance(value, str):
        return float(value)
    return None


def _operand(value: Any) -> ir.Expr | int | None:
    """A node, or an int to take the other operand's type, or None where it is neither."""
    if isinstance(value, Operators):
        return _defined(value.node)
    cls = type(value)
    if cls is int:
        return value if -(1 << 63) <= value < 1 << 63 else _too_large(value)
    if cls is float:
        return float_constant(value)
    if isinstance(value, ir.Expr):
        return value
    if isinstance(value, str) or value is None:
        return None
    number = _plain_number(value)
    if number is None:
        return None
    return _operand(int(number) if isinstance(number, bool) else number)


def _operate(build: Any, a: Any, b: Any) -> Any:
    """The Expr of a binary operation; NotImplemented where an operand cannot stand in one."""
    x = _operand(a)
    y = _operand(b)
    if x is None or y is None:
        return NotImplemented
    if type(y) is int:
        y = _literal_or_expr(y, x)
    elif type(x) is int:
        x = _literal_or_expr(x, y)
    return Expr(build(x, y))


def _literal_or_expr(value: int, other: Any) -> ir.Expr:
    if _INT32_MIN <= value <= _INT32_MAX:
        return literal(value, other.type)
    return _integer(value)


def _power(a: Any, b: Any) -> Any:
    """a ** b; a number on either side keeps its own type."""
    if not (is_expr_like(a) and is_expr_like(b)):
        return NotImplemented
    return Expr(op.power(as_node(a), as_node(b)))


def _shift(build: Any, opposite: Any, a: Operators, b: Any) -> Any:
    """A shift; by a negative literal it is the opposite shift."""
    y = _operand(b)
    if y is None:
        return NotImplemented
    x = _defined(a.node)
    if type(y) is not int:
        return Expr(build(x, y))
    return Expr(op.shift_by_literal(build, opposite, x, y))


def _integer(value: int) -> ir.Expr:
    if _INT32_MIN <= value <= _INT32_MAX:
        return ir.Const(INT32, value)
    if -(1 << 63) <= value < 1 << 63:
        return ir.Const(INT64, value)
    return _too_large(value)


def _too_large(value: int) -> Any:
    raise TypeMismatchError(
        f"the integer constant {value} does not fit int64",
        hint="a uint64 constant is written u64(value)",
    )


def float_constant(value: float) -> ir.Expr:
    """The float32 constant for a Python float, with a warning where that loses digits."""
    rounded = FLOAT32.wrap(value)
    if rounded != value and value == value:
        _warn(
            f"{value!r} has no exact float32, so digits are lost; write f32({value!r}) where "
            f"that is meant, or f64({value!r})"
        )
    return ir.Const(FLOAT32, rounded)


def _warn(message: str) -> None:
    import warnings

    depth = 2
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(message, RuntimeWarning, stacklevel=depth)


def as_node(value: Any, like_type: Type | None = None, strings: bool = False) -> ir.Expr:
    """The ir node of anything that converts to an expression by itself.

    Args:
        value: an Expr, Var, RVar, one-dimensional RDom, Param, use of a Func, a Python or numpy
            number. An int becomes int32 (int64 where it is too large), a float float32.
        like_type: the type an integer literal takes instead; refused where its value changes.
        strings: whether a str is a string constant.
    """
    if isinstance(value, Operators):
        return _defined(value.node)
    if isinstance(value, ir.Expr):
        return value
    if isinstance(value, str) or value is None:
        if strings and value is not None:
            return ir.StringImm(value)
        raise TypeError(f"expected an Expr, not {type(value).__name__}: {value!r}")
    number = value if isinstance(value, bool | int | float) else _plain_number(value)
    if number is None:
        raise TypeError(f"expected an Expr, not {type(value).__name__}: {value!r}")
    if isinstance(number, bool):
        return ir.Const(BOOL, int(number)) if like_type is None else literal(number, like_type)
    if isinstance(number, int):
        return _integer(number) if like_type is None else literal(number, like_type)
    return float_constant(number)


def as_nodes(values: Any) -> list[ir.Expr]:
    """The nodes of a sequence of values that convert to expressions."""
    return [as_node(value) for value in values]


def as_expr(value: Any) -> Expr:
    """The Expr of anything that converts to one by itself."""
    return value if type(value) is Expr else Expr(as_node(value))


def is_expr_like(value: Any) -> bool:
    """Whether `value` converts to an expression by itself."""
    if isinstance(value, Operators | ir.Expr | bool | int | float):
        return True
    if value is None or isinstance(value, str | list | tuple):
        return False
    return _plain_number(value) is not None
