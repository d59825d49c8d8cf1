"""Whether a Func stores each of its elements at most once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.ir.build import constant_value
from bayplan.language.schedule import Split, SplitKind, TailStrategy
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage

_STOPS: Final = frozenset(
    [TailStrategy.GuardWithIf, TailStrategy.Predicate, TailStrategy.PredicateStores]
)
"""Nothing is stored beyond the end of the loop that is split."""

_GOES_ON: Final = frozenset([TailStrategy.RoundUp, TailStrategy.PredicateLoads])
"""Stores go on to the end of the last part: once each, unless another part begins there."""


def is_stored_once(storage: str, lowering: Lowering) -> bool:
    """Whether each element of the storage is written at most once in a realization.

    Not where there are updates; not where a split shifts its last part inwards, or goes on into the
    next part of a split around it, and so computes points twice; not where the storage is kept
    while the Func is computed piece by piece, or its loops are another's too.
    """
    function = lowering.env.get(func_of_storage(storage, lowering))
    if function is None or function.init is None or function.updates:
        return False
    schedule = function.schedule
    if schedule.store_level != schedule.compute_level:
        return False
    definitions = [function.init]
    for definition in definitions:
        stage = definition.schedule
        if stage.fused_pairs or not stage.fuse_level.is_inlined():
            return False
        if not _parts_are_apart(stage.splits):
            return False
        definitions += [s.definition for s in definition.specializations]
    return True


def _parts_are_apart(splits: Sequence[Split]) -> bool:
    """Whether no two iterations of the loops that splits make are the same point."""
    # Of loops behind whose end another iteration of a loop around goes on: how long they are.
    inside: dict[str, int | None] = {}
    for split in splits:
        if split.kind is SplitKind.Fuse:
            if split.outer in inside:
                inside[split.old] = _product(inside.get(split.inner), inside[split.outer])
        elif split.kind is not SplitKind.Split:
            if split.old in inside:
                inside[split.outer] = inside[split.old]
        else:
            if split.tail not in _STOPS | _GOES_ON:
                return False
            assert split.factor is not None
            factor = constant_value(split.factor)
            size = None if factor is None else int(factor)
            if split.old in inside:
                length = inside[split.old]
                fits = length is not None and size is not None and length % size == 0
                if split.tail in _GOES_ON and not fits:
                    return False
                parts = None if length is None or size is None else -(-length // size)
                inside[split.outer] = parts
            inside[split.inner] = size
    return True


def _product(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b
