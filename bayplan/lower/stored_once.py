"""Whether a Func stores each of its elements at most once."""

from __future__ import annotations

from typing import Final

from bayplan.language.schedule import SplitKind, TailStrategy
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage

_ONCE: Final = frozenset(
    [
        TailStrategy.GuardWithIf,
        TailStrategy.RoundUp,
        TailStrategy.Predicate,
        TailStrategy.PredicateLoads,
        TailStrategy.PredicateStores,
    ]
)


def is_stored_once(storage: str, lowering: Lowering) -> bool:
    """Whether each element of the storage is written at most once in a realization.

    Not where there are updates; not where a split shifts its last part inwards, and so computes
    points twice; not where the storage is kept while the Func is computed piece by piece, or its
    loops are another's too.
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
        for split in stage.splits:
            if split.kind is SplitKind.Split and split.tail not in _ONCE:
                return False
        definitions += [s.definition for s in definition.specializations]
    return True
