"""Runs one of Halide's Python lessons with bayplan in place of halide.

python -m tests.lessons.run_lesson PATH
"""

from __future__ import annotations

import runpy
import sys


def main() -> None:
    """Aliases the modules and runs the lesson as a program."""
    import bayplan
    import bayplan.imageio

    sys.modules["halide"] = bayplan
    sys.modules["halide.imageio"] = bayplan.imageio
    runpy.run_path(sys.argv[1], run_name="__main__")


if __name__ == "__main__":
    main()
