"""Checks the generator itself with the wheel alone: with and without schedule, same values.

python -m tests.differential.plain_check 0:500
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.differential.choices import Choices
from tests.differential.compare import difference
from tests.differential.generate import generate
from tests.differential.worker import Engine


def main() -> int:
    """Runs each seed twice with the wheel; prints what differs or is refused."""
    first, end = (int(part) for part in sys.argv[1].split(":"))
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with Engine("halide") as scheduled, Engine("halide") as plain:
        for seed in range(first, end):
            program = generate(Choices.from_seed(seed))
            scheduled.start(program)
            plain.start(program.with_schedule([]))
            got, want = scheduled.answer(), plain.answer()
            if got.outputs is None or want.outputs is None:
                counts["illegal" if got.outputs is None else "plain refused"] += 1
                print(seed, "ILLEGAL", (got.error or want.error)[:240].replace("\n", " "))
                continue
            messages = [
                difference(g, w, e)
                for g, w, e in zip(got.outputs, want.outputs, program.exact, strict=True)
            ]
            counts["differ" if any(messages) else "agree"] += 1
            if any(messages):
                print(seed, "DIFFER", messages)
    print(dict(counts), f"{(end - first) / (time.monotonic() - began):.1f} programs/s")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
