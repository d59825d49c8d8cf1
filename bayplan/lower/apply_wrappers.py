"""Makes Funcs call the wrappers that `in_` and `clone_in` gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Call, CallKind
from bayplan.ir.walk import Rewriter
from bayplan.language.function import Definition, Function
from bayplan.lower.find_calls import direct_calls


class _Redirect(Rewriter):
    """Points calls at other Funcs, by name."""

    def __init__(self, wrappers: Mapping[str, Function]) -> None:
        super().__init__()
        self._wrappers = wrappers

    def rewrite_Call(self, node: Call) -> Any:
        call = self.rebuild(node)
        wrapper = self._wrappers.get(call.name) if call.kind is CallKind.FUNC else None
        if wrapper is None:
            return call
        return Call(call.type, wrapper.name, call.args, call.kind, wrapper, call.value_index)


def apply_wrappers(env: dict[str, Function]) -> None:
    """Redirects calls of wrapped Funcs to their wrappers, in the private copies of a lowering.

    A wrapper made for a named user takes precedence over one made for all. Wrappers of one Func
    go on calling the Func itself.

    Raises:
        ScheduleError: A wrapper was made for a Func that does not call the wrapped one.
    """
    plan: dict[str, dict[str, Function]] = {name: {} for name in env}
    custom: list[tuple[str, str, str]] = []
    for wrapped, function in env.items():
        wrappers: dict[str, Any] = function.schedule.wrappers
        own = {w.name for w in wrappers.values()}
        for user, wrapper in wrappers.items():
            if user == "":
                for other in env:
                    if other != wrapped and other not in own and other not in wrappers:
                        _insert(plan[other], wrapped, wrapper)
            elif user in env:
                _insert(plan[user], wrapped, wrapper)
                custom.append((user, wrapped, wrapper.name))
    for name, redirections in plan.items():
        if redirections:
            _redirect(env[name], redirections)
    for user, wrapped, wrapper_name in custom:
        _check_used(env[user], wrapped, plan[user].get(wrapped), wrapper_name)


def _insert(redirections: dict[str, Function], wrapped: str, wrapper: Function) -> None:
    """Record wrapped -> wrapper; a chain of wrappers in one user becomes a single step."""
    for name, target in redirections.items():
        if target.name == wrapped:
            redirections[name] = wrapper
            return
        if name == wrapper.name:
            redirections[wrapped] = redirections.pop(name)
            return
    redirections[wrapped] = wrapper


def _redirect(function: Function, redirections: Mapping[str, Function]) -> None:
    rewriter = _Redirect(redirections)
    for definition in function.stages():
        _redirect_definition(definition, rewriter)


def _redirect_definition(definition: Definition, rewriter: _Redirect) -> None:
    definition.args = tuple([rewriter(a) for a in definition.args])
    definition.values = tuple([rewriter(v) for v in definition.values])
    definition.predicate = rewriter(definition.predicate)
    for special in definition.specializations:
        special.condition = rewriter(special.condition)
        _redirect_definition(special.definition, rewriter)


def _check_used(user: Function, wrapped: str, final: Function | None, wrapper: str) -> None:
    if final is None:
        return
    callees = direct_calls(user)
    if final.name not in callees:
        lines = "".join(f"\n  {name}" for name in callees)
        raise ScheduleError(
            f"{user.name} does not use {wrapped}, so it cannot get a wrapper of it; "
            f"it uses:{lines}",
            user.where,
        )
