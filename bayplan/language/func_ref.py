"""FuncRef: what `f[x, y]` is, a use of a Func or the left side of a definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayplan.ir.build import const
from bayplan.ir.errors import DefinitionError
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.node import deep_recursion
from bayplan.ir.types import INT32, Type
from bayplan.ir.walk import iterate, reintern
from bayplan.language import operations as op
from bayplan.language.definition import coordinates, define_pure, define_update
from bayplan.language.expr import Expr as UserExpr
from bayplan.language.expr import Operators, as_node, is_expr_like
from bayplan.language.function import Function
from bayplan.language.naming import unique_letter_name
from bayplan.language.parameter import ReductionDomain
from bayplan.language.var import PLACEHOLDER, implicit_index

Combine = Callable[[Expr, Expr], Expr]


def count_implicit(values: Sequence[Expr]) -> int:
    """One more than the highest number of an implicit Var (_0, _1, ...) in the values."""
    count = 0
    for n in iterate(*values):
        if type(n) is Variable and n.source is None:
            count = max(count, implicit_index(n.name) + 1)
    return count


def key_items(key: Any) -> list[Any]:
    """The arguments in the brackets of `f[...]`."""
    if isinstance(key, tuple | list):
        return list(key)
    return [key]


def same_nodes(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether the expressions are equal one by one."""
    if len(a) != len(b):
        return False
    with deep_recursion():
        return all(reintern(x) is reintern(y) for x, y in zip(a, b, strict=True))


class FuncRef(Operators):
    """A Func at coordinates."""

    __slots__ = ("_func", "_args", "_placeholder", "_implicit")

    def __init__(self, func: Function, key: Any) -> None:
        self._func = func
        args = coordinates(func.name, [as_node(item) for item in key_items(key)])
        # Where `_` stood, and how many implicit Vars it was replaced by.
        self._placeholder = -1
        self._implicit = 0
        for i, arg in enumerate(args):
            if type(arg) is Variable and arg.name == PLACEHOLDER:
                self._placeholder = i
                self._implicit = max(0, func.dimensions() - (len(args) - 1))
                args[i : i + 1] = _implicit_vars(self._implicit)
                break
        if func.init is not None and len(args) != func.dimensions():
            raise DefinitionError(
                f"{func.name} is used with {len(args)} coordinates, "
                f"but it has {func.dimensions()} dimensions ({', '.join(func.args)})"
            )
        self._args = args

    def function(self) -> Function:
        """The data of the Func."""
        return self._func

    def _defined(self) -> Function:
        if self._func.init is None:
            raise DefinitionError(f"{self._func.name} is used before it is defined")
        return self._func

    def call(self, value_index: int = 0) -> Call:
        """The node for one of the values."""
        func = self._defined()
        t = func.output_types[value_index]
        return Call(t, func.name, tuple(self._args), CallKind.FUNC, func, value_index)

    @property
    def node(self) -> Expr:
        """The node for the value of a Func that has one."""
        func = self._defined()
        if func.outputs() != 1:
            raise DefinitionError(
                f"{func.name} gives a Tuple of {func.outputs()} values; choose one of them with "
                f"{func.name}[...][i]"
            )
        return self.call()

    def __getitem__(self, index: int) -> FuncTupleElementRef:
        func = self._defined()
        if func.outputs() == 1:
            raise DefinitionError(f"{func.name} gives a single value, so it cannot be indexed")
        if not 0 <= index < func.outputs():
            raise IndexError(f"value {index} of {func.name}, which gives {func.outputs()} values")
        return FuncTupleElementRef(self, index)

    def __len__(self) -> int:
        return self._func.outputs() or len(self._func.required_types)

    def size(self) -> int:
        """Number of values."""
        return len(self)

    def types(self) -> list[Type]:
        """The types of the values."""
        types = list(self._func.output_types or self._func.required_types)
        if not types:
            raise DefinitionError(f"{self._func.name} has no type before it is defined")
        return types

    def type(self) -> Type:
        """The type of the only value."""
        types = self.types()
        if len(types) > 1:
            raise DefinitionError(f"{self._func.name} gives a Tuple, which has no single type")
        return types[0]

    def _later(self, combine: Combine, init: int, other: Any) -> Any:
        if not is_expr_like(other) and not isinstance(other, FuncRef):
            return NotImplemented
        return UnevaluatedFuncRefExpr(self, other, combine, init)

    def __add__(self, other: Any) -> Any:
        if self._func.init is None:
            return self._later(op.add, 0, other)
        return super().__add__(other)

    def __sub__(self, other: Any) -> Any:
        if self._func.init is None:
            return self._later(op.sub, 0, other)
        return super().__sub__(other)

    def __mul__(self, other: Any) -> Any:
        if self._func.init is None:
            return self._later(op.mul, 1, other)
        return super().__mul__(other)

    def __truediv__(self, other: Any) -> Any:
        if self._func.init is None:
            return self._later(op.div, 1, other)
        return super().__truediv__(other)

    def assign(self, values: Sequence[Expr]) -> None:
        """Define the Func, or add an update to it."""
        if self._func.init is not None:
            self._check_implicit(values)
            define_update(self._func, self._args, values)
            return
        for i, arg in enumerate(self._args):
            if type(arg) is not Variable or arg.source is not None:
                what = "an RVar" if _is_rvar(arg) else "not a Var"
                raise DefinitionError(
                    f"argument {i + 1} of the first definition of {self._func.name}, {arg}, "
                    f"is {what}; the pure definition comes first, over all coordinates"
                )
        names = [arg.name for arg in self._with_implicit(values)]  # type: ignore[attr-defined]
        define_pure(self._func, names, values)

    def _with_implicit(self, values: Sequence[Expr]) -> list[Expr]:
        """The coordinates of a pure definition, with the implicit Vars that the values use."""
        args = list(self._args)
        count = count_implicit(values)
        if count and self._placeholder >= 0:
            args[self._placeholder : self._placeholder] = _implicit_vars(count)
        self._check_placed(args, count)
        return args

    def _check_implicit(self, values: Sequence[Expr]) -> None:
        count = count_implicit(values)
        if self._placeholder >= 0 and count > self._implicit:
            raise DefinitionError(
                f"the update of {self._func.name} uses {count} implicit Vars, but `_` on its left "
                f"side stands for {self._implicit}"
            )
        self._check_placed(self._args, count)

    def _check_placed(self, args: Sequence[Expr], count: int) -> None:
        names = [arg.name for arg in args if type(arg) is Variable]
        for i in range(count):
            if f"_{i}" not in names:
                raise DefinitionError(
                    f"the right side of the definition of {self._func.name} uses the implicit Var "
                    f"_{i}, but its left side has neither it nor `_`"
                )

    def update_with(self, combine: Combine, init: int, values: Sequence[Expr]) -> None:
        """`f[...] += value` for a Func that may not be defined yet: it starts as `init`."""
        func = self._func
        args = list(self._args)
        if func.init is None:
            args = self._with_implicit(values)
            names = [
                a.name if type(a) is Variable and a.source is None else unique_letter_name("v")
                for a in args
            ]
            types = func.required_types or [v.type for v in values]
            define_pure(func, names, [const(t, init) for t in types])
        own = [
            Call(t, func.name, tuple(args), CallKind.FUNC, func, i)
            for i, t in enumerate(func.output_types)
        ]
        define_update(func, args, [combine(a, b) for a, b in zip(own, values, strict=True)])

    def equivalent_to(self, other: FuncRef) -> bool:
        """Whether both are the same Func at the same coordinates."""
        return self._func is other._func and same_nodes(self._args, other._args)

    def __repr__(self) -> str:
        args = ", ".join([str(arg) for arg in self._args])
        return f"<bayplan.FuncRef {self._func.name}[{args}]>"


