"""rfactor: an associative update as partial results in a Func of their own, then their union.

`f[x] += g[x, r.x, r.y]` factored at (r.y, u) becomes

    f_intm[x, u] = 0;  f_intm[x, u] += g[x, r.x, u];  f[x] += f_intm[x, r.y]

The loops of the update may have been split, fused and renamed before: both sides get reduction
domains over the loops that they keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.ir.build import (
    add,
    cast,
    clamp,
    div,
    int32,
    intrinsic,
    is_one,
    is_zero,
    le,
    likely,
    logical_and,
    mod,
    mul,
    sub,
    true,
)
from bayplan.ir.exprs import And, Call, CallKind, Expr, Variable
from bayplan.ir.node import deep_recursion
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter, free_variables, substitute, uses_variable
from bayplan.language.associativity import Associative, prove_associativity
from bayplan.language.definition import define_pure, define_update, new_function
from bayplan.language.func import Func
from bayplan.language.function import Definition, Function
from bayplan.language.loop_names import loop_name, short_name, var_name
from bayplan.language.loops import find_loop, refuse
from bayplan.language.parameter import ReductionDomain
from bayplan.language.purity import is_parallel_safe
from bayplan.language.schedule import (
    OUTERMOST,
    Dim,
    DimType,
    ReductionVariable,
    Split,
    SplitKind,
)
from bayplan.language.stage import Stage


class _Range:
    """Values of a loop: min, extent, and what the extent is known to be a multiple of."""

    __slots__ = ("min", "extent", "multiple")

    def __init__(self, min: Expr, extent: Expr, multiple: Expr | None) -> None:
        self.min = min
        self.extent = extent
        self.multiple = multiple

    def max(self) -> Expr:
        return sub(add(self.min, self.extent), 1)


class _Projection:
    """The reduction's loops after its splits: their ranges, and the RVars in terms of them."""

    def __init__(self, rvars: Sequence[ReductionVariable], splits: Sequence[Split]) -> None:
        self.ranges = {r.var: _Range(r.min, r.extent, r.extent) for r in rvars}
        # Each variable that was split, in terms of its parts, in the order of the splits.
        self.values: list[tuple[str, Expr]] = []
        self.guards: list[Expr] = []
        for split in splits:
            if split.kind is SplitKind.Split:
                self._split(split)
            elif split.kind is SplitKind.Fuse:
                self._fuse(split)
            else:
                self.ranges[split.outer] = self.ranges[split.old]
                self.values.append((split.old, Variable(INT32, split.outer)))

    def _split(self, split: Split) -> None:
        assert split.factor is not None
        factor = split.factor
        old = self.ranges[split.old]
        outer, inner = Variable(INT32, split.outer), Variable(INT32, split.inner)
        exact = old.multiple is not None and is_zero(mod(old.multiple, factor))
        count = div(add(old.extent, sub(factor, 1)), factor)
        self.ranges[split.inner] = _Range(int32(0), factor, factor)
        multiple = None
        if exact and old.multiple is not None:
            multiple = count = div(old.multiple, factor)
        self.ranges[split.outer] = _Range(int32(0), count, multiple)
        value = add(add(mul(outer, factor), old.min), inner)
        if not exact and not is_one(factor):
            self.guards.append(le(value, old.max()))
        self.values.append((split.old, value))

    def _fuse(self, split: Split) -> None:
        inner, outer = self.ranges[split.inner], self.ranges[split.outer]
        fused = Variable(INT32, split.old)
        multiple = None
        if inner.multiple is not None and outer.multiple is not None:
            multiple = mul(inner.multiple, outer.multiple)
        self.ranges[split.old] = _Range(int32(0), mul(inner.extent, outer.extent), multiple)
        self.values.append((split.inner, add(mod(fused, inner.extent), inner.min)))
        self.values.append((split.outer, add(div(fused, inner.extent), outer.min)))

    def resolve(self, loops: Mapping[str, Expr]) -> dict[str, Expr]:
        """Every variable in terms of `loops`, the values of the loops that remain."""
        values = dict(loops)
        for name, value in reversed(self.values):
            values[name] = substitute(values, value)
        return values


def _conjuncts(e: Expr) -> list[Expr]:
    if type(e) is And:
        return [*_conjuncts(e.a), *_conjuncts(e.b)]
    return [e]


def _new_domain(name: str, dims: Sequence[Dim], projection: _Projection) -> ReductionDomain:
    variables = []
    for dim in dims:
        found = projection.ranges[dim.var]
        variables.append(ReductionVariable(short_name(dim.var), found.min, found.extent))
    domain = ReductionDomain(name, variables, None)
    domain.predicate = true()
    return domain


