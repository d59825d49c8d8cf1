"""in_ and clone_in: Funcs that stand between a Func and its users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.node import deep_recursion
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter, iterate
from bayplan.language import changes
from bayplan.language.definition import define_pure, new_function, output_parameters
from bayplan.language.func import Func
from bayplan.language.function import Definition, Function, Specialization


def called_functions(function: Function) -> list[Function]:
    """The Funcs that the definitions of a Func call directly, itself left out, in order."""
    found: dict[int, Function] = {}
    for definition in function.stages() if function.init is not None else []:
        for root in _expressions(definition):
            for n in iterate(root):
                if type(n) is Call and n.kind is CallKind.FUNC and n.target is not function:
                    found.setdefault(id(n.target), n.target)
    return list(found.values())


def _expressions(definition: Definition) -> list[Expr]:
    roots = [*definition.args, *definition.values, definition.predicate]
    for special in definition.specializations:
        roots.append(special.condition)
        roots += _expressions(special.definition)
    return roots


def all_functions(outputs: Sequence[Function]) -> list[Function]:
    """All Funcs in use, each after those that it calls."""
    order: list[Function] = []
    seen: set[int] = set()
    stack: list[tuple[Function, bool]] = [(f, False) for f in reversed(outputs)]
    while stack:
        f, done = stack.pop()
        if done:
            order.append(f)
        elif id(f) not in seen:
            seen.add(id(f))
            stack.append((f, True))
            stack += [(g, False) for g in reversed(called_functions(f))]
    return order


def _users(func: Func, users: Any) -> list[Function]:
    """The Funcs in which the wrapper is used; empty for all."""
    if users is None:
        return []
    if isinstance(users, Func):
        users = [users]
    if not users:
        raise ScheduleError(f"{func.name()} cannot be wrapped for an empty list of Funcs")
    functions = [f.function() for f in users]
    for f in functions:
        if f is func.function():
            raise ScheduleError(f"{func.name()} cannot be wrapped in itself")
    return functions


def _existing(function: Function, users: Sequence[Function]) -> Function | None:
    """The wrapper that was made for the same users before; raise where they differ."""
    wrappers: dict[str, Any] = function.schedule.wrappers
    names = [f.name for f in users] or [""]
    found: Function | None = wrappers.get(names[0])
    for name in names[1:]:
        if wrappers.get(name) is not found:
            raise ScheduleError(
                f"{function.name} is wrapped for {names[0]} and for {name} in different ways, so "
                "they cannot share a wrapper"
            )
    if found is not None and users:
        for name, wrapper in wrappers.items():
            if wrapper is found and name not in names:
                raise ScheduleError(
                    f"the wrapper {found.name} is shared with {name}; name it in the list as well"
                )
    return found


def _register(function: Function, users: Sequence[Function], wrapper: Function) -> None:
    for name in [f.name for f in users] or [""]:
        function.schedule.wrappers[name] = wrapper
    wrapper.frozen = True
    function.frozen = True
    changes.bump()


def _wrapper_name(function: Function, kind: str, users: Sequence[Function]) -> str:
    if len(users) == 1:
        return f"{function.name}_{kind}_{users[0].name}"
    if users:
        return f"{function.name}_{'wrapper' if kind == 'in' else 'clone'}"
    return f"{function.name}_global_wrapper"


def _check_defined(func: Func) -> Function:
    function = func.function()
    if function.init is None:
        raise ScheduleError(f"{function.name} is not defined yet, so it cannot be wrapped")
    return function


def wrap(func: Func, users: Any) -> Func:
    """A Func that copies `func`, for the given users or for all of them."""
    function = _check_defined(func)
    functions = _users(func, users)
    found = _existing(function, functions)
    if found is None:
        found = new_function(_wrapper_name(function, "in", functions))
        found.is_wrapper_of = function.name
        args = tuple([Variable(INT32, arg) for arg in function.args])
        values = [
            Call(t, function.name, args, CallKind.FUNC, function, i)
            for i, t in enumerate(function.output_types)
        ]
        define_pure(found, list(function.args), values)
        _register(function, functions, found)
    return Func.of(found)


class _Retarget(Rewriter):
    """Makes the references of a Func to itself those of its clone to itself."""

    def __init__(self, original: Function, clone: Function) -> None:
        super().__init__()
        self.original = original
        self.clone = clone

    def rewrite_Call(self, node: Call) -> Expr:
        rebuilt: Call = self.rebuild(node)
        if rebuilt.kind is not CallKind.FUNC or rebuilt.target is not self.original:
            return rebuilt
        return Call(
            rebuilt.type,
            self.clone.name,
            rebuilt.args,
            CallKind.FUNC,
            self.clone,
            rebuilt.value_index,
        )

    def definition(self, source: Definition) -> Definition:
        """The definition with its schedule, as the clone's own."""
        copy = Definition(
            tuple([self(arg) for arg in source.args]),
            tuple([self(value) for value in source.values]),
            self(source.predicate),
            source.is_init,
            source.schedule.copy(),
            source.where,
        )
        copy.specializations = [
            Specialization(s.condition, self.definition(s.definition), s.failure, s.where)
            for s in source.specializations
        ]
        return copy


def clone(func: Func, users: Any) -> Func:
    """A copy of `func` with all its definitions, which the given users call instead."""
    function = _check_defined(func)
    functions = _users(func, users)
    if not functions:
        raise ScheduleError(f"clone_in of {function.name} needs the Funcs that use the clone")
    found = _existing(function, functions)
    if found is not None:
        return Func.of(found)
    copy = new_function(_wrapper_name(function, "clone_in", functions))
    copy.args = list(function.args)
    copy.output_types = list(function.output_types)
    copy.schedule = function.schedule.copy()
    copy.schedule.wrappers = {}
    copy.output_buffers = output_parameters(copy.name, copy.output_types, len(copy.args))
    copy.where = user_line()
    copy.traced = set(function.traced)
    retarget = _Retarget(function, copy)
    with deep_recursion():
        copy.init = retarget.definition(function.stages()[0])
        copy.updates = [retarget.definition(update) for update in function.updates]
    _register(function, functions, copy)
    return Func.of(copy)