def _implicit_vars(count: int) -> list[Expr]:
    return [Variable(INT32, f"_{i}") for i in range(count)]


def _is_rvar(arg: Expr) -> bool:
    return type(arg) is Variable and isinstance(arg.source, ReductionDomain)


class FuncTupleElementRef(Operators):
    """One value of a Tuple-valued Func at coordinates."""

    __slots__ = ("_ref", "_index")

    def __init__(self, ref: FuncRef, index: int) -> None:
        self._ref = ref
        self._index = index

    @property
    def node(self) -> Expr:
        """The node for the value."""
        return self._ref.call(self._index)

    def index(self) -> int:
        """Which value this is."""
        return self._index

    def type(self) -> Type:
        """The type of the value."""
        return self._ref.types()[self._index]


class UnevaluatedFuncRefExpr:
    """`f[x] + e` where f is not defined yet: it becomes the update `f[x] += e`."""

    __slots__ = ("_ref", "_operand", "_combine", "_init")

    def __init__(self, ref: FuncRef, operand: Any, combine: Combine, init: int) -> None:
        self._ref = ref
        self._operand = operand
        self._combine = combine
        self._init = init

    def define_at(self, target: FuncRef) -> None:
        """Define the Func by it, when `target` is the same place."""
        if not self._ref.equivalent_to(target):
            raise DefinitionError(
                f"{self._ref.function().name} is used before it is defined, in a definition at "
                "another place"
            )
        if self._ref.function().init is not None:
            raise DefinitionError(
                f"{self._ref.function().name} is defined by now, so what was written before its "
                "definition cannot become an update of it"
            )
        self._ref.update_with(self._combine, self._init, [as_node(self._operand)])


def value_nodes(func: Function, value: Any) -> list[Expr]:
    """The nodes of the right side of a definition: one value, or those of a Tuple."""
    if isinstance(value, FuncRef) and value.size() > 1:
        return [value.call(i) for i in range(value.size())]
    if is_expr_like(value):
        return [_value(func, 0, value)]
    if value is None or isinstance(value, str):
        raise DefinitionError(f"{func.name} cannot be defined as {value!r}")
    return [_value(func, i, item) for i, item in enumerate(value)]


def _value(func: Function, index: int, value: Any) -> Expr:
    if isinstance(value, UserExpr) and not value.defined():
        raise DefinitionError(f"value {index} in the definition of {func.name} is not defined")
    return as_node(value)
