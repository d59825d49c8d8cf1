"""What one split, fuse or rename means for the body of a stage and for the bounds of its loops."""

from __future__ import annotations

from enum import Enum

from bayplan.ir.build import (
    add,
    constant_value,
    div,
    ge,
    int32,
    intrinsic,
    is_one,
    le,
    likely,
    lt,
    mod,
    mul,
    select,
    sub,
    true,
    var,
)
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import EQ, Expr, Min
from bayplan.ir.types import INT32
from bayplan.language.schedule import Split, SplitKind, TailStrategy


class Action(Enum):
    """What is to be done with the body of the stage."""

    SUBSTITUTE = "substitute everywhere"
    SUBSTITUTE_IN_CALLS = "substitute in the arguments of calls"
    SUBSTITUTE_IN_PROVIDES = "substitute in the coordinates that are written"
    LET = "wrap in a let"
    GUARD = "wrap in an if"
    PREDICATE_CALLS = "make calls conditional"
    PREDICATE_PROVIDES = "make the write conditional"
    BLEND = "write the old value back where not"


Step = tuple[Action, str, Expr]
"""(action, name of the variable or "", value or condition)."""

_GUARDED = {
    TailStrategy.GuardWithIf: (Action.SUBSTITUTE, Action.GUARD),
    TailStrategy.Predicate: (Action.SUBSTITUTE, Action.GUARD),
    TailStrategy.PredicateLoads: (Action.SUBSTITUTE_IN_CALLS, Action.PREDICATE_CALLS),
    TailStrategy.PredicateStores: (Action.SUBSTITUTE_IN_PROVIDES, Action.PREDICATE_PROVIDES),
}


def apply_split(
    split: Split, prefix: str, multiples: dict[str, Expr], is_part: bool = False
) -> list[Step]:
    """The steps that express the old loop variables by the new ones, innermost wrapper first.

    Args:
        split: The directive.
        prefix: Name of the stage with its dot, as "f.s0.".
        multiples: Loop variable -> an expression its extent is a multiple of, as far as known;
            what is learnt of the new variables is added.
        is_part: Whether the loop that is split came about by a split or by fusing.
    """
    if split.kind is SplitKind.Split:
        return _apply_proper_split(split, prefix, multiples, is_part)
    if split.kind is SplitKind.Fuse:
        return _apply_fuse(split, prefix, multiples)
    outer = var(prefix + split.outer)
    old = prefix + split.old
    if split.old in multiples:
        multiples[split.outer] = multiples[split.old]
    return [(Action.SUBSTITUTE, old, outer), (Action.LET, old, outer)]


def _divides(factor: Expr, multiple: Expr | None) -> bool:
    if multiple is None:
        return False
    a, b = constant_value(multiple), constant_value(factor)
    if a is not None and b is not None:
        return b != 0 and a % b == 0
    from bayplan.analysis.simplify import simplify

    return constant_value(simplify(mod(multiple, factor))) == 0


def _apply_proper_split(
    split: Split, prefix: str, multiples: dict[str, Expr], is_part: bool
) -> list[Step]:
    factor = split.factor
    assert factor is not None
    value = constant_value(factor)
    if value is not None and value <= 0:
        raise ScheduleError(
            f"{split.old} cannot be split by {value}: a factor must be at least 1",
            split.where,
        )
    outer, inner = var(prefix + split.outer), var(prefix + split.inner)
    old_min = var(f"{prefix}{split.old}.loop_min")
    old_max = var(f"{prefix}{split.old}.loop_max")
    base: Expr = add(mul(outer, factor), old_min)
    steps: list[Step] = []

    known = multiples.get(split.old)
    multiples[split.inner] = factor
    multiples.pop(split.outer, None)
    if _divides(factor, known):
        assert known is not None
        multiples[split.outer] = div(known, factor)
    elif is_one(factor):
        pass
    elif split.tail in _GUARDED:
        tail = split.tail
        if is_part and tail is TailStrategy.PredicateLoads:
            # An iteration too many of a part can come to coordinates that are done already (a
            # shift inwards does that), and would store there what it did not load.
            tail = TailStrategy.Predicate
        steps = _guard(split, tail, prefix, old_max)
    elif split.tail is TailStrategy.ShiftInwards:
        marked = intrinsic(INT32, "likely_if_innermost", base)
        base = Min(marked, add(old_max, sub(int32(1), factor)))
    elif split.tail is TailStrategy.ShiftInwardsAndBlend:
        unshifted = base
        base = Min(likely(base), add(old_max, sub(int32(1), factor)))
        mask = ge(inner, _surplus(old_min, old_max, factor))
        steps = [(Action.BLEND, "", select(EQ(base, unshifted), likely(true()), mask))]
    elif split.tail is TailStrategy.RoundUpAndBlend:
        mask = lt(inner, sub(factor, _surplus(old_min, old_max, factor)))
        last = var(f"{prefix}{split.outer}.loop_max")
        steps = [(Action.BLEND, "", select(lt(outer, last), likely(true()), mask))]
    else:
        assert split.tail is TailStrategy.RoundUp, split.tail

    base_name = f"{prefix}{split.inner}.base"
    steps.append((Action.LET, prefix + split.old, add(var(base_name), inner)))
    steps.append((Action.LET, base_name, base))
    return steps


