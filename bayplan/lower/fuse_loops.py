"""Builds the loops of a group of Funcs; those of stages that are computed together share loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.ir.build import add, block, int32, maximum, minimum, sub, var
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, LetStmt, Provide, Stmt
from bayplan.ir.walk import Rewriter, StmtRewriter, iterate, substitute
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import Dim, FusedPair, LoopAlignStrategy, LoopLevel
from bayplan.lower.build_loop_nest import NO_FUSE, build_stage
from bayplan.lower.context import Lowering

Range = tuple[Expr, Expr]
"""min and max of a loop."""


def var_name_match(a: str, b: str) -> bool:
    """Whether two loop names mean the same, one perhaps with the names it was split from."""
    return a == b or a.endswith("." + b) or b.endswith("." + a)


def find_dim(dims: Sequence[Dim], name: str) -> int:
    """Index of the loop in `dims`, -1 where there is none."""
    for i, dim in enumerate(dims):
        if var_name_match(dim.var, name):
            return i
    return -1


def fused_name(loop: str) -> str:
    """Name of a shared loop, which tells its bounds from those of the stage's own loop."""
    stem, _, last = loop.rpartition(".")
    return f"{stem}.fused.{last}"


def split_group(functions: Sequence[Function]) -> list[list[Function]]:
    """Parts a group, of which members may turn out not to be used, for schedule_functions.

    The stages of `functions`, those that are used, no longer ask to be computed with others: what
    was to be computed with a Func that is not used is computed on its own.

    Returns:
        Groups of those that still share loops, in the order that the Funcs had.
    """
    left = {f.name for f in functions}
    label = {name: name for name in left}
    for function in functions:
        for definition in function.stages():
            level = definition.schedule.fuse_level
            if not level.is_inlined() and not level.is_root():
                if str(level.func) in left:
                    _join(label, function.name, str(level.func))
                else:
                    definition.schedule.fuse_level = _locked_inlined()
            for schedule in [
                definition.schedule,
                *[special.definition.schedule for special in definition.specializations],
            ]:
                schedule.fused_pairs = [p for p in schedule.fused_pairs if p.func_2 in left]
    groups: dict[str, list[Function]] = {}
    for function in functions:
        groups.setdefault(label[function.name], []).append(function)
    return list(groups.values())


def _join(label: dict[str, str], one: str, two: str) -> None:
    old, new = label[one], label[two]
    for name, value in label.items():
        if value == old:
            label[name] = new


def _locked_inlined() -> LoopLevel:
    level = LoopLevel.inlined()
    level.locked = True
    return level


def build_group(functions: Sequence[Function], lowering: Lowering) -> Stmt:
    """The loops that compute all stages of the Funcs of a group, without storage."""
    return _Group(functions, lowering).build()


