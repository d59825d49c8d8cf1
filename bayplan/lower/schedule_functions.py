"""Makes the initial loop nests: every Func computed and stored where its schedule says."""

from __future__ import annotations

from typing import Any

from bayplan.ir.build import int32, nothing
from bayplan.ir.errors import InternalError
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import For, LetStmt, Provide, Stmt
from bayplan.ir.walk import Rewriter
from bayplan.language.function import Function
from bayplan.language.schedule import OUTERMOST
from bayplan.lower.check_extern_stages import check_extern_stages
from bayplan.lower.check_schedule import (
    check_fused_groups,
    check_inlined,
    check_levels,
    check_outputs,
    is_inlined_group,
)
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import CallIndex
from bayplan.lower.fuse_loops import split_group
from bayplan.lower.inject_realization import InjectRealization
from bayplan.lower.inline_functions import inline_functions

ROOT_LOOP = ".__root"


def schedule_functions(lowering: Lowering) -> Stmt:
    """Turns the Funcs of a lowering into loops, consumers first.

    The loops speak of regions "f.s0.x.min" .. "f.s0.x.max" that infer_bounds defines, and storage
    of "f.x.min_realized" and "f.x.extent_realized" that infer_allocation_bounds defines.

    Raises:
        ScheduleError: A schedule that is not legal.
    """
    env = lowering.env
    check_outputs([env[name] for name in lowering.outputs])
    check_extern_stages(lowering)
    check_fused_groups(lowering.fused_groups, env)
    stmt: Stmt = For(ROOT_LOOP, int32(0), int32(1), ForKind.Serial, Partition.Never, nothing())
    calls = CallIndex()
    # Funcs to inline are collected, so that a chain of them costs one walk.
    inlined: list[Function] = []
    groups: list[list[str]] = []
    for group in reversed(lowering.fused_groups):
        functions = [env[name] for name in group]
        if is_inlined_group(functions) and functions[0].name not in lowering.outputs:
            check_inlined(functions[0])
            inlined.append(functions[0])
            groups.append(group)
            continue
        if inlined:
            stmt = inline_functions(stmt, inlined, calls)
            inlined = []
        for part in reversed(_used_parts(stmt, functions, lowering, calls)):
            stmt = _realize(stmt, part, lowering, calls)
            groups.append([f.name for f in part])
    lowering.fused_groups = groups[::-1]
    if inlined:
        stmt = inline_functions(stmt, inlined, calls)
    assert isinstance(stmt, For) and stmt.name == ROOT_LOOP
    return _RemoveOutermost()(stmt.body)


def _used_parts(
    stmt: Stmt, functions: list[Function], lowering: Lowering, calls: CallIndex
) -> list[list[Function]]:
    """The members of a group that are to be realized, those together that share loops."""
    used = [
        f for f in functions if check_levels(f, stmt, f.name in lowering.outputs, lowering, calls)
    ]
    return split_group(used)


def _realize(stmt: Stmt, functions: list[Function], lowering: Lowering, calls: CallIndex) -> Stmt:
    outputs = [f.name in lowering.outputs for f in functions]
    injector = InjectRealization(functions, outputs, lowering, calls)
    stmt = injector(stmt)
    if not injector.found_all_levels():
        names = ", ".join(f.name for f in functions)
        raise InternalError(f"no place was found to realize {names}", functions[-1].where)
    return stmt


class _RemoveOutermost(Rewriter):
    """Removes the marker loops around each stage, now that nothing is to be placed in them."""

    def rewrite_For(self, node: For) -> Any:
        if not node.name.endswith("." + OUTERMOST):
            return self.rebuild(node)
        return self(node.body)

    def rewrite_LetStmt(self, node: LetStmt) -> Any:
        # The bounds of a marker loop are used by that loop alone.
        return self(node.body) if f".{OUTERMOST}.loop_" in node.name else self.rebuild(node)

    def rewrite_Provide(self, node: Provide) -> Any:
        return node
