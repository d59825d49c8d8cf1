"""lambda_func: a Func without a name of its own, in one expression."""

from __future__ import annotations

from typing import Any

from bayplan.language.func import Func


def lambda_func(*args: Any) -> Func:
    """The Func with the given Vars as coordinates and the last argument as its value."""
    if not args:
        raise TypeError("lambda_func() takes Vars and an expression")
    func = Func("lambda")
    func[tuple(args[:-1])] = args[-1]
    return func