class _Group:
    """One group, while its loops are built.

    Attributes:
        lets: bounds of the stages' loops, to be defined outside of all of them, since the shared
            loops refer to the bounds of several stages.
        children: loop of a child stage -> range it has inside the shared loop.
        aliases: shared loop -> the names of the loops that it stands for.
    """

    def __init__(self, functions: Sequence[Function], lowering: Lowering) -> None:
        self.functions = functions
        self.env = lowering.env
        self.lets: list[tuple[str, Expr]] = []
        self.children: dict[str, Range] = {}
        self.aliases: dict[str, list[str]] = {}

    def build(self) -> Stmt:
        producer: Stmt | None = None
        for function, stage in self._stage_order():
            definition = function.definition(stage)
            stmt = self._build_stage(function, stage, definition)
            producer = _inject(producer, stmt, definition.schedule.fuse_level)
        assert producer is not None
        for name, value in reversed(self.lets):
            producer = LetStmt(name, value, producer)
        if not self.children:
            return producer
        return self._share_loops(producer)

    def _build_stage(self, function: Function, stage: int, definition: Definition) -> Stmt:
        prefix = f"{function.name}.s{stage}."
        dims = definition.schedule.dims
        fused_from = len(dims)
        level = definition.schedule.fuse_level
        if not level.is_inlined() and not level.is_root():
            fused_from = find_dim(dims, level.var)
        for pair in definition.schedule.fused_pairs:
            index = find_dim(dims, pair.var)
            fused_from = min(fused_from, index)
            other = self._dims(pair.func_2, pair.stage_2)
            # The last dimension is the marker __outermost.
            for i in range(index, len(dims) - 1):
                parent = f"{pair.func_1}.s{pair.stage_1}.{dims[i].var}"
                child_var = other[len(other) - (len(dims) - i)].var
                child = f"{pair.func_2}.s{pair.stage_2}.{child_var}"
                self.children.setdefault(child, (var(parent), var(parent)))
                names = self.aliases.setdefault(fused_name(parent), [])
                names.extend([n for n in (parent, child) if n not in names])
        if fused_from >= len(dims):
            fused_from = NO_FUSE
        stmt = build_stage(self.env, prefix, function, definition, fused_from)
        while isinstance(stmt, LetStmt):
            self.lets.append((stmt.name, stmt.value))
            stmt = stmt.body
        return stmt

    def _dims(self, name: str, stage: int) -> list[Dim]:
        return self.env[name].definition(stage).schedule.dims

    # The order of the stages.

    def _stage_order(self) -> list[tuple[Function, int]]:
        """All stages, each after those its loops are injected into and its Func's earlier ones."""
        functions = self.functions
        index = {f.name: i for i, f in enumerate(functions)}
        waits = [[0] * (1 + len(f.updates)) for f in functions]
        edges: list[list[list[tuple[int, int]]]] = [[[] for _ in w] for w in waits]
        for i, function in enumerate(functions):
            before: LoopLevel | None = None
            for stage, definition in enumerate(function.stages()):
                level = definition.schedule.fuse_level
                if level.is_root() or level.is_inlined():
                    before = level if stage == 0 else before
                    continue
                parent = (index[str(level.func)], max(level.stage, 0))
                waits[i][stage] += 1
                edges[parent[0]][parent[1]].append((i, stage))
                # This stage stands in the parent's loops, so all earlier stages of this Func
                # come before the parent, unless they stand in the same loops.
                same = (
                    before is not None and before.func == level.func and before.stage == level.stage
                )
                if stage > 0 and not same:
                    for k in range(stage):
                        waits[parent[0]][parent[1]] += 1
                        edges[i][k].append(parent)
                before = level
        return self._topological(waits, edges)

    def _topological(
        self, waits: list[list[int]], edges: list[list[list[tuple[int, int]]]]
    ) -> list[tuple[Function, int]]:
        order: list[tuple[Function, int]] = []
        next_stage = [0] * len(waits)
        total = sum(len(w) for w in waits)
        while len(order) < total:
            progress = False
            for i, function in enumerate(self.functions):
                while next_stage[i] < len(waits[i]) and waits[i][next_stage[i]] == 0:
                    for j, stage in edges[i][next_stage[i]]:
                        waits[j][stage] -= 1
                    order.append((function, next_stage[i]))
                    next_stage[i] += 1
                    progress = True
            if not progress:
                names = ", ".join(f.name for f in self.functions)
                raise ScheduleError(
                    f"compute_with asks for an order of {names} in which each waits for another",
                    self.functions[-1].where,
                )
        return order

    # Sharing loops.

    def _share_loops(self, producer: Stmt) -> Stmt:
        bounds = _loop_ranges(producer)
        shifts: dict[str, Expr] = {}
        # From the parents to the children; the parents' loops stay where they are.
        for function in reversed(self.functions):
            for stage, definition in enumerate(function.stages()):
                self._align(f"{function.name}.s{stage}.", definition, bounds, shifts)
        if shifts:
            producer = _ShiftLoops(shifts)(producer)
        producer = _RenameLoops(self.children)(producer)
        parents: dict[str, Range] = {}
        for function in self.functions:
            for stage, definition in enumerate(function.stages()):
                self._unite(f"{function.name}.s{stage}.", definition, bounds, parents)
        producer = _RenameLoops(parents)(producer)
        return _AliasLoops(self.aliases)(producer)

    def _align(
        self,
        prefix: str,
        definition: Definition,
        bounds: dict[str, Range],
        shifts: dict[str, Expr],
    ) -> None:
        """Find how far each fused loop of a stage has to move to start or end with its parent."""
        level = definition.schedule.fuse_level
        if level.is_inlined() or level.is_root():
            return
        dims = definition.schedule.dims
        start = find_dim(dims, level.var)
        fused = len(dims) - start - 1
        parent_stage = max(level.stage, 0)
        parent_dims = self._dims(str(level.func), parent_stage)
        for i in range(start, len(dims) - 1):
            strategy = LoopAlignStrategy.Auto
            for name, wanted in definition.schedule.fuse_align.items():
                if var_name_match(dims[i].var, name):
                    strategy = wanted
            if strategy in (LoopAlignStrategy.NoAlign, LoopAlignStrategy.Auto):
                continue
            parent_var = parent_dims[(i - start) + len(parent_dims) - 1 - fused].var
            parent_min, parent_max = bounds[f"{level.func}.s{parent_stage}.{parent_var}"]
            own_min, own_max = bounds[prefix + dims[i].var]
            if strategy is LoopAlignStrategy.AlignStart:
                shift = sub(parent_min, own_min)
            else:
                shift = sub(parent_max, own_max)
            shifts[prefix + dims[i].var] = _simpler(sub(int32(0), shift))
            bounds[prefix + dims[i].var] = (
                _simpler(add(own_min, shift)),
                _simpler(add(own_max, shift)),
            )

    def _unite(
        self,
        prefix: str,
        definition: Definition,
        bounds: Mapping[str, Range],
        united: dict[str, Range],
    ) -> None:
        """Make the loops of a parent run over the union of the bounds of all that share them.

        Loops that the parent itself shares with a parent of its own are left to that one.
        """
        dims = definition.schedule.dims
        for pair, shared in self._descendants(definition, len(dims)):
            other = self._dims(pair.func_2, pair.stage_2)
            # The last dimension is the marker __outermost.
            for back in range(2, shared + 1):
                own = prefix + dims[-back].var
                if own in self.children:
                    continue
                low, high = bounds[f"{pair.func_2}.s{pair.stage_2}.{other[-back].var}"]
                own_low, own_high = united.get(own) or bounds[own]
                united[own] = (_simpler(minimum(own_low, low)), _simpler(maximum(own_high, high)))
        for special in definition.specializations:
            self._unite(prefix, special.definition, bounds, united)

    def _descendants(self, definition: Definition, most: int) -> list[tuple[FusedPair, int]]:
        """The stages computed with this one, directly or not, and how many outer loops they share.

        Along a chain of stages only the loops that all share are shared by its ends.
        """
        found: list[tuple[FusedPair, int]] = []
        dims = definition.schedule.dims
        for pair in definition.schedule.fused_pairs:
            shared = min(most, len(dims) - find_dim(dims, pair.var))
            found.append((pair, shared))
            child = self.env[pair.func_2].definition(pair.stage_2)
            found.extend(self._descendants(child, shared))
        return found