def _surplus(old_min: Expr, old_max: Expr, factor: Expr) -> Expr:
    """How many iterations the last step has too many."""
    return mod(sub(sub(old_min, old_max), int32(1)), factor)


def _guard(split: Split, tail: TailStrategy, prefix: str, old_max: Expr) -> list[Step]:
    """Skip iterations beyond the old loop.

    Bounds analysis is told so by a promise on the variable, which it can use where an if is of
    no help to it.
    """
    substitution, predication = _GUARDED[tail]
    old = var(prefix + split.old)
    guarded_name = f"{prefix}{split.old}.guarded"
    guarded = intrinsic(INT32, "promise_clamped", old, old, old_max)
    return [
        (substitution, prefix + split.old, var(guarded_name)),
        (Action.LET, guarded_name, guarded),
        (predication, "", likely(le(old, old_max))),
    ]


def _apply_fuse(split: Split, prefix: str, multiples: dict[str, Expr]) -> list[Step]:
    fused = var(prefix + split.old)
    inner_min = var(f"{prefix}{split.inner}.loop_min")
    inner_max = var(f"{prefix}{split.inner}.loop_max")
    outer_min = var(f"{prefix}{split.outer}.loop_min")
    factor = add(sub(inner_max, inner_min), 1)
    inner = add(mod(fused, factor), inner_min)
    outer = add(div(fused, factor), outer_min)
    known_inner, known_outer = multiples.get(split.inner), multiples.get(split.outer)
    if known_inner is not None and known_outer is not None:
        multiples[split.old] = mul(known_inner, known_outer)
    return [
        (Action.SUBSTITUTE, prefix + split.inner, inner),
        (Action.SUBSTITUTE, prefix + split.outer, outer),
        (Action.LET, prefix + split.inner, inner),
        (Action.LET, prefix + split.outer, outer),
    ]


def bounds_after_split(split: Split, prefix: str) -> list[tuple[str, Expr, Expr]]:
    """(loop name, min, max) of the loops a directive makes, by the bounds of the old ones."""
    if split.kind is SplitKind.Fuse:
        inner_min = var(f"{prefix}{split.inner}.loop_min")
        inner_max = var(f"{prefix}{split.inner}.loop_max")
        outer_min = var(f"{prefix}{split.outer}.loop_min")
        outer_max = var(f"{prefix}{split.outer}.loop_max")
        extent = mul(add(sub(inner_max, inner_min), 1), add(sub(outer_max, outer_min), 1))
        return [(prefix + split.old, int32(0), sub(extent, 1))]
    old_min = var(f"{prefix}{split.old}.loop_min")
    old_max = var(f"{prefix}{split.old}.loop_max")
    if split.kind is not SplitKind.Split:
        return [(prefix + split.outer, old_min, old_max)]
    factor = split.factor
    assert factor is not None
    steps = div(add(sub(old_max, old_min), factor), factor)
    return [
        (prefix + split.inner, int32(0), sub(factor, 1)),
        (prefix + split.outer, int32(0), sub(steps, 1)),
    ]
