"""The number that a scalar expression is once its variables are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bayplan.ir.build import euclidean_div, floor_mod
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    StringImm,
    Sub,
    Variable,
)

Number = int | float


ASK: Final = "query_extern()"
"""Among the values: what asks an external function for its regions, where that may be called.

It is given the function's record and, for each argument, (min, extent) of each dimension or a
number, and gives (min, extent) of all dimensions in order.
"""

SAMPLES: Final = "samples()"
"""Among the values: how many iterations of a loop a search tries at most.

For estimates alone: the answer can be too small.
"""


class Unknown(Exception):
    """The value depends on something that is not known before the call: data, or a missing name."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def _div(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        if b == 0:
            raise Unknown("division by zero")
        return a / b
    return euclidean_div(a, b)


def _mod(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        raise Unknown("remainder of floats")
    return floor_mod(a, b)


OPERATIONS: Final[dict[type[Expr], Callable[[Any, Any], Any]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _div,
    Mod: _mod,
    Min: min,
    Max: max,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}
"""What binary nodes compute of two numbers, before it is wrapped to the width of their type."""

_INTRINSICS: Final[dict[str, Callable[..., Any]]] = {
    "likely": lambda a: a,
    "likely_if_innermost": lambda a: a,
    "strict_float": lambda a: a,
    "promise_clamped": lambda a, low, high: a,
    "unsafe_promise_clamped": lambda a, low, high: a,
    "abs": abs,
    "absd": lambda a, b: abs(a - b),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "shift_left": lambda a, b: a << b if b >= 0 else a >> -b,
    "shift_right": lambda a, b: a >> b if b >= 0 else a << -b,
    "floor": lambda a: float(int(a // 1)),
    "ceil": lambda a: float(-int(-a // 1)),
    "div_round_to_zero": lambda a, b: int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1),
    "return_second": lambda a, b: b,
}


class _Evaluator:
    """Evaluates with one set of values; remembers what it found for each node."""

    def __init__(self, values: Mapping[str, Number]) -> None:
        self.values = values
        self.memo: dict[Expr, Number] = {}

    def __call__(self, e: Expr) -> Number:
        found = self.memo.get(e)
        if found is None:
            found = self._compute(e)
            self.memo[e] = found
        return found

    def _compute(self, e: Expr) -> Number:
        if type(e) is Const:
            return e.value
        if type(e) is Variable:
            if e.name not in self.values:
                raise Unknown(e.name)
            return self.values[e.name]
        if isinstance(e, Binary):
            return self._binary(e)
        if type(e) is Select:
            return self(e.true_value if self(e.condition) else e.false_value)
        if type(e) is Cast:
            return e.type.wrap(self(e.value))
        if type(e) is Not:
            return int(not self(e.value))
        if type(e) is Let:
            return _Evaluator({**self.values, e.name: self(e.value)})(e.body)
        if type(e) is Call:
            return self._call(e)
        raise Unknown(type(e).__name__)

    def _binary(self, e: Binary) -> Number:
        if type(e) is And:
            return self._short(e, stop=0)
        if type(e) is Or:
            return self._short(e, stop=1)
        value = OPERATIONS[type(e)](self(e.a), self(e.b))
        # int32 and int64 must not overflow, so their sums are left exact.
        exact = e.type.kind == "int" and e.type.width >= 32
        return value if exact else e.type.wrap(value)

    def _short(self, e: Binary, stop: int) -> int:
        """And and Or are known when one side decides, even if the other is unknown."""
        try:
            if bool(self(e.a)) == bool(stop):
                return stop
        except Unknown:
            if bool(self(e.b)) == bool(stop):
                return stop
            raise
        return int(bool(self(e.b)))

    def _call(self, e: Call) -> Number:
        if e.is_intrinsic("if_then_else") and len(e.args) == 3:
            return self(e.args[1] if self(e.args[0]) else e.args[2])
        if e.name == "callee_lines":
            workers = self.values.get("workers()")
            if workers is None:
                raise Unknown("the number of workers")
            values = [self(a) for a in e.args]
            lines: Number = e.target.workspace_lines(values, int(workers), self.values.get(ASK))
            return lines
        if e.name == "largest_over":
            return self._largest_over(e)
        if e.name == "query_extern":
            return self._ask(e)
        if e.name == "size_in_bytes":
            element, padding, *extents = [int(self(a)) for a in e.args]
            count = 1
            for extent in extents:
                count *= max(extent, 0)
            return (count + padding) * element if count else 0
        if e.name == "place_storage":
            return _place(e, [int(self(a)) for a in e.args])
        if e.name == "query_result":
            dims: Any = self(e.args[0])
            dimension, field = e.args[1], e.args[2]
            assert isinstance(field, StringImm)
            answer: Number = dims[int(self(dimension))][0 if field.value == "min" else 1]
            return answer
        operation = _INTRINSICS.get(e.name)
        if operation is None or e.target is not None:
            raise Unknown(f"the value of {e.name}")
        value = operation(*[self(a) for a in e.args])
        return e.type.wrap(value)

    def _ask(self, e: Call) -> Number:
        """What an external function answers: (min, extent) of each dimension of its buffers."""
        ask: Any = self.values.get(ASK)
        if ask is None:
            raise Unknown(f"what {e.target.symbol} answers")
        given: list[Any] = []
        for arg in e.args:
            if type(arg) is Call and arg.name == "query_buffer":
                fields = [int(self(field)) for field in arg.args[1:]]
                given.append(list(zip(fields[::3], fields[1::3], strict=True)))
            else:
                given.append(self(arg))
        answer: Number = ask(e.target, given)
        return answer

    def _largest_over(self, e: Call) -> Number:
        loop, low, extent, value = e.args
        assert isinstance(loop, StringImm)
        first, count = int(self(low)), int(self(extent))
        most = int(self.values.get(SAMPLES, count))
        at: Sequence[int] = range(first, first + count)
        if count > most:
            at = [*at[:: count // most + 1], at[-1]]
        found = [_Evaluator({**self.values, loop.value: i})(value) for i in at]
        return max(found, default=0)


def _place(e: Call, sizes: list[int]) -> Number:
    try:
        total: Number = e.target.place(sizes)[1]
    except (OverflowError, ValueError) as error:
        # No call can have temporaries of such sizes.
        raise Unknown(str(error)) from None
    return total


def evaluate(e: Expr, values: Mapping[str, Number]) -> Number:
    """The value of a scalar expression, its variables given.

    Args:
        e: a scalar expression of numbers or bools.
        values: the value of each free variable by name.

    Raises:
        Unknown: a variable is not given, or the value depends on data.
    """
    return _Evaluator(values)(e)