def _simpler(e: Expr) -> Expr:
    from bayplan.analysis.simplify import simplify

    return simplify(e)


def _inject(root: Stmt | None, stmt: Stmt, level: LoopLevel) -> Stmt:
    """Put the loops of a stage behind the others, or at the end of the loop it shares."""
    if root is None:
        return stmt
    if level.is_inlined() or level.is_root():
        return block([root, stmt])
    injector = _InjectAt(stmt, level)
    root = injector(root)
    assert injector.found, (level.func, level.stage, level.var)
    return root


class _InjectAt(StmtRewriter):
    memoise = False

    def __init__(self, stmt: Stmt, level: LoopLevel) -> None:
        super().__init__()
        self._stmt = stmt
        self._level = level
        self.found = False

    def rewrite_For(self, node: For) -> Any:
        body = self(node.body)
        if self._level.match(node.name):
            body = block([body, self._stmt])
            self.found = True
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Provide(self, node: Provide) -> Any:
        return node


def _loop_ranges(stmt: Stmt) -> dict[str, Range]:
    """Range of each loop by name; the loops are as build_stage made them."""
    return {n.name: (n.min, var(f"{n.name}.loop_max")) for n in iterate(stmt) if type(n) is For}


class _ShiftLoops(Rewriter):
    """Moves the iterations of loops: in the body the loop's variable is taken plus the shift."""

    def __init__(self, shifts: Mapping[str, Expr]) -> None:
        super().__init__()
        self._shifts = shifts

    def rewrite_For(self, node: For) -> Any:
        body = self(node.body)
        shift = self._shifts.get(node.name)
        if shift is not None:
            body = substitute({node.name: add(var(node.name), shift)}, body)
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)


class _RenameLoops(Rewriter):
    """Gives loops another range and their shared name."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        super().__init__()
        self._ranges = ranges

    def rewrite_For(self, node: For) -> Any:
        body = self(node.body)
        found = self._ranges.get(node.name)
        if found is None:
            return For(node.name, node.min, node.extent, node.kind, node.partition, body)
        low, high = found
        name = fused_name(node.name)
        # A child's loop is a mere place in the parent's loop: one serial iteration.
        kind = ForKind.Serial if low is high else node.kind
        body = substitute({node.name: var(name)}, body)
        return For(name, low, add(sub(high, low), 1), kind, node.partition, body)


class _AliasLoops(Rewriter):
    """Defines the old names of shared loops, which bounds inference may refer to."""

    def __init__(self, aliases: Mapping[str, list[str]]) -> None:
        super().__init__()
        self._aliases = aliases

    def rewrite_For(self, node: For) -> Any:
        body = self(node.body)
        for alias in self._aliases.get(node.name, ()):
            body = LetStmt(alias, var(node.name), body)
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)
