"""Marks where in its loops a stage prefetches; `inject_prefetch` later finds what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.ir.build import true
from bayplan.ir.errors import ScheduleError
from bayplan.ir.stmts import For, Prefetch, Stmt
from bayplan.ir.types import Type
from bayplan.ir.walk import StmtRewriter
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.language.schedule import PrefetchDirective


class _Placer(StmtRewriter):
    memoise = False

    def __init__(
        self, prefix: str, directives: Sequence[PrefetchDirective], env: Mapping[str, Function]
    ) -> None:
        super().__init__()
        self._prefix = prefix
        self._directives = directives
        self._env = env
        self._loops: list[str] = []

    def rewrite_For(self, node: For) -> Any:
        self._loops.append(node.name)
        body = self(node.body)
        # Of several directives for one name the last counts.
        seen: set[str] = set()
        for directive in reversed(self._directives):
            if node.name.endswith("." + directive.at) and directive.name not in seen:
                seen.add(directive.name)
                body = self._place(node.name, directive, body)
        self._loops.pop()
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Provide(self, node: Any) -> Any:
        return node

    def _place(self, loop: str, directive: PrefetchDirective, body: Stmt) -> Stmt:
        ending = "." + directive.from_var
        for name in reversed(self._loops):
            if name.startswith(self._prefix) and name.endswith(ending):
                placed = PrefetchDirective(
                    directive.name,
                    loop,
                    name,
                    directive.offset,
                    directive.strategy,
                    directive.source,
                    directive.where,
                )
                return Prefetch(directive.name, self._types(directive), (), true(), placed, body)
        raise ScheduleError(
            f"prefetch of {directive.name}: {directive.from_var} is no loop around {directive.at}; "
            "the second argument names the loop to run ahead in",
            directive.where,
        )

    def _types(self, directive: PrefetchDirective) -> tuple[Type, ...]:
        if isinstance(directive.source, Parameter):
            return (directive.source.type,)
        function = self._env.get(directive.name)
        if function is None:
            raise ScheduleError(
                f"prefetch of {directive.name}: the pipeline does not use it",
                directive.where,
            )
        return tuple(function.output_types)


def place_prefetches(
    stmt: Stmt,
    prefix: str,
    directives: Sequence[PrefetchDirective],
    env: Mapping[str, Function],
) -> Stmt:
    """Puts a Prefetch without bounds into the loops named by the directives of a stage.

    Until `inject_prefetch` its `source` is the directive with full loop names.
    """
    return _Placer(prefix, directives, env)(stmt) if directives else stmt
