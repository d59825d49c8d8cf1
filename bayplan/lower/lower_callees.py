"""Lowers the pipelines that a pipeline calls, and fits the calls to their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.build import int32, intrinsic
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.types import Handle
from bayplan.ir.walk import iterate, reintern
from bayplan.language.extern_stage import READ, VALUE, ExternDefinition
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.language.promotion import lossless_cast
from bayplan.lower.callee import Callee
from bayplan.lower.callee_values import callee_of, workspace_lines
from bayplan.lower.context import Lowering
from bayplan.lower.extern_buffers import element_of, is_buffer
from bayplan.lower.find_calls import function_exprs
from bayplan.lower.program import Argument


class Callees:
    """The pipelines that are called in one compilation.

    Attributes:
        order: those that are lowered, each after those that it calls.
    """

    def __init__(self) -> None:
        self.order: list[Callee] = []
        self._known: dict[tuple[Any, ...], Callee] = {}
        self._open: list[tuple[int, ...]] = []

    def enter(self, functions: Sequence[Function]) -> None:
        """Notes that the pipeline is being lowered.

        Raises:
            DefinitionError: it calls itself.
        """
        key = tuple([id(f) for f in functions])
        if key in self._open:
            raise DefinitionError(
                f"the pipeline of {functions[0].name} calls itself", functions[0].where
            )
        self._open.append(key)

    def leave(self) -> None:
        """The pipeline that was entered last is lowered."""
        self._open.pop()

    def is_called(self) -> bool:
        """Whether the pipeline being lowered is one that another one calls."""
        return len(self._open) > 1

    def lowered(self, functions: Sequence[Function], name: str, target: Any, embed: bool) -> Callee:
        """The callee, lowered at its first use under that name."""
        from bayplan.lower.pipeline import lower

        key = (name, *[id(f) for f in functions])
        found = self._known.get(key)
        if found is None:
            if any(name == other for other, *_ in self._known):
                raise DefinitionError(
                    f"two pipelines that are called have the name {name}", functions[0].where
                )
            program = lower(functions, target, name, embed=embed, callees=self)
            found = self._known[key] = Callee(program, program.regions)
            self.order.append(found)
        return found


def lower_callees(lowering: Lowering, callees: Callees, embed: bool) -> None:
    """Lowers what external stages of the pipeline call, and orders their arguments accordingly.

    Order: after wrappers are applied; before anything asks for the regions of stages.

    Raises:
        DefinitionError: a call that does not fit, or a pipeline that calls itself.
    """
    for function in lowering.env.values():
        call = function.extern()
        if call is None or call.target.callee is None:
            continue
        extern: ExternDefinition = call.target
        callee = callees.lowered(extern.callee._functions(), extern.symbol, lowering.target, embed)
        lowering.warnings += [w for w in callee.program.warnings if w not in lowering.warnings]
        nodes = _Fitting(function, extern, callee, list(call.args)).nodes()
        fitted = ExternDefinition(
            extern.symbol, function.name, extern.callee,
            tuple([(a.type, a.dimensions if a.is_buffer() else None)
                   for a in callee.program.arguments]),
            extern.outputs, extern.where,
        )  # fmt: skip
        fitted.lowered = callee
        assert function.init is not None
        function.init.values = tuple(
            [
                Call(t, VALUE, tuple(nodes), CallKind.INTRINSIC, fitted, k)
                for k, t in enumerate(function.output_types)
            ]
        )


def unplanned_in_callees(lowering: Lowering) -> tuple[str, ...]:
    """Names of temporaries of callees that have no place in the caller's arena."""
    found: list[str] = []
    for function in lowering.env.values():
        callee = callee_of(function)
        if callee is None:
            continue
        if callee.program.plan is not None:
            found += callee.program.plan.unplanned
        if callee.size is not None and workspace_lines(function) is None:
            found.append(f"{function.name}.workspace")
    return tuple(dict.fromkeys(found))


