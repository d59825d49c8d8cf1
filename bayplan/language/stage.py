"""Stage: the schedule of one definition of a Func, and the directives on its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from bayplan.ir.build import true
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Let, Variable
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.source import user_line
from bayplan.ir.walk import iterate
from bayplan.language import changes
from bayplan.language.expr import as_node
from bayplan.language.func_ref import same_nodes
from bayplan.language.function import Definition, Function, Specialization
from bayplan.language.gpu_directives import GpuDirectives
from bayplan.language.loop_level import level_of
from bayplan.language.loop_names import VarOrRVar, list_loops, loop_name, loop_names, short_name
from bayplan.language.loops import (
    find_loop,
    fuse_loops,
    refuse,
    rename_loop,
    reorder_loops,
    set_loop_kind,
    split_loop,
)
from bayplan.language.rdom import RVar
from bayplan.language.schedule import (
    LoopAlignStrategy,
    PrefetchBoundStrategy,
    PrefetchDirective,
    TailStrategy,
)
from bayplan.language.schedule import LoopLevel as Level
from bayplan.language.var import Var


def _expand(vs: Sequence[Any]) -> list[Any]:
    """The arguments of a directive that takes a list or any number of arguments."""
    if len(vs) == 1 and isinstance(vs[0], list | tuple):
        return list(vs[0])
    return list(vs)


class LoopDirectives(GpuDirectives):
    """The directives that Func (for its pure definition) and Stage share.

    Each is checked at once, is recorded, and returns the object it was called on.
    """

    __slots__ = ()

    def _stage(self) -> Stage:
        raise NotImplementedError

    def _touched(self) -> Stage:
        stage = self._stage()
        stage.definition.schedule.touched = True
        changes.bump()
        return stage

    def split(
        self,
        old: Any,
        outer: Any,
        inner: Any,
        factor: Any,
        tail: TailStrategy = TailStrategy.Auto,
    ) -> Self:
        """Replace a loop by an outer one and an inner one of `factor` iterations."""
        split_loop(
            self._touched(),
            loop_name(old),
            loop_name(outer),
            loop_name(inner),
            as_node(factor),
            tail,
        )
        return self

    def fuse(self, inner: Any, outer: Any, fused: Any) -> Self:
        """Replace two loops by one over all pairs of their iterations, `inner` fastest."""
        fuse_loops(self._touched(), loop_name(inner), loop_name(outer), loop_name(fused))
        return self

    def rename(self, old_name: Any, new_name: Any) -> Self:
        """Give a loop another name."""
        rename_loop(self._touched(), loop_name(old_name), loop_name(new_name))
        return self

    def reorder(self, *vars: Any) -> Self:
        """Permute the loops named, innermost first, among the places they have."""
        reorder_loops(self._touched(), loop_names(_expand(vars)))
        return self

    def tile(self, *args: Any, **named: Any) -> Self:
        """Split several loops and put the inner parts innermost.

        Forms: (x, y, xo, yo, xi, yi, xfactor, yfactor), the same without xo and yo (the outer
        parts keep their names), and lists (previous, outers, inners, factors) or (previous,
        inners, factors); a tail strategy may follow.
        """
        previous, outers, inners, factors, tail = tile_arguments(args, named)
        for old, outer, inner, factor in zip(previous, outers, inners, factors, strict=True):
            self.split(old, outer, inner, factor, tail)
        return self.reorder([*inners, *outers])

    def serial(self, var: Any) -> Self:
        """Run the iterations of a loop one after another, the default."""
        set_loop_kind(self._touched(), loop_name(var), ForKind.Serial)
        return self

    def parallel(
        self, var: Any, task_size: Any = None, tail: TailStrategy = TailStrategy.Auto
    ) -> Self:
        """Run a loop in parallel; with `task_size`, that many iterations to a task."""
        if task_size is None:
            set_loop_kind(self._touched(), loop_name(var), ForKind.Parallel)
            return self
        self._split_off(var, task_size, tail, "parallel")
        set_loop_kind(self._touched(), loop_name(var), ForKind.Parallel)
        return self

    def vectorize(
        self, var: Any, factor: Any = None, tail: TailStrategy = TailStrategy.Auto
    ) -> Self:
        """Compute all iterations of a loop, or groups of `factor` of them, as one vector."""
        if factor is not None:
            var = self._split_off(var, factor, tail, "vector")
        set_loop_kind(self._touched(), loop_name(var), ForKind.Vectorized)
        return self

    def unroll(self, var: Any, factor: Any = None, tail: TailStrategy = TailStrategy.Auto) -> Self:
        """Write out all iterations of a loop, or `factor` of them at a time."""
        if factor is not None:
            var = self._split_off(var, factor, tail, "unroll")
        set_loop_kind(self._touched(), loop_name(var), ForKind.Unrolled)
        return self

    def _split_off(self, var: Any, factor: Any, tail: TailStrategy, what: str) -> VarOrRVar:
        """Split an inner part with a name of its own off a loop that keeps its name."""
        stage = self._touched()
        outer = loop_name(var)
        number = 0
        taken = {short_name(dim.var) for dim in stage.definition.schedule.dims}
        taken |= {short_name(s.inner) for s in stage.definition.schedule.splits}
        while f"{what}${number}" in taken:
            number += 1
        inner = VarOrRVar(f"{what}${number}", outer.is_rvar)
        split_loop(stage, outer, outer, inner, as_node(factor), tail)
        return inner

    def partition(self, var: Any, partition_policy: Partition) -> Self:
        """Say whether a loop may be cut into prologue, steady state and epilogue."""
        stage = self._touched()
        dims = stage.definition.schedule.dims
        dims[find_loop(stage, loop_name(var), "partition")].partition = partition_policy
        return self

    def never_partition(self, *vars: Any) -> Self:
        """Keep each of the loops in one piece."""
        for v in _expand(vars):
            self.partition(v, Partition.Never)
        return self

    def always_partition(self, *vars: Any) -> Self:
        """Cut each of the loops where that makes boundary conditions cheaper."""
        for v in _expand(vars):
            self.partition(v, Partition.Always)
        return self

    def _partition_all(self, policy: Partition) -> Self:
        for dim in self._touched().definition.schedule.dims:
            dim.partition = policy
        return self

    def never_partition_all(self) -> Self:
        """Keep all loops in one piece."""
        return self._partition_all(Partition.Never)

    def always_partition_all(self) -> Self:
        """Cut all loops where that makes boundary conditions cheaper."""
        return self._partition_all(Partition.Always)

    def allow_race_conditions(self) -> Self:
        """Allow parallel loops that the compiler cannot prove free of races."""
        self._touched().definition.schedule.allow_race_conditions = True
        return self

    def atomic(self, override_associativity_test: bool = False) -> Self:
        """Make each update of an element atomic, so that RVars can be made parallel."""
        schedule = self._touched().definition.schedule
        schedule.atomic = True
        schedule.override_atomic_associativity_test = override_associativity_test
        return self

    def specialize(self, condition: Any) -> Stage:
        """A copy of the stage, with a schedule of its own, taken where `condition` holds."""
        return specialize(self._touched(), condition)

    def specialize_fail(self, message: str) -> None:
        """End the call with `message` where no specialization applies."""
        specialize_fail(self._touched(), message)

    def compute_with(self, *args: Any, **named: Any) -> Self:
        """Run the loops of this stage, from one outward, together with those of another.

        Forms: (stage or Func, var, align) and (LoopLevel, align); `align` is a strategy or a
        list of (var, strategy).
        """
        compute_with(self._touched(), args, named)
        return self

    def prefetch(
        self,
        func: Any = None,
        at: Any = None,
        from_: Any = None,
        offset: Any = 1,
        strategy: PrefetchBoundStrategy = PrefetchBoundStrategy.GuardWithIf,
        **named: Any,
    ) -> Self:
        """Hint the cache to fetch what `func` (or an ImageParam) needs `offset` iterations on."""
        func = named.pop("image", func)
        from_ = named.pop("from", from_)
        if named:
            raise TypeError(f"prefetch() got an unexpected argument {next(iter(named))!r}")
        stage = self._touched()
        source = None if isinstance(func, LoopDirectives) else func.parameter()
        stage.definition.schedule.prefetches.append(
            PrefetchDirective(
                func.name(),
                loop_name(at).name_,
                loop_name(from_ if from_ is not None else at).name_,
                as_node(offset),
                strategy,
                source,
                user_line(),
            )
        )
        return self


class Stage(LoopDirectives):
    """One definition of a Func, pure or update, as the object of directives."""

    __slots__ = ("function", "definition", "index")

    function: Function
    definition: Definition
    index: int

    def __init__(self, function: Any, definition: Definition | None = None, index: int = 0) -> None:
        if isinstance(function, LoopDirectives):
            other = function._stage()
            function, definition, index = other.function, other.definition, other.index
        assert isinstance(function, Function) and definition is not None
        self.function = function
        self.definition = definition
        self.index = index

    def _stage(self) -> Stage:
        return self

    def name(self) -> str:
        """ "f", or "f.update(n)"."""
        if self.index == 0:
            return self.function.name
        return f"{self.function.name}.update({self.index - 1})"

    def dump_argument_list(self) -> str:
        """The loops, innermost first, as text."""
        return "Vars: " + " ".join([d.var for d in self.definition.schedule.dims]) + "\n"

    def split_vars(self) -> list[Var | RVar]:
        """The loops, innermost first."""
        return [
            RVar(short_name(d.var)) if d.is_rvar() else Var(short_name(d.var))
            for d in self.definition.schedule.dims
        ]

    def unscheduled(self) -> None:
        """Say that an update is left without a schedule on purpose."""
        if self.definition.schedule.touched:
            raise refuse(self, "unscheduled() is said of it, but it has a schedule")
        self.definition.schedule.touched = True

    def rfactor(self, r: Any, v: Any = None) -> Any:
        """Compute partial results in a Func of their own, which is returned.

        Args:
            r: an RVar that becomes the Var `v` of the new Func, or a list of such pairs.
            v: the Var, where `r` is an RVar.
        """
        from bayplan.language.rfactor import factor_reduction

        self._touched()
        return factor_reduction(self, [(r, v)] if v is not None else list(r))

    def __repr__(self) -> str:
        return f"<bayplan.Stage {self.name()}{list_loops(self.definition.schedule.dims)}>"


def tile_arguments(
    args: Sequence[Any], named: dict[str, Any]
) -> tuple[list[Any], list[Any], list[Any], list[Any], TailStrategy]:
    """(previous, outers, inners, factors, tail) of the forms in which tile is called."""
    values = list(args)
    tail = named.pop("tail", TailStrategy.Auto)
    if named:
        order = ("x", "y", "xo", "yo", "xi", "yi", "xfactor", "yfactor")
        lists = ("previous", "outers", "inners", "factors")
        known = lists if "inners" in named or "factors" in named else order
        values += [named.pop(key) for key in known if key in named]
        if named:
            raise TypeError(f"tile() got an unexpected argument {next(iter(named))!r}")
    if values and isinstance(values[-1], TailStrategy):
        tail = values.pop()
    if values and isinstance(values[0], list | tuple):
        if len(values) == 3:
            values.insert(1, values[0])
        if len(values) != 4 or len({len(v) for v in values}) != 1:
            raise ScheduleError("the lists that tile is given must have the same length")
        previous, outers, inners, factors = [list(v) for v in values]
        return previous, outers, inners, factors, tail
    if len(values) == 6:
        values[2:2] = values[:2]
    if len(values) != 8:
        raise TypeError(f"tile() takes 6 or 8 arguments, or 3 or 4 lists, not {len(values)}")
    return values[:2], values[2:4], values[4:6], values[6:8], tail


def specialize(stage: Stage, condition: Any) -> Stage:
    """The stage for the case that the condition holds; the existing one where there is one."""
    node = as_node(condition)
    if not node.type.is_bool():
        raise refuse(stage, f"the condition of specialize is a {node.type}, not a bool")
    bound = {n.name for n in iterate(node) if type(n) is Let}
    for n in iterate(node):
        if type(n) is Variable and n.name not in bound:
            if n.source is None or hasattr(n.source, "predicate"):
                raise refuse(
                    stage,
                    f"the condition of specialize, {node}, depends on {n.name}; it may depend "
                    "only on parameters",
                )
    definition = stage.definition
    for known in definition.specializations:
        if not known.failure and same_nodes([known.condition], [node]):
            return Stage(stage.function, known.definition, stage.index)
    if definition.specializations and definition.specializations[-1].failure:
        raise refuse(stage, "there can be no specialize after specialize_fail")
    if not definition.schedule.fuse_level.is_inlined():
        raise refuse(stage, "it is computed with another stage, so it can have no specializations")
    copy = copy_definition(definition)
    definition.specializations.append(Specialization(node, copy, "", user_line()))
    return Stage(stage.function, copy, stage.index)


def specialize_fail(stage: Stage, message: str) -> None:
    """End the call where none of the specializations applies."""
    if not message:
        raise refuse(stage, "specialize_fail needs a message")
    definition = stage.definition
    if definition.specializations and definition.specializations[-1].failure:
        raise refuse(stage, "there can be only one specialize_fail")
    copy = copy_definition(definition)
    definition.specializations.append(Specialization(true(), copy, message, user_line()))


def copy_definition(definition: Definition) -> Definition:
    """A definition with the same values and a copy of the schedule, without specializations."""
    return Definition(
        definition.args,
        definition.values,
        definition.predicate,
        definition.is_init,
        definition.schedule.copy(),
        definition.where,
    )


def compute_with(stage: Stage, args: Sequence[Any], named: dict[str, Any]) -> None:
    """Record that the loops of a stage run together with those of another."""
    values = list(args)
    for key in ("stage", "loop_level", "var", "align"):
        if key in named:
            values.append(named.pop(key))
    if named or not values:
        raise TypeError("compute_with() takes (stage, var, align) or (loop_level, align)")
    if isinstance(values[0], Level):
        level = values[0].copy()
        rest = values[1:]
    else:
        other = Stage(values[0])
        level = level_of(other.function, values[1], other.index)
        rest = values[2:]
    align = rest[0] if rest else LoopAlignStrategy.Auto
    if not level.defined() or level.is_inlined() or level.is_root():
        raise refuse(stage, f"compute_with needs a loop of another Func, not {level}")
    if level.func == stage.function.name:
        raise refuse(stage, f"a Func cannot be computed with itself ({level})")
    if stage.definition.specializations:
        raise refuse(stage, "it has specializations, so it cannot be computed with another stage")
    if isinstance(align, LoopAlignStrategy):
        aligned = {level.var: align}
    else:
        aligned = {loop_name(v).name_: strategy for v, strategy in align}
    stage.definition.schedule.fuse_level = level
    stage.definition.schedule.fuse_align = aligned
