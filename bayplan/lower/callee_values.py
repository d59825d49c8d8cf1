"""What the arguments of a callee are at a place of the caller."""

from __future__ import annotations

from bayplan.ir.build import add, int32, intrinsic, sub, var
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.types import INT32, Handle
from bayplan.ir.walk import free_variables, substitute
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.lower.callee import Callee
from bayplan.lower.extern_buffers import Range, element_of, input_stem, is_buffer


def callee_of(function: Function) -> Callee | None:
    """The pipeline that computes the Func, None for C functions."""
    call = function.extern()
    found: Callee | None = None if call is None else call.target.lowered
    return found


def known_regions(function: Function) -> tuple[list[Range], list[list[Range]]] | None:
    """The regions that a callee computes, and needs of each buffer, when asked for "f.s0.x".

    None where only the callee itself can tell, at run time.

    Returns:
        The ranges of the output; of each buffer argument in order.
    """
    callee = callee_of(function)
    if callee is None or not callee.regions:
        return None
    values = _values(function, callee, asked=True)
    found: list[list[Range]] = []
    for argument in callee.program.arguments:
        if not argument.is_buffer():
            continue
        ranges: list[Range] = []
        for d in range(argument.dimensions):
            low, extent = callee.regions[argument.name, d]
            if not (free_variables(low) | free_variables(extent)) <= values.keys():
                return None
            low, extent = substitute(values, low), substitute(values, extent)
            ranges.append((low, sub(add(low, extent), 1)))
        found.append(ranges)
    outputs = len(function.output_types)
    return found[-outputs], found[:-outputs]


def computes_more(function: Function) -> bool:
    """Whether a callee may compute more than it is asked for, as far as is known."""
    callee = callee_of(function)
    if callee is None or not callee.regions:
        return True
    for argument in callee.program.arguments:
        if argument.kind == "output_buffer":
            for d in range(argument.dimensions):
                low, extent = callee.regions[argument.name, d]
                fields = [f"{argument.name}.{f}.{d}" for f in ("min", "extent")]
                if [_name(low), _name(extent)] != fields:
                    return True
    return False


def _name(e: Expr) -> str:
    return e.name if type(e) is Variable else ""


def workspace_lines(function: Function) -> Expr | None:
    """The size of a callee's workspace for "f.s0.x" and "f.in0", in lines.

    None where it needs none, or takes it from the context itself as its size depends on more.
    """
    callee = callee_of(function)
    if callee is None or callee.size is None:
        return None
    values = _values(function, callee, asked=False)
    if not values.keys() >= set(callee.size_parameters):
        return None
    args = tuple([values[name] for name in callee.size_parameters])
    return Call(INT32, "callee_lines", args, CallKind.PURE_INTRINSIC, callee)


def workspace_argument(function: Function) -> list[Expr]:
    """The argument of a call that its workspace is, where it needs one."""
    lines = workspace_lines(function)
    return [] if lines is None else [intrinsic(Handle(), "callee_workspace", lines)]


def _values(function: Function, callee: Callee, asked: bool) -> dict[str, Expr]:
    """Names of the callee's arguments and their fields, and what they are.

    Args:
        asked: of the buffers that are Funcs nothing is known: they have no memory yet.
    """
    call = function.extern()
    assert call is not None
    values: dict[str, Expr] = {}
    inputs = callee.program.arguments[: len(call.args)]
    for i, (argument, node) in enumerate(zip(inputs, call.args, strict=True)):
        if not is_buffer(node):
            values[argument.name] = node
            continue
        element = element_of(node)
        for d in range(argument.dimensions):
            if element.kind is CallKind.IMAGE:
                for field in ("min", "extent", "stride"):
                    values[f"{argument.name}.{field}.{d}"] = image_field(element, field, d)
            elif asked:
                for field in ("min", "extent", "stride"):
                    values[f"{argument.name}.{field}.{d}"] = int32(0)
            else:
                stem = input_stem(function, i)
                low, high = var(f"{stem}.min.{d}"), var(f"{stem}.max.{d}")
                _put(values, argument.name, d, low, high)
    for argument in callee.program.arguments[len(call.args) :]:
        for d, arg in enumerate(function.args):
            stem = f"{function.name}.s0.{arg}"
            _put(values, argument.name, d, var(f"{stem}.min"), var(f"{stem}.max"))
    return values


def _put(values: dict[str, Expr], name: str, d: int, low: Expr, high: Expr) -> None:
    values[f"{name}.min.{d}"] = low
    values[f"{name}.extent.{d}"] = add(sub(high, low), 1)


def image_field(element: Call, field: str, dim: int) -> Expr:
    """A field of the buffer that an image is; a number where it is a Buffer of fixed shape."""
    source = element.target
    if isinstance(source, Parameter):
        return Variable(INT32, f"{element.name}.{field}.{dim}", source)
    return int32(int(getattr(source.dim(dim), field)()))
