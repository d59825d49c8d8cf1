"""Pure and update definitions: the checks, and the records they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.ir.build import cast, is_one, true
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Expr, Let, Variable
from bayplan.ir.node import deep_recursion, trim_front_table
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32, Type
from bayplan.ir.walk import iterate
from bayplan.language import changes
from bayplan.language.function import Definition, Function
from bayplan.language.naming import unique_letter_name, unique_name
from bayplan.language.parameter import Parameter, ReductionDomain
from bayplan.language.purity import is_parallel_safe
from bayplan.language.schedule import OUTERMOST, Dim, DimType, StageSchedule, StorageDim

_RANDOM = frozenset(["random_float", "random_int", "random_uint"])
_random_tags = 0


def _finished(e: Expr, free: list[Expr], tag: int) -> Expr:
    """`e` in which each random call depends on the coordinates and on the definition."""
    for n in iterate(e):
        if type(n) is Call and n.name in _RANDOM:
            from bayplan.language.random_calls import finish_random

            return finish_random(e, free, tag)
    return e


def _next_random_tag() -> int:
    global _random_tags
    _random_tags += 1
    return _random_tags - 1


def check_func_name(name: str) -> None:
    """Raise where a Func cannot have this name."""
    if "." in name:
        raise DefinitionError(f'"{name}" cannot name a Func: names of Funcs have no dots')


def coordinates(name: str, args: Sequence[Expr]) -> list[Expr]:
    """The arguments of a use of the Func or image `name` as int32; narrower integers widen."""
    result: list[Expr] = []
    for i, arg in enumerate(args):
        t = arg.type
        wide = t.width > 32 or (t.kind == "uint" and t.width == 32)
        if t.kind not in ("int", "uint") or wide:
            raise TypeMismatchError(
                f"argument {i + 1} in a call of {name} is a {t}, which does not become a "
                f"coordinate by itself: convert it with i32({arg})"
            )
        result.append(cast(INT32, arg))
    return result


class _Uses:
    """What the expressions of a definition refer to."""

    def __init__(self, func: str, pure_args: Sequence[str]) -> None:
        self.func = func
        self.pure_args = pure_args
        self.domain: ReductionDomain | None = None
        self.calls_itself = False

    def add(self, roots: Iterable[Expr], domain_variables_by_name: bool = False) -> None:
        """Check the expressions and take note of their reduction domain."""
        nodes = list(iterate(*roots))
        bound = {n.name for n in nodes if type(n) is Let}
        for n in nodes:
            if type(n) is Variable:
                if n.name not in bound:
                    self._variable(n, domain_variables_by_name)
            elif type(n) is Call and n.kind is CallKind.FUNC and n.name == self.func:
                self._self_reference(n)

    def _variable(self, v: Variable, by_name: bool) -> None:
        source = v.source
        if isinstance(source, ReductionDomain):
            if self.domain is None:
                self.domain = source
            elif self.domain is not source:
                raise DefinitionError(
                    f"the definition of {self.func} uses variables of two RDoms, "
                    f"{self.domain.name} and {source.name}; one definition has one RDom"
                )
            return
        if source is not None or (v.name and v.name in self.pure_args):
            return
        if by_name and self.domain is not None:
            if v.name in [r.var for r in self.domain.variables]:
                return
        known = ", ".join([a for a in self.pure_args if a]) or "none"
        raise DefinitionError(
            f"the variable {v.name} in the definition of {self.func} is not defined; "
            f"the pure variables on its left side: {known}"
        )

    def _self_reference(self, call: Call) -> None:
        self.calls_itself = True
        for pure, arg in zip(self.pure_args, call.args, strict=True):
            if pure and not (type(arg) is Variable and arg.name == pure):
                raise DefinitionError(
                    f"{self.func} refers to itself as {call}; such a reference must have the pure "
                    f"variables in the same places as on the left side, here {pure}"
                )


def freeze_called(func: Function, roots: Iterable[Expr]) -> None:
    """The Funcs that are called can get no further definitions."""
    for n in iterate(*roots):
        if type(n) is Call and n.kind is CallKind.FUNC and n.target is not func:
            n.target.frozen = True


def _check_distinct(func: Function, args: Sequence[str]) -> None:
    for i, arg in enumerate(args):
        if arg in args[:i]:
            raise DefinitionError(
                f'arguments {args.index(arg)} and {i} of {func.name} are both named "{arg}"'
            )


def check_required(func: Function, types: Sequence[Type], dimensions: int) -> None:
    """Raise where the values are not those that the Func was declared to have."""
    if func.required_types and tuple(types) != func.required_types:
        wanted = ", ".join([str(t) for t in func.required_types])
        found = ", ".join([str(t) for t in types])
        raise TypeMismatchError(f"{func.name} must hold {wanted}, but its definition gives {found}")
    if func.required_dimensions is not None and func.required_dimensions != dimensions:
        raise DefinitionError(
            f"{func.name} must have {func.required_dimensions} dimensions, "
            f"but its definition has {dimensions}"
        )


def output_parameters(name: str, types: Sequence[Type], dimensions: int) -> list[Parameter]:
    """The buffers that the values of a Func are written to when it is an output."""
    where = user_line()
    names = [name] if len(types) == 1 else [f"{name}.{i}" for i in range(len(types))]
    return [Parameter(n, t, True, dimensions, where) for n, t in zip(names, types, strict=True)]


def define_pure(func: Function, args: list[str], values: Sequence[Expr]) -> None:
    """Give a Func its pure definition: `values` at the coordinates `args`."""
    trim_front_table()
    with deep_recursion():
        _define_pure(func, args, values)


def _define_pure(func: Function, args: list[str], values: Sequence[Expr]) -> None:
    if func.init is not None:
        raise DefinitionError(f"{func.name} is defined already, at {func.where}")
    if func.frozen:
        raise DefinitionError(f"{func.name} was used already, so it cannot be defined any more")
    _check_distinct(func, args)
    uses = _Uses(func.name, args)
    uses.add(values)
    if uses.domain is not None:
        raise DefinitionError(
            f"the pure definition of {func.name} uses the RDom {uses.domain.name}; only updates, "
            "and inline reductions such as sum, can"
        )
    freeze_called(func, values)
    arg_nodes = tuple([Variable(INT32, arg) for arg in args])
    tag = _next_random_tag()
    values = tuple([_finished(value, list(arg_nodes), tag) for value in values])
    check_required(func, [v.type for v in values], len(args))
    func.where = user_line()
    schedule = StageSchedule()
    schedule.dims = [Dim(arg, where=func.where) for arg in [*args, OUTERMOST]]
    func.args = list(args)
    func.schedule.storage_dims = [StorageDim(arg) for arg in args]
    func.output_types = [v.type for v in values]
    if not func.output_buffers:
        func.output_buffers = output_parameters(func.name, func.output_types, len(args))
    changes.bump()
    func.init = Definition(arg_nodes, tuple(values), true(), True, schedule, func.where)


def _check_update(func: Function, args: Sequence[Expr], values: Sequence[Expr]) -> None:
    number = len(func.updates)
    if func.init is None:
        raise DefinitionError(f"{func.name} cannot be updated before it has a pure definition")
    if func.frozen:
        raise DefinitionError(
            f"{func.name} can be given no further update: it was realized, or is used by another "
            "Func"
        )
    if len(args) != func.dimensions():
        raise DefinitionError(
            f"update {number} of {func.name} has {len(args)} coordinates, its pure definition "
            f"has {func.dimensions()}"
        )
    if len(values) != func.outputs():
        raise DefinitionError(
            f"update {number} of {func.name} gives {len(values)} values, its pure definition "
            f"gives {func.outputs()}"
        )
    for i, (value, t) in enumerate(zip(values, func.output_types, strict=True)):
        if value.type is not t:
            part = f"value {i} of " if len(values) > 1 else ""
            raise TypeMismatchError(
                f"{part}update {number} of {func.name} is a {value.type}, "
                f"but its pure definition is a {t}"
            )


def _pure_args(func: Function, args: Sequence[Expr]) -> list[str]:
    """Names of the pure variables that stand in their own place on the left side, else ""."""
    return [
        arg.name if type(arg) is Variable and arg.source is None and arg.name == own else ""
        for arg, own in zip(args, func.args, strict=True)
    ]


def _update_dims(
    func: Function, definition: Definition, domain: ReductionDomain | None, pure: list[str]
) -> list[Dim]:
    where = definition.where
    dims = []
    for rvar in domain.variables if domain is not None else []:
        safe = is_parallel_safe(rvar.var, func.name, definition)
        kind = DimType.PureRVar if safe else DimType.ImpureRVar
        dims.append(Dim(rvar.var, dim_type=kind, where=where))
    dims.extend([Dim(arg, where=where) for arg in pure if arg])
    dims.append(Dim(OUTERMOST, where=where))
    return dims


def define_update(
    func: Function,
    args: Sequence[Expr],
    values: Sequence[Expr],
    domain: ReductionDomain | None = None,
) -> Definition:
    """Add an update definition; `domain` is given where no expression may refer to it."""
    trim_front_table()
    with deep_recursion():
        return _define_update(func, args, values, domain)


def _define_update(
    func: Function,
    args: Sequence[Expr],
    values: Sequence[Expr],
    domain: ReductionDomain | None,
) -> Definition:
    _check_update(func, args, values)
    pure = _pure_args(func, args)
    uses = _Uses(func.name, pure)
    uses.add([*args, *values])
    if uses.domain is None:
        uses.domain = domain
    domain = uses.domain
    predicate: Expr = true()
    if domain is not None:
        assert domain.predicate is not None
        predicate = domain.predicate
        uses.add([predicate], domain_variables_by_name=True)
        domain.frozen = True
    freeze_called(func, [*args, *values, predicate])

    free: list[Expr] = [Variable(INT32, arg) for arg in pure if arg]
    if domain is not None:
        free.extend([Variable(INT32, r.var, domain) for r in domain.variables])
    tag = _next_random_tag()
    definition = Definition(
        tuple([_finished(arg, free, tag) for arg in args]),
        tuple([_finished(value, free, tag) for value in values]),
        _finished(predicate, free, tag) if not is_one(predicate) else predicate,
        False,
        StageSchedule(),
        user_line(),
    )
    if domain is not None:
        definition.schedule.rvars = list(domain.variables)
    definition.schedule.dims = _update_dims(func, definition, domain, pure)
    func.updates.append(definition)
    changes.bump()
    if domain is None and all(pure) and not uses.calls_itself:
        _warn_of_hidden(func)
    return definition


def _warn_of_hidden(func: Function) -> None:
    import warnings

    where = user_line()
    warnings.warn(
        f"update {len(func.updates) - 1} of {func.name} hides its earlier definitions: it covers "
        f"all coordinates and uses neither the Func itself nor an RDom (at {where})",
        RuntimeWarning,
        stacklevel=2,
    )


def new_function(stem: str | None) -> Function:
    """A Function without definition, with a unique name."""
    if stem is not None:
        check_func_name(stem)
    func = Function(unique_letter_name("f") if stem is None else unique_name(stem))
    func.where = user_line()
    return func
