"""Asks external functions, at run time, which regions they compute and need.

A function is asked by a call with buffers that have no memory. It may enlarge the region of its
outputs (it computes rows of 8, say), and says which region of each input it needs.
"""

from __future__ import annotations

from bayplan.ir.build import add, int32, intrinsic, maximum, minimum, sub, var
from bayplan.ir.exprs import Call, CallKind, Const, Expr, StringImm, Variable
from bayplan.ir.stmts import LetStmt, Stmt
from bayplan.ir.types import INT32, Handle, Type
from bayplan.language.function import Function
from bayplan.lower.callee_values import computes_more, image_field, known_regions
from bayplan.lower.extern_buffers import (
    Range,
    element_of,
    input_stem,
    is_buffer,
)


def query_regions(body: Stmt, function: Function, nested: bool) -> Stmt:
    """The statement with the regions that the function computes and needs, as lets around it.

    "f.s0.x.min" and "f.s0.x.max", defined outside, are defined again as the function wants them;
    "f.in0.min.0", "f.in0.max.0" are the region that it then needs of its argument 0.

    Args:
        body: the statement.
        function: the Func that the function computes.
        nested: whether the same names are defined for a larger region further out, which these
            regions then stay within.
    """
    return _grow_outputs(query_inputs(body, function, nested), function, nested)


def query_inputs(body: Stmt, function: Function, nested: bool) -> Stmt:
    """As `query_regions`, with the region that is computed taken as it is."""
    call = function.extern()
    assert call is not None
    known = known_regions(function)
    if known is not None:
        return _known_inputs(body, function, known[1])
    query = f"{function.name}.query"
    dimension = 0
    lets: list[tuple[str, Expr]] = []
    outer: list[tuple[str, Expr]] = []
    for i, argument in enumerate(call.args):
        if not is_buffer(argument):
            continue
        stem = input_stem(function, i)
        for d in range(len(element_of(argument).args)):
            low, high = _result(query, dimension)
            if nested:
                ends = []
                for end in ("min", "max"):
                    outer.append((f"{stem}.{end}.{d}.outer", var(f"{stem}.{end}.{d}")))
                    ends.append(var(outer[-1][0]))
                low, high = _clamp(low, ends[0], ends[1]), _clamp(high, ends[0], ends[1])
            lets += [(f"{stem}.min.{d}", low), (f"{stem}.max.{d}", high)]
            dimension += 1
    if not lets:
        return body
    for name, value in reversed([*outer, (query, _ask(function)), *lets]):
        body = LetStmt(name, value, body)
    return body


def _known_inputs(body: Stmt, function: Function, regions: list[list[Range]]) -> Stmt:
    """As `query_inputs`, for a callee whose regions are known from its program."""
    call = function.extern()
    assert call is not None
    buffers = [i for i, argument in enumerate(call.args) if is_buffer(argument)]
    for i, ranges in zip(buffers, regions, strict=True):
        stem = input_stem(function, i)
        for d, (low, high) in enumerate(ranges):
            body = LetStmt(f"{stem}.min.{d}", low, body)
            body = LetStmt(f"{stem}.max.{d}", high, body)
    return body


def _grow_outputs(body: Stmt, function: Function, nested: bool) -> Stmt:
    if not function.args or not computes_more(function):
        return body
    query = f"{function.name}.grown"
    known = known_regions(function)
    dimension = _input_dimensions(function)
    lets: list[tuple[str, Expr]] = []
    outer: list[tuple[str, Expr]] = []
    for d, arg in enumerate(function.args):
        stem = f"{function.name}.s0.{arg}"
        low, high = _result(query, dimension + d) if known is None else known[0][d]
        low, high = minimum(low, var(f"{stem}.min")), maximum(high, var(f"{stem}.max"))
        if nested:
            ends = []
            for end in ("min", "max"):
                outer.append((f"{query}.{end}.{d}.outer", var(f"{query}.{end}.{d}")))
                ends.append(var(outer[-1][0]))
            # The enlarged part is moved into the enlarged whole, as far as that is possible.
            shift = minimum(int32(0), sub(ends[1], high))
            low = _clamp(add(low, shift), ends[0], ends[1])
            high = _clamp(add(high, shift), ends[0], ends[1])
        lets += [(f"{query}.min.{d}", low), (f"{query}.max.{d}", high)]
    for d, arg in enumerate(function.args):
        for end in ("min", "max"):
            lets.append((f"{function.name}.s0.{arg}.{end}", var(f"{query}.{end}.{d}")))
    asked = [(query, _ask(function))] if known is None else []
    for name, value in reversed([*outer, *asked, *lets]):
        body = LetStmt(name, value, body)
    return body


def needed_regions(function: Function) -> list[tuple[Call, list[Range]]]:
    """Element and region of each buffer that the function computing a Func needs."""
    call = function.extern()
    assert call is not None
    found: list[tuple[Call, list[Range]]] = []
    for i, argument in enumerate(call.args):
        if not is_buffer(argument):
            continue
        element, stem = element_of(argument), input_stem(function, i)
        region = [
            (var(f"{stem}.min.{d}"), var(f"{stem}.max.{d}")) for d in range(len(element.args))
        ]
        found.append((element, list(region)))
    return found


def _input_dimensions(function: Function) -> int:
    call = function.extern()
    assert call is not None
    return sum([len(element_of(a).args) for a in call.args if is_buffer(a)])


def _clamp(e: Expr, low: Expr, high: Expr) -> Expr:
    return maximum(minimum(e, high), low)


def _result(query: str, dimension: int) -> Range:
    handle = Variable(Handle(), query)

    def field(name: str) -> Expr:
        args = (handle, int32(dimension), StringImm(name))
        return Call(INT32, "query_result", args, CallKind.INTRINSIC)

    low = field("min")
    return low, sub(add(low, field("extent")), 1)


def _ask(function: Function) -> Call:
    call = function.extern()
    assert call is not None
    args: list[Expr] = []
    for argument in call.args:
        args.append(_query_buffer(element_of(argument)) if is_buffer(argument) else argument)
    region: list[Expr] = []
    for arg in function.args:
        stem = f"{function.name}.s0.{arg}"
        low, high = var(f"{stem}.min"), var(f"{stem}.max")
        region += [low, add(sub(high, low), 1), int32(0)]
    args += [_buffer_without_memory(t, region) for t in function.output_types]
    return Call(Handle(), "query_extern", tuple(args), CallKind.INTRINSIC, call.target)


def _query_buffer(element: Call) -> Call:
    """Of an image the fields are those that the call was given; of a Func nothing is known."""
    fields: list[Expr] = []
    for d in range(len(element.args)):
        if element.kind is CallKind.IMAGE:
            fields += [image_field(element, f, d) for f in ("min", "extent", "stride")]
        else:
            fields += [int32(0)] * 3
    return _buffer_without_memory(element.type, fields)


def _buffer_without_memory(t: Type, fields: list[Expr]) -> Call:
    return intrinsic(Handle(), "query_buffer", Const(t, 0), *fields)
