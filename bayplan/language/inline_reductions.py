"""sum, product, minimum, maximum, argmin, argmax: reductions written inside expressions.

Each makes a Func over the free variables of the expression, with an update over its RDom, and is a
use of that Func.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.build import const, int32
from bayplan.ir.errors import DefinitionError
from bayplan.ir.exprs import Call, CallKind, Variable
from bayplan.ir.node import deep_recursion
from bayplan.ir.types import INT32
from bayplan.ir.walk import iterate, substitute
from bayplan.language import operations as op
from bayplan.language.definition import define_pure, define_update, new_function
from bayplan.language.expr import Expr, as_node
from bayplan.language.func import Func
from bayplan.language.func_ref import Combine
from bayplan.language.function import Function
from bayplan.language.naming import unique_letter_name
from bayplan.language.parameter import ReductionDomain
from bayplan.language.rdom import RDom


class _Reduction:
    """The expression to be reduced, its domain, and what it depends on besides."""

    def __init__(self, kind: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.kind = kind
        rdom, expr, target = _arguments(kind, args, named)
        self.function = _function(kind, target)
        node = as_node(expr)
        self.domain = rdom.reduction() if rdom is not None else None
        self.args: list[str] = []
        self.call_args: list[ir.Expr] = []
        renamed: dict[str, ir.Expr] = {}
        bound = {n.name for n in iterate(node) if type(n) is ir.Let}
        for n in iterate(node):
            if type(n) is Variable and n.name not in bound:
                self._variable(n, rdom is not None, renamed)
        with deep_recursion():
            self.value = substitute(renamed, node)
        if self.domain is None:
            raise DefinitionError(
                f"the expression given to {kind} has no RVar: it must use an RDom, or be given one"
            )

    def _variable(self, v: Variable, given: bool, renamed: dict[str, ir.Expr]) -> None:
        if isinstance(v.source, ReductionDomain):
            if self.domain is None:
                self.domain = v.source
            if v.source is self.domain:
                return
            if not given:
                raise DefinitionError(
                    f"the expression given to {self.kind} uses two RDoms, {self.domain.name} and "
                    f"{v.source.name}; say which of them it runs over: {self.kind}(r, ...)"
                )
            # An RVar of an RDom around it becomes a coordinate of the reduction's Func.
            name = unique_letter_name("v")
            renamed[v.name] = Variable(INT32, name)
            self.args.append(name)
            self.call_args.append(v)
        elif v.source is None and v.name not in self.args:
            self.args.append(v.name)
            self.call_args.append(v)

    def own(self, index: int = 0) -> Call:
        """The reduction's value at its own coordinates."""
        args = tuple([Variable(INT32, arg) for arg in self.args])
        t = self.function.output_types[index]
        return Call(t, self.function.name, args, CallKind.FUNC, self.function, index)

    def define(self, init: list[ir.Expr]) -> None:
        """Give the Func its pure definition."""
        define_pure(self.function, self.args, init)

    def update(self, values: list[ir.Expr]) -> None:
        """Give the Func its update.

        A domain that was given but that the expression does not use has no effect, as in Halide:
        the expression is joined once.
        """
        args: list[ir.Expr] = [Variable(INT32, arg) for arg in self.args]
        define_update(self.function, args, values)

    def result(self, index: int = 0) -> Expr:
        """The use of the Func that the reduction is."""
        t = self.function.output_types[index]
        function = self.function
        function.frozen = True
        return Expr(Call(t, function.name, tuple(self.call_args), CallKind.FUNC, function, index))


def _arguments(
    kind: str, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[RDom | None, Any, Any]:
    """(domain, expression, name or Func) of the forms (expr), (rdom, expr), each with a name."""
    values = list(args)
    rdom = named.pop("rdom", None)
    target = named.pop("name", named.pop("f", None))
    if "expr" in named:
        expr = named.pop("expr")
        if values and rdom is None and isinstance(values[0], RDom):
            rdom = values.pop(0)
    else:
        if len(values) >= 2 and isinstance(values[0], RDom) and not _is_target(values[1]):
            rdom = values.pop(0)
        if not values:
            raise TypeError(f"{kind}() needs an expression")
        expr = values.pop(0)
    if values:
        target = values.pop(0)
    if values or named:
        raise TypeError(f"{kind}() takes an RDom, an expression and a name or Func, in this order")
    return rdom, expr, target


def _is_target(value: Any) -> bool:
    return isinstance(value, str | Func)


def _function(kind: str, target: Any) -> Function:
    if target is None:
        return new_function(kind)
    if isinstance(target, str):
        return new_function(target)
    function: Function = target.function()
    if function.init is not None:
        raise DefinitionError(f"{function.name}, given to {kind}, is defined already")
    return function


def _reduce(
    kind: str, combine: Combine, init: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> Expr:
    reduction = _Reduction(kind, args, named)
    t = reduction.value.type
    reduction.define([const(t, init(t))])
    reduction.update([combine(reduction.own(), reduction.value)])
    return reduction.result()


def sum(*args: Any, **named: Any) -> Expr:
    """The sum of an expression over its RDom: sum(expr), sum(rdom, expr), with a name or Func."""
    return _reduce("sum", op.add, lambda t: 0, args, named)


def product(*args: Any, **named: Any) -> Expr:
    """The product of an expression over its RDom; arguments as of `sum`."""
    return _reduce("product", op.mul, lambda t: 1, args, named)


def saturating_sum(*args: Any, **named: Any) -> Expr:
    """The sum of an expression over its RDom, clamped to its type; arguments as of `sum`."""
    return _reduce("saturating_sum", _saturating_add, lambda t: 0, args, named)


def _saturating_add(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return Call(a.type, "saturating_add", (a, b), CallKind.PURE_INTRINSIC)


def minimum(*args: Any, **named: Any) -> Expr:
    """The least value of an expression over its RDom; arguments as of `sum`."""
    return _reduce("minimum", op.minimum, lambda t: t.max_value(), args, named)


def maximum(*args: Any, **named: Any) -> Expr:
    """The greatest value of an expression over its RDom; arguments as of `sum`."""
    return _reduce("maximum", op.maximum, lambda t: t.min_value(), args, named)


def _reduce_position(
    kind: str, better: Combine, init: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Expr, ...]:
    reduction = _Reduction(kind, args, named)
    domain = reduction.domain
    assert domain is not None
    t = reduction.value.type
    reduction.define([*[int32(0) for _ in domain.variables], const(t, init(t))])
    count = len(domain.variables)
    new = [*[Variable(INT32, r.var, domain) for r in domain.variables], reduction.value]
    condition = better(reduction.value, reduction.own(count))
    reduction.update([ir.Select(condition, value, reduction.own(i)) for i, value in enumerate(new)])
    return tuple([reduction.result(i) for i in range(count + 1)])


def argmin(*args: Any, **named: Any) -> tuple[Expr, ...]:
    """The coordinates of the least value, the first of equal ones, and the value itself."""
    return _reduce_position("argmin", op.lt, lambda t: t.max_value(), args, named)


def argmax(*args: Any, **named: Any) -> tuple[Expr, ...]:
    """The coordinates of the greatest value, the first of equal ones, and the value itself."""
    return _reduce_position("argmax", op.gt, lambda t: t.min_value(), args, named)
