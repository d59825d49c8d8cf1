"""evaluate: the value of an expression, computed at once."""

from __future__ import annotations

from typing import Any

from bayplan.language.func import Func
from bayplan.language.tuple import tuple_elements


def evaluate(value: Any) -> Any:
    """The value of an Expr without free variables as a Python number; of a Tuple, a tuple."""
    elements = tuple_elements(value)
    f = Func("evaluate")
    f[()] = value if elements is None else tuple(elements)
    result = f.realize([])
    if elements is None:
        return result[()]
    parts = result if isinstance(result, tuple) else (result,)
    return tuple([part[()] for part in parts])


def evaluate_may_gpu(value: Any) -> Any:
    """As `evaluate`; it runs on the host, which every machine has."""
    return evaluate(value)
