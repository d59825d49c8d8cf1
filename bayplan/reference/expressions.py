"""Evaluates expression nodes to numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.errors import InternalError
from bayplan.language.parameter import Parameter
from bayplan.reference import integers

Array = Any
CallFunc = Callable[[ir.Call, list[Array]], Array]

_ARITHMETIC: dict[type, Callable[[Any, Array, Array], Array]] = {
    ir.Add: lambda np, a, b: a + b,
    ir.Sub: lambda np, a, b: a - b,
    ir.Mul: lambda np, a, b: a * b,
    ir.Min: lambda np, a, b: np.minimum(a, b),
    ir.Max: lambda np, a, b: np.maximum(a, b),
    ir.EQ: lambda np, a, b: a == b,
    ir.NE: lambda np, a, b: a != b,
    ir.LT: lambda np, a, b: a < b,
    ir.LE: lambda np, a, b: a <= b,
    ir.GT: lambda np, a, b: a > b,
    ir.GE: lambda np, a, b: a >= b,
    ir.And: lambda np, a, b: a & b,
    ir.Or: lambda np, a, b: a | b,
}
_TRANSPARENT = frozenset(
    ["likely", "likely_if_innermost", "strict_float", "promise_clamped", "unsafe_promise_clamped"]
)
# Functions of floats that numpy calls otherwise.
_MATHS = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "round": "rint",
    "pow": "power", "is_nan": "isnan", "is_inf": "isinf", "is_finite": "isfinite",
}  # fmt: skip


class Values:
    """Values of expressions where the variables have given values, each node once.

    Args:
        variables: arrays by name, which broadcast together.
        call_func: gives a Func's values at coordinates.
    """

    def __init__(self, variables: Mapping[str, Array], call_func: CallFunc) -> None:
        self.variables = dict(variables)
        self.call_func = call_func
        self.memo: dict[ir.Expr, Array] = {}

    def __call__(self, e: ir.Expr) -> Array:
        """The array of values of an expression."""
        found = self.memo.get(e)
        if found is None:
            found = self._compute(e)
            self.memo[e] = found
        return found

    def _compute(self, e: ir.Expr) -> Array:
        import numpy as np

        if isinstance(e, ir.Const):
            return np.asarray(e.value, integers.dtype_of(e.type))
        if isinstance(e, ir.Variable):
            return self._variable(e)
        if isinstance(e, ir.Cast):
            return integers.convert(self(e.value), e.type)
        if isinstance(e, ir.Div | ir.Mod):
            return self._quotient(e, self(e.a), self(e.b))
        if isinstance(e, ir.Binary):
            return np.asarray(_ARITHMETIC[type(e)](np, self(e.a), self(e.b)))
        if isinstance(e, ir.Not):
            return ~self(e.value)
        if isinstance(e, ir.Select):
            return np.where(self(e.condition), self(e.true_value), self(e.false_value))
        if isinstance(e, ir.Let):
            inner = Values({**self.variables, e.name: self(e.value)}, self.call_func)
            return inner(e.body)
        if isinstance(e, ir.Call):
            return self._call(e)
        raise InternalError(f"the evaluator does not know {type(e).__name__}")

    def _variable(self, e: ir.Variable) -> Array:
        import numpy as np

        if e.name in self.variables:
            return self.variables[e.name]
        source = e.source
        if not isinstance(source, Parameter):
            raise InternalError(f"the variable {e.name} has no value")
        if not source.is_buffer:
            if source.value is None:
                raise ValueError(f"the parameter {source.name} is not set")
            return np.asarray(source.value, integers.dtype_of(e.type))
        if source.buffer is None:
            raise ValueError(f"the input {source.name} is not set")
        field, dim = e.name.rsplit(".", 2)[1:]
        return np.asarray(int(getattr(source.buffer.dim(int(dim)), field)()), np.int32)

    def _quotient(self, e: ir.Binary, a: Array, b: Array) -> Array:
        import numpy as np

        if e.type.kind == "float":
            return a / b if isinstance(e, ir.Div) else a - b * np.floor(a / b)
        return integers.divide(a, b) if isinstance(e, ir.Div) else integers.remainder(a, b)

    def _call(self, e: ir.Call) -> Array:
        if e.kind is ir.CallKind.FUNC:
            return self.call_func(e, [self(a) for a in e.args])
        if e.kind is ir.CallKind.IMAGE:
            return load_image(e, [self(a) for a in e.args])
        if e.kind in (ir.CallKind.EXTERN, ir.CallKind.PURE_EXTERN):
            return self._maths(e)
        return self._intrinsic(e)

    def _maths(self, e: ir.Call) -> Array:
        import numpy as np

        name = e.name.removeprefix("fast_")
        args = [self(a) for a in e.args]
        if name == "inverse":
            return np.asarray(1 / args[0], args[0].dtype)
        if name == "inverse_sqrt":
            return np.asarray(1 / np.sqrt(args[0]), args[0].dtype)
        if name == "erf":
            import math

            return np.vectorize(math.erf, otypes=[args[0].dtype])(args[0])
        if not hasattr(np, _MATHS.get(name, name)):
            raise InternalError(f"the evaluator does not know the function {e.name}")
        return np.asarray(getattr(np, _MATHS.get(name, name))(*args))

    def _intrinsic(self, e: ir.Call) -> Array:
        import numpy as np

        name, t = e.name, e.type
        if name in _TRANSPARENT or name == "print":
            return self(e.args[0])
        if name in ("print_when", "return_second", "require"):
            return self(e.args[1])
        args = [self(a) for a in e.args]
        if name == "if_then_else":
            other = args[2] if len(args) > 2 else np.zeros((), args[1].dtype)
            return np.where(args[0], args[1], other)
        if name == "reinterpret":
            return np.ascontiguousarray(args[0]).view(integers.dtype_of(t)).reshape(args[0].shape)
        if t.kind == "float":
            return self._float_intrinsic(name, args)
        if name in ("popcount", "count_leading_zeros", "count_trailing_zeros"):
            return integers.bit_count(name, args[0], e.args[0].type)
        if name == "lerp":
            return integers.lerp(args[0], args[1], args[2], t, e.args[2].type)
        if name == "saturating_cast" and args[0].dtype.kind == "f":
            whole = np.frompyfunc(int, 1, 1)(np.nan_to_num(args[0]))
            return integers.saturate(whole, t)
        if name in ("div_round_to_zero", "mod_round_to_zero"):
            a, b = (integers.exact(arg) for arg in args)
            return _round_to_zero(name, a, b, t)
        wrapping = integers.WRAPPING.get(name)
        if wrapping is not None:
            return integers.wrap(wrapping(*[integers.exact(a) for a in args]), t)
        saturating = integers.SATURATING.get(name)
        if saturating is not None:
            return integers.saturate(saturating(*[integers.exact(a) for a in args]), t)
        raise InternalError(f"the evaluator does not know the intrinsic {name}")

    def _float_intrinsic(self, name: str, args: list[Array]) -> Array:
        if name == "abs":
            return abs(args[0])
        if name == "absd":
            return abs(args[0] - args[1])
        if name == "lerp":
            zero, one, weight = args
            if weight.dtype.kind == "u":
                weight = weight.astype(zero.dtype) / (2 ** (8 * weight.dtype.itemsize) - 1)
            return zero * (1 - weight) + one * weight
        if name == "fma":
            return args[0] * args[1] + args[2]
        raise InternalError(f"the evaluator does not know {name} on floats")


def _round_to_zero(name: str, a: Array, b: Array, t: Any) -> Array:
    quotient = abs(a) // abs(b)
    quotient = quotient * (1 - 2 * ((a < 0) != (b < 0)))
    return integers.wrap(quotient if name.startswith("div") else a - quotient * b, t)


def load_image(e: ir.Call, indices: list[Array]) -> Array:
    """Elements of an input at coordinates, which must lie inside it."""
    import numpy as np

    buffer = e.target.buffer if isinstance(e.target, Parameter) else e.target
    if buffer is None:
        raise ValueError(f"the input {e.name} is not set")
    array = np.asarray(buffer)
    mins = [int(buffer.dim(d).min()) for d in range(array.ndim)]
    return gather(array, mins, indices, e.name)


def gather(array: Array, mins: list[int], indices: list[Array], name: str) -> Array:
    """Elements of `array`, whose axes are the dimensions reversed and begin at `mins`.

    A branch of a select that is not taken may point outside, so indices are clamped; a value
    that is taken from outside cannot happen in a program that is right.
    """
    import numpy as np

    positions = []
    for d, index in enumerate(indices):
        extent = array.shape[array.ndim - 1 - d]
        if extent == 0:
            raise ValueError(f"{name} is empty in dimension {d}")
        positions.append(np.clip(index.astype(np.int64) - mins[d], 0, extent - 1))
    return np.asarray(array[tuple(reversed(positions))])
