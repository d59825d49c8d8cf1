"""``bayplan run``: one call, a benchmark, or the peak of its memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bayplan.cli.benchmark import Measurement, measure
from bayplan.cli.inputs import Box, Options, Prepared, prepare, split_arguments
from bayplan.cli.memory import Measured, measure_memory
from bayplan.cli.program import Program, load_program
from bayplan.cli.talk import progress, say, show_json
from bayplan.cli.values import save_buffer

SCHEMA = "bayplan.run/1"


def make_options(flags: dict[str, Any], *, outputs_wanted: bool = False) -> Options:
    """Collects the flags about inputs and sizes; ``--estimate_all`` stands for three of them."""
    if flags["estimate_all"]:
        return Options("estimate", "random:0:estimate_then_auto", "estimate")
    return Options(
        flags["output_extents"],
        flags["default_input_buffers"],
        flags["default_input_scalars"],
        outputs_wanted=outputs_wanted,
    )


def chosen_target(program: Program, flags: dict[str, Any]) -> Any:
    """The Target that ``--target`` names; None for that of HL_JIT_TARGET or this machine."""
    return program.hl.Target(flags["target"]) if flags["target"] else None


def run_program(spec: str, arguments: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Carries out ``bayplan run``."""
    program = load_program(spec)
    if flags["describe"]:
        _describe(program, flags["as_json"])
        return
    # A run for its time or its memory needs no file for the output.
    measuring = bool(flags["benchmarks"] or flags["track_memory"])
    given = split_arguments(program, arguments)
    options = make_options(flags, outputs_wanted=not measuring and not flags["estimate_all"])
    if flags["verbose"]:
        say(f"{program.name}: reading inputs, asking for bounds")
    prepared = prepare(program, given, options)
    prepared.target = chosen_target(program, flags)
    if not flags["quiet"]:
        for note in prepared.notes:
            say(note)

    begin = time.perf_counter()
    with progress(f"compiling {program.name}"):
        program.pipeline.compile_jit(prepared.target)
    compile_seconds = time.perf_counter() - begin
    if flags["verbose"]:
        say(f"compiled in {compile_seconds:.2f} s; running")
    prepared.run()
    measurement = None
    if flags["benchmarks"]:
        measurement = measure(prepared.run, flags["benchmark_min_time"])
    taken = measure_memory(prepared) if flags["track_memory"] else None
    saved = _save(prepared, quiet=flags["quiet"])
    if flags["as_json"]:
        show_json(_as_json(prepared, saved, compile_seconds, measurement, taken))
        return
    if measurement is not None:
        _print_measurement(prepared, measurement, parsable=flags["parsable_output"])
    if taken is not None:
        on_device = "" if taken.device_bytes is None else f" and {taken.device_bytes} on the device"
        print(
            f"peak of the temporaries: {taken.peak_bytes} bytes{on_device} "
            f"for {_megapixels(prepared):.3f} Mpixel"
        )
    for name, box, path in saved:
        print(f"{name}: {box} -> {path}")


def _describe(program: Program, as_json: bool) -> None:
    """Prints what ``--describe`` asks for."""
    rows = [("input", n, f"{p.type()}", p.dimensions()) for n, p in program.inputs.items()]
    rows += [("input", n, f"{p.type()}", None) for n, p in program.params.items()]
    rows += [("output", s.name, f"{s.element_type}", s.dimensions) for s in program.outputs]
    if as_json:
        keys = ("direction", "name", "type", "dimensions")
        arguments = [dict(zip(keys, row)) for row in rows]
        show_json({"schema": "bayplan.describe/1", "program": program.name, "arguments": arguments})
        return
    print(f'program "{program.name}"')
    for direction, name, kind, dimensions in rows:
        text = kind if dimensions is None else f"buffer of {kind} with {dimensions} dimensions"
        print(f'  {direction} "{name}": {text}')


def _save(prepared: Prepared, *, quiet: bool) -> list[tuple[str, Box, str]]:
    saved = []
    for slot, array, box in zip(prepared.program.outputs, prepared.arrays, prepared.boxes):
        path = prepared.files.get(slot.name)
        if path is None:
            continue
        notes = save_buffer(slot.name, Path(path), array)
        for note in notes if not quiet else []:
            say(note)
        saved.append((slot.name, box, path))
    return saved


def _pixels(prepared: Prepared) -> int:
    """The product of the first two extents, over all outputs, as RunGen counts them."""
    total = 0
    for box in prepared.boxes:
        count = 1
        for extent in box.extents[:2]:
            count *= extent
        total += count
    return total


def _megapixels(prepared: Prepared) -> float:
    return _pixels(prepared) / (1024.0 * 1024.0)


def _print_measurement(prepared: Prepared, found: Measurement, *, parsable: bool) -> None:
    name = prepared.program.name
    rate = _megapixels(prepared) / found.seconds
    if parsable:
        for key, value in (
            ("BEST_TIME_MSEC_PER_ITER", found.seconds * 1e3),
            ("SAMPLES", found.samples),
            ("ITERATIONS", found.iterations),
            ("TIMING_ACCURACY", found.accuracy),
            ("THROUGHPUT_MPIX_PER_SEC", rate),
        ):
            print(f"{name}  {key:<24} {value:g}")
        return
    print(
        f"{name}: {found.seconds:g} s a call, best of {found.samples} samples "
        f"({found.iterations} calls, accuracy {100 * found.accuracy:.2g} %), {rate:.4g} Mpixel/s"
    )


def _box_json(box: Box) -> dict[str, list[int]]:
    return {"mins": list(box.mins), "extents": list(box.extents)}


def _as_json(
    prepared: Prepared,
    saved: list[tuple[str, Box, str]],
    compile_seconds: float,
    measurement: Measurement | None,
    taken: Measured | None,
) -> dict[str, Any]:
    files = {name: path for name, _, path in saved}
    return {
        "schema": SCHEMA,
        "program": prepared.program.name,
        "inputs": {
            name: _box_json(value) if isinstance(value, Box) else value
            for name, value in prepared.inputs.items()
        },
        "outputs": [
            {
                "name": slot.name,
                "type": str(slot.element_type),
                **_box_json(box),
                "file": files.get(slot.name),
            }
            for slot, box in zip(prepared.program.outputs, prepared.boxes)
        ],
        "compile_seconds": compile_seconds,
        "benchmark": None
        if measurement is None
        else {
            "seconds": measurement.seconds,
            "samples": measurement.samples,
            "iterations": measurement.iterations,
            "accuracy": measurement.accuracy,
            "mpixel_per_second": _megapixels(prepared) / measurement.seconds,
        },
        "peak_bytes": None if taken is None else taken.peak_bytes,
        "device_bytes": None if taken is None else taken.device_bytes,
        "notes": prepared.notes,
    }