class _RedirectSelf(Rewriter):
    """Makes references of a Func to itself references to the intermediate Func."""

    def __init__(self, func: Function, intermediate: Function, extra: Sequence[Expr]) -> None:
        super().__init__()
        self.func = func
        self.intermediate = intermediate
        self.extra = tuple(extra)

    def rewrite_Call(self, node: Call) -> Expr:
        rebuilt: Call = self.rebuild(node)
        if rebuilt.kind is not CallKind.FUNC or rebuilt.name != self.func.name:
            return rebuilt
        return Call(
            rebuilt.type,
            self.intermediate.name,
            (*rebuilt.args, *self.extra),
            CallKind.FUNC,
            self.intermediate,
            rebuilt.value_index,
        )


class _Factoring:
    """The pieces of one rfactor."""

    def __init__(self, stage: Stage, preserved: Sequence[tuple[Any, Any]]) -> None:
        self.stage = stage
        self.func = stage.function
        self.definition: Definition = stage.definition
        if self.definition.is_init:
            raise refuse(stage, "rfactor is for updates")
        proof = prove_associativity(self.func.name, self.definition.args, self.definition.values)
        if proof is None:
            raise refuse(
                stage, "rfactor needs an update that is associative, which is not proven of it"
            )
        self.proof: Associative = proof
        self.pairs = self._checked_pairs(preserved)
        self.vars = [Variable(INT32, v) for _, v in self.pairs]
        self.kept = [dim for dim, _ in self.pairs]
        kept = {dim.var for dim in self.kept}
        schedule = self.definition.schedule
        self.reduced = [d for d in schedule.dims if d.is_rvar() and d.var not in kept]
        rvar_splits, self.var_splits = self._sorted_splits()
        self.projection = _Projection(schedule.rvars, rvar_splits)

    def _checked_pairs(self, preserved: Sequence[tuple[Any, Any]]) -> list[tuple[Dim, str]]:
        dims = self.definition.schedule.dims
        pairs: list[tuple[int, str]] = []
        taken = [short_name(d.var) for d in dims] + self.func.args
        for r, v in preserved:
            rvar, var = loop_name(r), var_name(v)
            at = find_loop(self.stage, rvar, "rfactor")
            if not dims[at].is_rvar():
                raise refuse(self.stage, f"{rvar.name_} is not an RVar, so it cannot be factored")
            if var in taken:
                raise refuse(self.stage, f"rfactor cannot make {var}, which names a loop already")
            if at in [known for known, _ in pairs]:
                raise refuse(self.stage, f"rfactor is given {rvar.name_} twice")
            taken.append(var)
            pairs.append((at, var))
        pairs.sort()
        return [(dims[at], var) for at, var in pairs]

    def _sorted_splits(self) -> tuple[list[Split], list[Split]]:
        """The splits of RVars, and those of Vars."""
        reduction = {r.var for r in self.definition.schedule.rvars}
        of_rvars: list[Split] = []
        of_vars: list[Split] = []
        for s in self.definition.schedule.splits:
            if s.kind is SplitKind.Fuse:
                mine = s.inner in reduction or s.outer in reduction
                if mine and not (s.inner in reduction and s.outer in reduction):
                    raise refuse(
                        self.stage, f"{s.old} joins a Var and an RVar, so rfactor is not possible"
                    )
                made = [s.old]
            else:
                mine = s.old in reduction
                made = [s.outer, s.inner]
            if mine:
                reduction.update(made)
            (of_rvars if mine else of_vars).append(s)
        return of_rvars, of_vars

    def _promised(self, values: dict[str, Expr]) -> dict[str, Expr]:
        """The RVars in terms of the remaining loops, within their ranges."""
        result: dict[str, Expr] = {}
        for r in self.definition.schedule.rvars:
            value = values[r.var]
            low, high = r.min, sub(add(r.min, r.extent), 1)
            if type(value) is not Variable:
                value = intrinsic(INT32, "promise_clamped", value, low, high)
            elif value.source is None:
                # A tail of the loop over the new Var may run over the end; reading must not.
                value = clamp(likely(value), low, high)
            result[r.var] = value
        return result

    def intermediate(self) -> Function:
        """Make the Func of the partial results."""
        func, definition = self.func, self.definition
        intermediate = new_function(f"{func.name}_intm")
        args = [*func.args, *[v.name for v in self.vars]]
        define_pure(intermediate, args, self.proof.identities)
        domain = _new_domain(intermediate.name, self.reduced, self.projection)
        loops: dict[str, Expr] = {
            dim.var: Variable(INT32, r.var, domain)
            for dim, r in zip(self.reduced, domain.variables, strict=True)
        }
        loops.update({d.var: v for d, v in zip(self.kept, self.vars, strict=True)})
        values = self.projection.resolve(loops)
        promised = self._promised(values)
        predicate = substitute(promised, definition.predicate)
        for guard in self.projection.guards:
            predicate = logical_and(predicate, likely(substitute(values, guard)))
        domain.predicate = predicate
        redirect = _RedirectSelf(func, intermediate, self.vars)
        left = [substitute(promised, arg) for arg in definition.args]
        right = [substitute(promised, redirect(value)) for value in definition.values]
        update = define_update(intermediate, [*left, *self.vars], right, domain)
        self._schedule_intermediate(update, domain)
        return intermediate

    def _schedule_intermediate(self, update: Definition, domain: ReductionDomain) -> None:
        kept = {dim.var: v.name for dim, v in zip(self.kept, self.vars, strict=True)}
        reduced = {dim.var: r.var for dim, r in zip(self.reduced, domain.variables, strict=True)}
        schedule = self.definition.schedule.copy()
        for dim in schedule.dims:
            if dim.var in kept:
                dim.var = kept[dim.var]
                dim.dim_type = DimType.PureVar
            else:
                dim.var = reduced.get(dim.var, dim.var)
        schedule.rvars = list(domain.variables)
        schedule.splits = list(self.var_splits)
        update.schedule = schedule

    def reduce(self, intermediate: Function) -> None:
        """Make the update join the partial results."""
        func, definition = self.func, self.definition
        domain = _new_domain(f"{func.name}_over", self.kept, self.projection)
        loops: dict[str, Expr] = {
            dim.var: Variable(INT32, r.var, domain)
            for dim, r in zip(self.kept, domain.variables, strict=True)
        }
        domain.predicate = self._reducing_predicate(loops)
        domain.frozen = True
        args = tuple([Variable(INT32, arg) for arg in func.args])
        partial_args = (*args, *[Variable(INT32, r.var, domain) for r in domain.variables])
        parts: dict[str, Expr] = {}
        for i, t in enumerate(func.output_types):
            parts[self.proof.xs[i]] = Call(t, func.name, args, CallKind.FUNC, func, i)
            y = self.proof.ys[i]
            if y is not None:
                partial = Call(t, intermediate.name, partial_args, CallKind.FUNC, intermediate, i)
                parts[y[0]] = cast(y[1].type, partial)
        intermediate.frozen = True
        used = [arg for arg in definition.args if type(arg) is Variable and arg.source is None]
        missing = [name for name in func.args if not any(a.name == name for a in used)]
        definition.args = args
        definition.values = tuple([substitute(parts, op) for op in self.proof.ops])
        definition.predicate = domain.predicate
        schedule = definition.schedule
        renamed = {dim.var: r.var for dim, r in zip(self.kept, domain.variables, strict=True)}
        dims = [d for d in schedule.dims if not d.is_rvar() or d.var in renamed]
        dims[-1:-1] = [Dim(name, where=definition.where) for name in missing]
        schedule.rvars = list(domain.variables)
        schedule.splits = list(self.var_splits)
        for dim in dims:
            if dim.var in renamed:
                dim.var = renamed[dim.var]
                safe = is_parallel_safe(dim.var, func.name, definition)
                dim.dim_type = DimType.PureRVar if safe else DimType.ImpureRVar
        assert short_name(dims[-1].var) == OUTERMOST
        schedule.dims = dims

    def _reducing_predicate(self, loops: Mapping[str, Expr]) -> Expr:
        """Conditions on the kept loops alone; elsewhere the partial result changes nothing."""
        values = self.projection.resolve(loops)
        gone = {dim.var for dim in self.reduced}
        known = {name: v for name, v in values.items() if gone.isdisjoint(free_variables(v))}
        names = [r.var for r in self.definition.schedule.rvars]
        predicate: Expr = true()
        for part in [*_conjuncts(self.definition.predicate), *self.projection.guards]:
            if any(uses_variable(part, name) for name in [*gone, *names] if name not in known):
                continue
            predicate = logical_and(predicate, substitute(known, part))
        return predicate


def factor_reduction(stage: Stage, preserved: Sequence[tuple[Any, Any]]) -> Func:
    """The Func of partial results of an associative update, over the new Vars.

    Args:
        stage: the update; it becomes the union of the partial results.
        preserved: pairs of an RVar, one of the update's loops, and the Var that it becomes.
    """
    with deep_recursion():
        factoring = _Factoring(stage, preserved)
        intermediate = factoring.intermediate()
        factoring.reduce(intermediate)
    return Func.of(intermediate)
