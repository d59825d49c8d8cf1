"""Times the placing of temporaries at the call: sizes never seen before, and seen before.

    python -m bench.place [--json] [--temporaries 30]

The problems are random: lives over the steps of a program in which most temporaries are read soon
after they were written. The loop over the calls is C, so nothing of Python is in the numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import tempfile
from pathlib import Path

from bayplan.build.compile_library import run_compiler
from bayplan.build.compilers import find_compiler
from bayplan.build.flags import choose_flags
from bayplan.storage.placement import Placement, keep_placement
from bayplan.targets.c_placement import read_place_prelude, write_placement

SCHEMA = "bayplan-bench-place-1"

# Each call of `repeat` asks for other sizes (`vary` > 0) or for the same ones.
_LOOP = """
#include <stdint.h>
#include <stdbool.h>
#include <time.h>
%s
%s
double repeat(const int64_t *hint, int32_t calls, int32_t vary) {
    int64_t sizes[%d], offsets[%d], sum = 0;
    struct timespec begin, end;
    for (int32_t i = 0; i < plan.count; i++) sizes[i] = hint[i];
    sum += bp_place(&plan, &plan_placed, sizes, offsets);
    timespec_get(&begin, TIME_UTC);
    for (int32_t c = 0; c < calls; c++) {
        if (vary) for (int32_t i = 0; i < plan.count; i++)
            sizes[i] = hint[i] + (int64_t)((uint32_t)(c * 2654435761u + i * 40503u) >> 16) %% vary;
        sum += bp_place(&plan, &plan_placed, sizes, offsets);
    }
    timespec_get(&end, TIME_UTC);
    const double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9
                    + (double)(end.tv_nsec - begin.tv_nsec);
    return sum == 42 ? 0.0 : ns / calls;
}
"""


def draw(rng: random.Random, count: int) -> tuple[Placement, list[int]]:
    """A problem whose lives look like those of a program, with its likely sizes."""
    lives = []
    for i in range(count):
        begin = max(0, i - rng.randrange(3))
        lives.append((begin, begin + rng.choice([1, 2, 2, 3, 4, 8, count])))
    hints = [[rng.choice([1, 2, 4]) * rng.randrange(1000, 100_000) for _ in lives] for _ in "1234"]
    return keep_placement(lives, [64] * count, hints), hints[0]


def measure(count: int, problems: int = 12, calls: int = 20_000) -> dict[str, float]:
    """Microseconds a call: the mean and the worst over the problems."""
    rng = random.Random(1)
    misses, hits, drifts = [], [], []
    for _ in range(problems):
        placement, hint = draw(rng, count)
        text = _LOOP % (read_place_prelude(), write_placement(placement, "plan"), count, count)
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "place.c"), Path(folder, "place.so")
            source.write_text(text)
            compiler = find_compiler()
            flags = [*choose_flags(compiler), "-fvisibility=default"]
            run_compiler([*compiler.command, *flags, str(source), "-o", str(library)], "place")
            function = ctypes.CDLL(str(library)).repeat
        function.restype = ctypes.c_double
        sizes = (ctypes.c_int64 * count)(*hint)
        hits.append(function(sizes, calls, 0))
        # Close to the hint: the relation is kept. Far from it: first fit is tried as well.
        drifts.append(function(sizes, calls // 10, 500))
        far = (ctypes.c_int64 * count)(*[1] * count)
        misses.append(function(far, calls // 10, 60_000))
    return {
        "hit_us": sum(hits) / problems / 1000,
        "hit_worst_us": max(hits) / 1000,
        "near_miss_us": sum(drifts) / problems / 1000,
        "miss_us": sum(misses) / problems / 1000,
        "miss_worst_us": max(misses) / 1000,
    }


def main() -> None:
    """Prints the table or the JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--temporaries", type=int, default=30)
    flags = parser.parse_args()
    found = measure(flags.temporaries)
    if flags.json:
        print(json.dumps({"schema": SCHEMA, "temporaries": flags.temporaries, **found}, indent=2))
        return
    print(f"{flags.temporaries} temporaries, microseconds a call")
    for name, value in found.items():
        print(f"  {name.removesuffix('_us').replace('_', ' '):12} {value:8.3f}")


if __name__ == "__main__":
    main()