class _Fitting:
    """Finds for each input of a callee what a stage gives it."""

    def __init__(
        self, function: Function, extern: ExternDefinition, callee: Callee, given: list[Expr]
    ) -> None:
        self.function = function
        self.extern = extern
        self.inputs = [a for a in callee.program.arguments if a.kind != "output_buffer"]
        self.given = given

    def nodes(self) -> list[Expr]:
        """The arguments in the order of the callee's inputs."""
        keys = self.extern.keys
        found: dict[int, Expr] = {}
        if keys and keys[0] is None:
            keys = self._in_order()
        for key, node in zip(keys, self.given, strict=True):
            argument = self._by_key(key)
            if argument is not None:
                found[id(argument)] = self._fit(argument, node)
        return [found[id(a)] if id(a) in found else _shared(a) for a in self.inputs]

    def _in_order(self) -> tuple[Parameter, ...]:
        """The inputs by name, those too that the program turned out not to need."""
        sources = {id(a.source): a.source for a in self.inputs if isinstance(a.source, Parameter)}
        for source in _mentioned(self.extern.callee._functions()):
            sources[id(source)] = source
        ordered = sorted(sources.values(), key=lambda source: source.name)
        if len(self.given) != len(ordered):
            names = ", ".join([source.name for source in ordered]) or "none"
            raise DefinitionError(
                f"{self.function.name} gives {len(self.given)} arguments to {self.extern.symbol}, "
                f"which has {len(ordered)} inputs ({names})",
                self.extern.where,
                "a dict may leave inputs out, which then are inputs of the caller too",
            )
        return tuple(ordered)

    def _by_key(self, key: Any) -> Argument | None:
        for argument in self.inputs:
            if argument.source is key or argument.name == key:
                return argument
        if isinstance(key, Parameter):
            # An input that the callee does not use.
            return None
        names = ", ".join([a.name for a in self.inputs]) or "none"
        raise DefinitionError(
            f"{self.extern.symbol}, which {self.function.name} calls, has no input {key}; it has "
            f"{names}",
            self.extern.where,
        )

    def _fit(self, argument: Argument, node: Expr) -> Expr:
        title = f"the input {argument.name} of {self.extern.symbol}, called by {self.function.name}"
        where = self.extern.where
        if argument.is_buffer() != is_buffer(node):
            what = "a buffer" if argument.is_buffer() else "a scalar"
            raise TypeMismatchError(f"{title}, is {what}", where)
        if not argument.is_buffer():
            fitting = node if node.type is argument.type else lossless_cast(argument.type, node)
            if fitting is None:
                raise TypeMismatchError(
                    f"{title}, has type {argument.type}, not {node.type}", where
                )
            return reintern(fitting)
        element = element_of(node)
        if element.type is not argument.type or len(element.args) != argument.dimensions:
            raise TypeMismatchError(
                f"{title}, has {argument.dimensions} dimensions of {argument.type}, not "
                f"{len(element.args)} of {element.type}",
                where,
            )
        return node


def _mentioned(outputs: Sequence[Function]) -> list[Parameter]:
    """The parameters that the definitions of a pipeline speak of, its outputs' own left out."""
    found: dict[int, Parameter] = {}
    own: set[int] = set()
    pending, met = list(outputs), {id(f) for f in outputs}
    while pending:
        function = pending.pop()
        own |= {id(p) for p in function.output_buffers}
        for node in iterate(*function_exprs(function)):
            source = None
            if type(node) is Call:
                source = node.target
                if isinstance(source, Function) and id(source) not in met:
                    met.add(id(source))
                    pending.append(source)
            elif type(node) is Variable:
                source = node.source
            if isinstance(source, Parameter):
                found[id(source)] = source
    return [p for key, p in found.items() if key not in own]


def _shared(argument: Argument) -> Expr:
    """The callee's own parameter: an input of the caller too."""
    source = argument.source
    if not argument.is_buffer():
        return Variable(argument.type, argument.name, source)
    zeros = tuple([int32(0)] * argument.dimensions)
    element = Call(argument.type, argument.name, zeros, CallKind.IMAGE, source)
    return intrinsic(Handle(), READ, element)
