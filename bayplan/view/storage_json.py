"""The storage report as data for other programs, with the number of its schema."""

from __future__ import annotations

from typing import Any

SCHEMA = "bayplan.storage/2"


def describe_storage(report: Any) -> dict[str, Any]:
    """Turns a report into plain dicts, lists, numbers and strings, for ``json.dumps``.

    The keys are those of the report. A later version of the schema may add keys; it changes its
    number when a key goes away or changes its meaning.
    """
    return {
        "schema": SCHEMA,
        "pipeline": str(report.pipeline),
        "workers": report.workers,
        "peak_bytes": report.peak_bytes,
        "floor_bytes": report.floor_bytes,
        "sum_bytes": report.sum_bytes,
        "stack_bytes": report.stack_bytes,
        "device_bytes": report.device_bytes,
        "device_floor_bytes": report.device_floor_bytes,
        "allocations": report.allocations,
        "exact": bool(report.exact),
        "formula": str(report.formula),
        "floor_formula": str(report.floor_formula),
        "terms": {str(name): str(text) for name, text in report.terms},
        "temporaries": [
            {
                "name": str(temporary.name),
                "func": str(temporary.func),
                "kind": str(temporary.kind),
                "element_type": str(temporary.element_type),
                "extents": [int(extent) for extent in temporary.extents],
                "bytes": temporary.bytes,
                "formula": str(temporary.formula),
                "copies": temporary.copies,
                "asked": str(temporary.asked),
                "why": str(temporary.why),
                "offset": temporary.offset,
                "in_place_of": str(temporary.in_place_of),
                "shares": [str(name) for name in temporary.shares],
                "life": {"begin": temporary.life_begin, "end": temporary.life_end},
                "loops": [str(loop) for loop in temporary.loops],
                "source": None if temporary.source is None else str(temporary.source),
                "arena": None if temporary.arena is None else str(temporary.arena),
                "per_worker": bool(temporary.per_worker),
            }
            for temporary in report.temporaries
        ],
        "arenas": [
            {
                "name": str(arena.name),
                "bytes": arena.bytes,
                "floor_bytes": arena.floor_bytes,
                "copies": arena.copies,
                "scope": str(arena.scope),
                "kind": str(arena.kind),
                "kernel": str(arena.kernel),
                "arena": str(arena.arena),
                "offset": arena.offset,
                "life": {"begin": arena.life_begin, "end": arena.life_end},
            }
            for arena in report.arenas
        ],
        "steps": [str(step) for step in report.steps],
    }
