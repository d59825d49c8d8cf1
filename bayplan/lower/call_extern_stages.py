"""Turns the loops of external stages into calls of their functions."""

from __future__ import annotations

from bayplan.ir.build import add, sub, var
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Evaluate, For, Provide, Stmt
from bayplan.ir.types import INT32
from bayplan.ir.walk import StmtRewriter, iterate
from bayplan.language.extern_stage import VALUE
from bayplan.language.function import Function
from bayplan.lower.callee_values import image_field, workspace_argument
from bayplan.lower.context import Lowering
from bayplan.lower.extern_buffers import Range, buffer_over, is_buffer
from bayplan.lower.query_extern_stages import needed_regions


def call_extern_stages(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which the outermost extern loop of a stage is a call for its region.

    Order: right after infer_bounds, which finds regions from the loops; the names of the region
    mean what they mean at the place of the call.
    """
    if not any(f.extern() is not None for f in lowering.env.values()):
        return stmt
    return _CallExternStages(lowering)(stmt)


class _CallExternStages(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self._lowering = lowering
        self._vectorized = ""

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind is ForKind.Extern:
            return self._call(node)
        outer = self._vectorized
        if node.kind is ForKind.Vectorized:
            self._vectorized = node.name
        body = self(node.body)
        self._vectorized = outer
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        is_extern = any(type(v) is Call and v.name == VALUE for v in node.values)
        return self._call(node) if is_extern else node

    def _call(self, stmt: Stmt) -> Stmt:
        provide = next(n for n in iterate(stmt) if isinstance(n, Provide))
        function = self._lowering.env[provide.name]
        if self._vectorized:
            raise ScheduleError(
                f"{function.name} is computed by a C function, so it cannot be computed inside "
                f"the vectorized loop {self._vectorized}",
                function.schedule.where or function.where,
            )
        value = provide.values[0]
        assert type(value) is Call
        return Evaluate(call_for_region(function, value))


def call_for_region(function: Function, value: Call) -> Call:
    """The call that computes the region "f.s0.x.min" .. "f.s0.x.max" of the Func.

    `value` is the definition, with the names of the place at which it stands.
    """
    needed = iter(needed_regions(function))
    args: list[Expr] = []
    required: list[Expr] = []
    for argument in value.args:
        if not is_buffer(argument):
            args.append(argument)
            continue
        element, region = next(needed)
        if element.kind is CallKind.IMAGE:
            # The function sees the whole image, as the caller gave it.
            required.append(buffer_over("required_region", element, region))
            region = [_whole(element, d) for d in range(len(element.args))]
        args.append(buffer_over("read_buffer", element, region))
    region = []
    for arg in function.args:
        stem = f"{function.name}.s0.{arg}"
        region.append((var(f"{stem}.min"), var(f"{stem}.max")))
    for k, t in enumerate(function.output_types):
        element = Call(t, function.name, (), CallKind.FUNC, function, k)
        args.append(buffer_over("written_buffer", element, region))
    args += workspace_argument(function)
    return Call(INT32, "call_extern", (*args, *required), CallKind.INTRINSIC, value.target)


def _whole(element: Call, dim: int) -> Range:
    low = image_field(element, "min", dim)
    return low, sub(add(low, image_field(element, "extent", dim)), 1)
