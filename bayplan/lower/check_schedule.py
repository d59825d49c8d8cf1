"""Checks that the schedule of each Func is legal; errors list what would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, ProducerConsumer, Stmt
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import OUTERMOST, FusedPair, LoopLevel
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import CallIndex
from bayplan.lower.fuse_loops import find_dim, var_name_match
from bayplan.lower.inline_functions import can_be_inlined

_ORDERED = frozenset([ForKind.Serial, ForKind.Unrolled, ForKind.Extern])


class Site:
    """A loop in which a Func may be computed.

    Attributes:
        is_parallel: its iterations run at once.
        has_slots: whoever runs them has storage of its own.
    """

    __slots__ = ("has_slots", "is_parallel", "kind", "level")

    def __init__(self, level: LoopLevel, kind: ForKind) -> None:
        self.level = level
        self.kind = kind
        self.is_parallel = kind not in _ORDERED
        self.has_slots = kind is ForKind.Parallel


def check_outputs(outputs: Sequence[Function]) -> None:
    """Makes outputs that were not scheduled root, and refuses other levels."""
    for function in outputs:
        schedule = function.schedule
        levels = (schedule.compute_level, schedule.store_level, schedule.hoist_storage_level)
        if not all(level.is_inlined() or level.is_root() for level in levels):
            raise ScheduleError(
                f"the output {function.name} is always computed and stored at root, but its "
                f"schedule says: computed at {levels[0]}, stored at {levels[1]}, storage hoisted "
                f"to {levels[2]}",
                schedule.where or function.where,
            )
        schedule.compute_level = LoopLevel.root()
        schedule.store_level = LoopLevel.root()
        schedule.hoist_storage_level = LoopLevel.root()


def check_fused_groups(groups: Sequence[Sequence[str]], env: dict[str, Function]) -> None:
    """Checks that stages computed together have loops that can be shared."""
    for group in groups:
        for name in group:
            for definition in env[name].stages():
                for pair in definition.schedule.fused_pairs:
                    _check_pair(pair, definition, env)
                for special in definition.specializations:
                    for pair in special.definition.schedule.fused_pairs:
                        _check_pair(pair, special.definition, env)


def _check_pair(pair: FusedPair, parent: Definition, env: dict[str, Function]) -> None:
    one, two = env[pair.func_1], env[pair.func_2]
    child = two.definition(pair.stage_2)
    names = (f"{pair.func_1}.s{pair.stage_1}", f"{pair.func_2}.s{pair.stage_2}")
    where = child.where or two.where

    def require(condition: bool, text: str) -> None:
        if not condition:
            raise ScheduleError(f"cannot share loops by compute_with: {text}", where)

    if two.stages()[0].specializations:
        raise ScheduleError(
            f"{two.name} is computed with {one.name}, and a Func with specializations cannot be",
            where,
        )
    for function, name in ((one, names[0]), (two, names[1])):
        require(not function.schedule.compute_level.is_inlined(), f"{name} is inlined")
    require(
        one.schedule.compute_level == two.schedule.compute_level,
        f"the compute levels of {names[0]} (computed at {one.schedule.compute_level}) and "
        f"{names[1]} ({two.schedule.compute_level}) differ",
    )
    dims_1, dims_2 = parent.schedule.dims, child.schedule.dims
    start_1, start_2 = find_dim(dims_1, pair.var), find_dim(dims_2, pair.var)
    require(start_1 >= 0, f"{names[0]} has no loop {pair.var}")
    require(start_2 >= 0, f"{names[1]} has no loop {pair.var}")
    fused = len(dims_1) - start_1 - 1
    require(
        fused == len(dims_2) - start_2 - 1,
        f"{names[0]} and {names[1]} have different numbers of loops from {pair.var} outwards",
    )
    for i in range(fused):
        d1, d2 = dims_1[start_1 + i], dims_2[start_2 + i]
        for what, same in (
            ("names", var_name_match(d1.var, d2.var)),
            ("for types", d1.kind is d2.kind),
            ("types", d1.dim_type is d2.dim_type),
        ):
            require(
                same,
                f"{what} of dim {i} of {names[0]} ({d1.var}, {d1.kind.value}) and "
                f"{names[1]} ({d2.var}, {d2.kind.value}) differ",
            )


def check_inlined(function: Function) -> None:
    """Refuses schedules that mean nothing for a Func computed wherever it is used."""
    definition = function.definition(0)
    schedule = function.schedule
    where = schedule.where or function.where
    _check_inlined_levels(function)
    if definition.specializations:
        raise ScheduleError(
            f"{function.name} is inlined, so it has no loops to specialize; specialize the Func "
            "that it is inlined into",
            where,
        )
    for dim in definition.schedule.dims:
        if dim.kind in _ORDERED and dim.kind is not ForKind.Unrolled:
            continue
        verb = {ForKind.Unrolled: "unroll", ForKind.Vectorized: "vectorize"}.get(
            dim.kind, "parallelize"
        )
        raise ScheduleError(
            f"{function.name} is inlined, so it has no loop over {dim.var} to {verb}",
            dim.where or where,
        )


def _check_inlined_levels(function: Function) -> None:
    schedule = function.schedule
    for word, level, need in (
        ("store", schedule.store_level, "store"),
        ("hoist_storage", schedule.hoist_storage_level, "hoist_storage"),
    ):
        if level.is_inlined():
            continue
        directive = f"{need}_root" if level.is_root() else f"{need}_at"
        if word == "hoist_storage" and not level.is_root():
            directive = need
        also = "compute_root or compute_at" if level.is_root() else "compute_at"
        raise ScheduleError(
            f"{function.name} is inlined, so {directive}() means nothing for it; it needs {also} "
            "too",
            schedule.where or function.where,
        )


def check_levels(
    function: Function, stmt: Stmt, is_output: bool, lowering: Lowering, calls: CallIndex
) -> bool:
    """Checks the levels of a Func against the loops that use it.

    Returns:
        Whether the Func is to be realized: a Func may be mentioned and yet not be used.

    Raises:
        ScheduleError: The levels do not enclose every use, or there would be a race.
    """
    _warn_of_unscheduled_updates(function, lowering)
    if is_output:
        return True
    if function.name not in calls(stmt):
        return False
    schedule = function.schedule
    if schedule.compute_level.is_inlined():
        _check_inlined_levels(function)
        if not function.updates:
            check_inlined(function)
        return True
    sites = _find_sites(function.name, stmt, calls)
    hoist = store = compute = -1
    for i, site in enumerate(sites):
        if site.level == schedule.hoist_storage_level:
            hoist = i
        if site.level == schedule.store_level and hoist >= 0:
            store = i
        if site.level == schedule.compute_level and store >= 0:
            compute = i
    races: list[str] = []
    for site in sites[store + 1 : compute + 1] if compute >= 0 else []:
        if site.is_parallel:
            races.append(
                f"the iterations of the {site.kind.value} loop {site.level} would share the "
                f"storage of {function.name}: it is computed inside that loop and stored outside"
            )
    for site in sites[hoist + 1 : compute + 1] if compute >= 0 and not races else []:
        if site.is_parallel and not site.has_slots:
            races.append(
                f"the lanes or threads of the loop {site.level} would share the storage of "
                f"{function.name}: it is computed inside that loop and hoisted outside"
            )
    if races or compute < 0:
        raise ScheduleError(
            _invalid_location(function, stmt, sites, races, calls),
            schedule.where or function.where,
        )
    return True


def _warn_of_unscheduled_updates(function: Function, lowering: Lowering) -> None:
    if not any(d.schedule.touched for d in function.stages()):
        return
    for i, update in enumerate(function.updates):
        if not update.schedule.touched:
            lowering.warnings.append(
                f"update({i}) of {function.name} has no schedule while other definitions of it "
                f"have; {function.name}.update({i}).unscheduled() says that this is meant"
            )


def _find_sites(name: str, stmt: Stmt, calls: CallIndex) -> list[Site]:
    """The loops around every use of a Func, outermost first."""
    common: list[Site] | None = None
    stack: list[Site] = []

    def visit(node: Node) -> None:
        nonlocal common
        if name not in calls(node):
            return
        if isinstance(node, For):
            visit(node.min)
            visit(node.extent)
            stack.append(Site(_level_of_loop(node.name), node.kind))
            visit(node.body)
            stack.pop()
        elif isinstance(node, Expr):
            if common is None:
                common = list(stack)
            else:
                known = common
                common = [s for s in stack if any(s.level == k.level for k in known)]
        else:
            for child in node.children():
                visit(child)

    visit(stmt)
    return common if common is not None else []


def _level_of_loop(loop: str) -> LoopLevel:
    func = loop.split(".", 1)[0]
    if not func:
        return LoopLevel.root()
    return LoopLevel.at(func, loop.rsplit(".", 1)[1])


def _invalid_location(
    function: Function, stmt: Stmt, sites: list[Site], races: list[str], calls: CallIndex
) -> str:
    schedule = function.schedule
    lines = list(races)
    lines.append(f"{function.name} cannot be computed there:")
    levels = schedule.hoist_storage_level, schedule.store_level, schedule.compute_level
    lines.append("  " + _as_source(function.name, *levels))
    lines.append("It could be computed at:")
    for site in sites:
        lines.append("  " + _as_source(function.name, site.level, site.level, site.level))
    lines.append(f"These loops use {function.name}:")
    lines.extend(_UsesAsText(function.name, calls).of(stmt))
    return "\n".join(lines)


def _as_source(name: str, hoist: LoopLevel, store: LoopLevel, compute: LoopLevel) -> str:
    text = name
    if compute.is_inlined():
        return f"{name}.compute_inline()"
    if hoist != store:
        text += _directive("hoist_storage", "", hoist)
    if store != compute:
        text += _directive("store", "_at", store)
    return text + _directive("compute", "_at", compute)


def _directive(verb: str, at: str, level: LoopLevel) -> str:
    if level.is_root():
        return f".{verb}_root()"
    loop = "Var.outermost()" if level.var == OUTERMOST else level.var
    return f".{verb}{at}({level.func}, {loop})"


class _UsesAsText:
    """The loops around the uses of a Func as lines of text, others as an ellipsis."""

    def __init__(self, name: str, calls: CallIndex) -> None:
        self._name = name
        self._calls = calls
        self._lines: list[str] = []
        self._caller = ""

    def of(self, stmt: Stmt) -> list[str]:
        self._visit(stmt, 1)
        return self._lines

    def _ellipsis(self, indent: int) -> None:
        if not self._lines or not self._lines[-1].endswith("..."):
            self._lines.append("  " * indent + "...")

    def _visit(self, node: Any, indent: int) -> None:
        if isinstance(node, Expr):
            self._visit_expr(node, indent)
            return
        if isinstance(node, For) and not node.name.endswith((OUTERMOST, ".__root")):
            if self._name not in self._calls(node.body):
                self._ellipsis(indent)
                return
            self._lines.append("  " * indent + f"for {node.name}:")
            self._visit(node.body, indent + 1)
            return
        outer = self._caller
        if isinstance(node, ProducerConsumer) and node.is_producer:
            self._caller = node.name
        for child in node.children():
            self._visit(child, indent)
        self._caller = outer

    def _visit_expr(self, e: Expr, indent: int) -> None:
        if self._name not in self._calls(e):
            return
        if type(e) is Call and e.kind is CallKind.FUNC and e.name == self._name:
            self._lines.append("  " * indent + f"{self._caller} uses {self._name}")
            return
        for child in e.children():
            self._visit_expr(child, indent)  # type: ignore[arg-type]


def is_inlined_group(functions: Sequence[Function]) -> bool:
    """Whether a group of one Func is to be replaced by its value wherever it is used."""
    return (
        len(functions) == 1
        and functions[0].schedule.compute_level.is_inlined()
        and can_be_inlined(functions[0])
        and not functions[0].definition(0).schedule.fused_pairs
    )
