"""Stages that a C function computes: what `Func.define_extern` takes and records.

The definition of such a Func has one value per output, a call of the intrinsic "extern_value"
whose arguments are those of the C function: scalars as they are, each buffer as
`read_buffer(element)`, where `element` is some call of the Func or image. So everything that walks
definitions finds the Funcs, images and parameters that the stage uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from bayplan.ir.build import int32, intrinsic, true
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.source import SourceLine, user_line
from bayplan.ir.types import INT32, Handle, Type
from bayplan.ir.walk import iterate
from bayplan.language import changes
from bayplan.language.definition import check_required, freeze_called, output_parameters
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import OUTERMOST, Dim, StageSchedule, StorageDim
from bayplan.language.target_names import DeviceAPI
from bayplan.language.var import Var

READ: Final = "read_buffer"
VALUE: Final = "extern_value"


class NameMangling(Enum):
    """How the name of an external function is spelled in the object file."""

    Default = 0
    C = 1
    CPlusPlus = 2


class ExternFuncArgument:
    """One argument of an external function: a Func, a Buffer, an ImageParam, or a scalar.

    Args:
        value: what the function is given. A Func or image with several values becomes several
            buffers; numbers become constants, int32 where they are integers.
    """

    __slots__ = ("_kind", "_value")

    def __init__(self, value: Any = None) -> None:
        if isinstance(value, ExternFuncArgument):
            value = value._value
        self._value: Any = value
        self._kind: str = _kind_of(value)

    def defined(self) -> bool:
        """Whether there is anything to pass."""
        return self._kind != "nothing"

    def is_func(self) -> bool:
        """Whether it is a Func."""
        return self._kind == "func"

    def is_buffer(self) -> bool:
        """Whether it is a Buffer."""
        return self._kind == "buffer"

    def is_image_param(self) -> bool:
        """Whether it is an ImageParam."""
        return self._kind == "image_param"

    def is_expr(self) -> bool:
        """Whether it is a scalar."""
        return self._kind == "expr"

    def nodes(self) -> list[Expr]:
        """What the definition holds for it: one node for each argument of the C function."""
        if self._kind == "nothing":
            raise DefinitionError("an argument of an external function is empty")
        if self._kind == "expr":
            return [_scalar(self._value)]
        if self._kind == "func":
            function = self._value.function()
            return _read_func(function)
        zeros = tuple([int32(0)] * self._value.dimensions())
        if self._kind == "image_param":
            source = self._value.parameter()
            name, element = source.name, source.type
        else:
            source = self._value
            name, element = source.name(), source.type()
        return [intrinsic(Handle(), READ, Call(element, name, zeros, CallKind.IMAGE, source))]


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    if hasattr(value, "function") and hasattr(value, "realize"):
        return "func"
    if hasattr(value, "parameter") and hasattr(value, "dimensions"):
        return "image_param" if value.parameter().is_buffer else "expr"
    if hasattr(value, "dimensions") and hasattr(value, "name") and hasattr(value, "dim"):
        return "buffer"
    return "expr"


def _scalar(value: Any) -> Expr:
    from bayplan.language.expr import Expr as UserExpr

    node: Expr = value.node if hasattr(value, "node") else UserExpr(value).node
    return node


def _read_func(function: Function) -> list[Expr]:
    if function.init is None:
        raise DefinitionError(f"{function.name} is not defined yet, so no function can be given it")
    zeros = tuple([int32(0)] * function.dimensions())
    return [
        intrinsic(Handle(), READ, Call(t, function.name, zeros, CallKind.FUNC, function, k))
        for k, t in enumerate(function.output_types)
    ]


class ExternDefinition:
    """The C function that computes a Func.

    Attributes:
        symbol: its name in C.
        func: name of the Func.
        callee: None, or the Pipeline or Func whose program is the function.
        keys: for a callee, which of its inputs each argument is: a Parameter, a name, or None
            for the next one in order of name.
        lowered: the callee's program, once it is lowered; kept with the copy of one lowering.
        parameters: for each argument, outputs last, (element type, dimensions); dimensions is
            None for a scalar.
        outputs: how many of the last are outputs.
        where: the user's line.
    """

    __slots__ = (
        "callee", "func", "keys", "lowered", "outputs", "parameters", "symbol", "where",
    )  # fmt: skip

    def __init__(
        self,
        symbol: str,
        func: str,
        callee: Any,
        parameters: tuple[tuple[Type, int | None], ...],
        outputs: int,
        where: SourceLine | None,
    ) -> None:
        self.symbol = symbol
        self.func = func
        self.callee = callee
        self.parameters = parameters
        self.outputs = outputs
        self.where = where
        self.keys: tuple[Any, ...] = ()
        self.lowered: Any = None

    def __repr__(self) -> str:
        return f"<extern {self.symbol}>"


def define_extern(
    function: Function,
    name: Any,
    arguments: Sequence[Any] | Mapping[Any, Any],
    types: Any,
    shape: Any,
    mangling: Any,
    device_api: Any,
    called: Any = None,
) -> None:
    """Gives a Func the C function `name` as its definition.

    Args:
        function: the Func.
        name: of the C function; or a Pipeline, Func or Callable that is called.
        arguments: see `ExternFuncArgument`; for a callee perhaps by its inputs or their names.
        types: element type, or a list of one for each value.
        shape: number of dimensions, or the Vars of the Func.
        mangling: only names as C spells them.
        device_api: only the host.
        called: a Pipeline or Func that becomes the C function `name`.
    """
    _check_definable(function, name, mangling, device_api)
    if called is not None and not hasattr(called, "_functions"):
        raise TypeError(f"a {type(called).__name__} cannot be called: a Pipeline or Func can")
    symbol, callee = _callee(function, name if called is None else called)
    if called is not None and isinstance(name, str):
        symbol = name
    if callee is not None:
        types, shape = _outputs_of(function, callee, types, shape)
    if types is None or shape is None:
        raise TypeError("define_extern() needs the types and the number of dimensions")
    output_types = [types] if isinstance(types, Type) else list(types)
    if not output_types:
        raise DefinitionError(f"{function.name} needs at least one type")
    args = _var_names(shape)
    nodes, keys = _argument_nodes(function, arguments, callee)
    _check_nodes(function, nodes, args)
    check_required(function, output_types, len(args))
    freeze_called(function, nodes)
    where = user_line()
    parameters = [_parameter(node) for node in nodes]
    parameters += [(t, len(args)) for t in output_types]
    extern = ExternDefinition(
        symbol, function.name, callee, tuple(parameters), len(output_types), where
    )
    extern.keys = keys
    function.where = where
    function.args = list(args)
    function.schedule.storage_dims = [StorageDim(arg) for arg in args]
    function.output_types = output_types
    if not function.output_buffers:
        function.output_buffers = output_parameters(function.name, output_types, len(args))
    schedule = StageSchedule()
    schedule.dims = [Dim(arg, ForKind.Extern, where=where) for arg in args]
    schedule.dims.append(Dim(OUTERMOST, where=where))
    values = tuple(
        [
            Call(t, VALUE, tuple(nodes), CallKind.INTRINSIC, extern, k)
            for k, t in enumerate(output_types)
        ]
    )
    variables = tuple([Variable(INT32, arg) for arg in args])
    function.init = Definition(variables, values, true(), True, schedule, where)
    changes.bump()


def _callee(function: Function, name: Any) -> tuple[str, Any]:
    if isinstance(name, str):
        return name, None
    called = name._functions()
    for f in called:
        if f.init is None:
            raise DefinitionError(f"{f.name} is not defined yet, so {function.name} cannot call it")
        if f is function:
            raise DefinitionError(f"{function.name} cannot call itself")
        f.frozen = True
    return called[0].name, name


def _outputs_of(function: Function, callee: Any, types: Any, shape: Any) -> tuple[Any, Any]:
    """Types and dimensions of the values of a callee, which those that are given must be."""
    called = callee._functions()
    found = [t for f in called for t in f.output_types]
    given = [types] if isinstance(types, Type) else types
    if given is not None and list(given) != found:
        raise TypeMismatchError(
            f"{function.name} is to hold {', '.join([str(t) for t in given])}, but what it calls "
            f"gives {', '.join([str(t) for t in found])}"
        )
    ranks = sorted({f.dimensions() for f in called})
    rank = None if shape is None else shape if isinstance(shape, int) else len(shape)
    if len(ranks) != 1 or rank not in (None, ranks[0]):
        raise DefinitionError(
            f"the outputs that {function.name} calls for have "
            f"{' and '.join([str(r) for r in ranks])} dimensions"
            + ("" if rank is None else f", not {rank}")
        )
    # Without other names the dimensions are called as they are there.
    return found, [Var(arg) for arg in called[0].args] if shape is None else shape


def _argument_nodes(
    function: Function, arguments: Any, callee: Any
) -> tuple[list[Expr], tuple[Any, ...]]:
    """The nodes of the arguments, and which inputs of a callee they are."""
    nodes: list[Expr] = []
    keys: list[Any] = []
    if isinstance(arguments, Mapping):
        if callee is None:
            raise DefinitionError(
                f"the C function of {function.name} has no names for its arguments: give a list"
            )
        items = list(arguments.items())
    elif hasattr(callee, "_parameters"):
        # A compiled callable has an order of its own.
        inputs = callee._parameters()
        if len(inputs) != len(arguments):
            raise DefinitionError(
                f"{function.name} gives {len(arguments)} arguments to a callable that has "
                f"{len(inputs)} inputs ({', '.join([p.name for p in inputs]) or 'none'})"
            )
        items = list(zip(inputs, arguments, strict=True))
    else:
        items = [(None, argument) for argument in arguments]
    for key, argument in items:
        if hasattr(key, "parameter"):
            key = key.parameter()
        found = ExternFuncArgument(argument).nodes()
        if key is not None and len(found) != 1:
            raise DefinitionError(f"a Tuple-valued Func is {len(found)} arguments, not one")
        nodes += found
        keys += [key] * len(found)
    return nodes, tuple(keys)


def _check_definable(function: Function, name: Any, mangling: Any, device_api: Any) -> None:
    if function.init is not None:
        raise DefinitionError(f"{function.name} is defined already, at {function.where}")
    if function.frozen:
        raise DefinitionError(f"{function.name} was used already, so it cannot be defined any more")
    if isinstance(name, str):
        if not name.isidentifier() or not name.isascii():
            raise DefinitionError(f"{name!r} cannot be the name of a C function")
    elif not hasattr(name, "_functions"):
        raise TypeError(
            "an external function is given by its name, or by a Pipeline or Func, not by a "
            f"{type(name).__name__}"
        )
    if getattr(mangling, "name", "Default") == "CPlusPlus":
        raise DefinitionError(
            f"{function.name} cannot call a function whose name is mangled as in C++",
            hint='declare the function extern "C"',
        )
    if device_api is not None and device_api is not DeviceAPI.Host:
        raise DefinitionError(
            f"{function.name} is computed by a C function, which runs on the host"
        )


def _var_names(shape: Any) -> list[str]:
    if isinstance(shape, int):
        return [Var.implicit(i).name() for i in range(shape)]
    names = [v.name() for v in shape]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DefinitionError(f"two dimensions are both named {name}")
    return names


def _check_nodes(function: Function, nodes: Sequence[Expr], args: Sequence[str]) -> None:
    for n in iterate(*nodes):
        if type(n) is Variable and n.source is None:
            raise DefinitionError(
                f"the variable {n.name} cannot be an argument of the function that computes "
                f"{function.name}: it is called for whole regions"
            )
        if type(n) is Call and n.kind is CallKind.FUNC and n.target is function:
            raise DefinitionError(f"{function.name} cannot be an argument of its own function")
    for n in nodes:
        if not (type(n) is Call and n.name == READ):
            _check_scalar(function, n)
        if n.type.lane_count != 1:
            raise TypeMismatchError(f"{n} is a vector, which no C function can be given")
        if n.type.kind == "float" and n.type.width == 16:
            raise TypeMismatchError(f"{n} is a float16, which C functions cannot be given by value")


def _check_scalar(function: Function, scalar: Expr) -> None:
    for n in iterate(scalar):
        if type(n) is Call and n.kind in (CallKind.FUNC, CallKind.IMAGE):
            raise DefinitionError(
                f"a scalar that the function computing {function.name} is given reads {n.name}, "
                "but it must be known before anything is computed or read",
                hint=f"give the function {n.name} itself",
            )


def _parameter(node: Expr) -> tuple[Type, int | None]:
    if type(node) is Call and node.name == READ:
        element = node.args[0]
        assert type(element) is Call
        return element.type, len(element.args)
    return node.type, None
