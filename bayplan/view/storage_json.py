"""The storage report as data for other programs, with the number of its schema."""

from __future__ import annotations

from typing import Any

SCHEMA = "bayplan.storage/3"


def describe_storage(report: Any) -> dict[str, Any]:
    """Turns a report into plain dicts, lists, numbers and strings, for ``json.dumps``.

    The keys are those of the report. The schema's number changes when a key goes away, changes its
    meaning, or says of what else there is that was not told before; a list may get further keys.
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
                "kernel": str(temporary.kernel),
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
        "kernels": [_describe_kernel(kernel) for kernel in report.kernels],
        "steps": [str(step) for step in report.steps],
    }


def _describe_kernel(kernel: Any) -> dict[str, Any]:
    return {
        "name": str(kernel.name),
        "function": str(kernel.function),
        "func": str(kernel.func),
        "source": None if kernel.source is None else str(kernel.source),
        "launches": kernel.launches,
        "exact": bool(kernel.exact),
        "blocks": list(kernel.blocks),
        "threads": list(kernel.threads),
        "blocks_formula": [str(text) for text in kernel.blocks_formula],
        "threads_formula": [str(text) for text in kernel.threads_formula],
        "register_bytes": kernel.register_bytes,
        "shared": str(kernel.shared),
        "shared_bytes": kernel.shared_bytes,
        "shared_floor_bytes": kernel.shared_floor_bytes,
        "device": str(kernel.device),
        "slice_bytes": kernel.slice_bytes,
        "slice_floor_bytes": kernel.slice_floor_bytes,
        "temporaries": [str(name) for name in kernel.temporaries],
        "barriers": [
            {
                "step": barrier.step,
                "fence": str(barrier.fence),
                "loops": [str(loop) for loop in barrier.loops],
            }
            for barrier in kernel.barriers
        ],
        "life": {"begin": kernel.life_begin, "end": kernel.life_end},
        "notes": [str(note) for note in kernel.notes],
    }
