"""``bayplan plan``: offsets for a list of lifetimes, without any program."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from bayplan.cli.failure import CommandError
from bayplan.cli.talk import progress, say, show_json
from bayplan.ir.errors import CompileError, NoCompiler
from bayplan.storage.lifetimes import Lifetimes, read_lifetimes, write_lifetimes
from bayplan.storage.packing import Search
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Planned

SCHEMA = "bayplan.plan/1"


def plan_lifetimes(
    file: str, capacity: int | None, output: Path | None, as_json: bool, time_limit_s: float
) -> None:
    """Carries out ``bayplan plan``.

    Raises:
        CommandError: No plan within the capacity was found.
    """
    lifetimes = _read(file)
    begin = time.monotonic()
    with progress(f"planning {len(lifetimes.requests)} buffers"):
        planned = plan_offsets(
            lifetimes.requests,
            capacity=capacity,
            time_limit_s=time_limit_s,
            search=_find_search(),
        )
    seconds = time.monotonic() - begin
    fits = capacity is None or planned.peak_bytes <= capacity
    text = write_lifetimes(lifetimes, planned.offsets)
    if output is not None and fits:
        try:
            output.write_text(text, "utf-8")
        except OSError as error:
            raise CommandError(f"{output}: {error.strerror or error}", 1) from None
    if as_json:
        show_json(_describe(lifetimes, planned, capacity, seconds))
    elif fits:
        summary = _summarise(planned, len(lifetimes.requests), seconds)
        if output is None:
            say(summary)
            sys.stdout.write(text)
        else:
            print(f"{summary} -> {output}")
    if fits:
        return
    how = (
        f"no plan fits: every one takes at least {planned.least_bytes} bytes"
        if capacity is not None and planned.least_bytes > capacity
        else f"no plan was found in {seconds:.1f} s; --time-limit gives it longer"
    )
    raise CommandError(
        f"capacity {capacity}: {how}. The smallest found takes {planned.peak_bytes} bytes, "
        f"the floor is {planned.floor_bytes}",
        1,
    )


def _read(file: str) -> Lifetimes:
    if file == "-":
        return read_lifetimes(sys.stdin, "<stdin>")
    try:
        with open(file, encoding="utf-8-sig", newline="") as lines:
            return read_lifetimes(lines, file)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}", 2) from None
    except UnicodeDecodeError:
        raise CommandError(f"{file}: this is no text in UTF-8", 1) from None


def _find_search() -> Search | None:
    """The compiled search, compiled before it is first needed; None without a compiler."""
    from bayplan.driver.fast_search import load_search

    try:
        return load_search()
    except (NoCompiler, CompileError) as error:
        say(f"the search runs in Python, which is slow: {error.message.splitlines()[0]}")
        return None


def _summarise(planned: Planned, count: int, seconds: float) -> str:
    ratio = f", {planned.peak_bytes / planned.floor_bytes:.3f} ×" if planned.floor_bytes else ""
    proven = "no plan is smaller" if planned.proven else "not proven to be the smallest"
    return (
        f"{count} buffers in {planned.peak_bytes} bytes (floor {planned.floor_bytes}{ratio}; "
        f"{proven}), {seconds:.2f} s"
    )


def _describe(
    lifetimes: Lifetimes, planned: Planned, capacity: int | None, seconds: float
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "file": lifetimes.file,
        "capacity": capacity,
        "fits": capacity is None or planned.peak_bytes <= capacity,
        "peak_bytes": planned.peak_bytes,
        "floor_bytes": planned.floor_bytes,
        "least_bytes": planned.least_bytes,
        "proven": planned.proven,
        "seconds": round(seconds, 3),
        "buffers": [
            {
                "id": r.name,
                "lower": r.begin,
                "upper": r.end,
                "size": r.size_bytes,
                "alignment": r.alignment,
                "offset": offset,
            }
            for r, offset in zip(lifetimes.requests, planned.offsets)
        ],
    }
