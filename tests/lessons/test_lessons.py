"""Halide's own Python lessons run with bayplan in place of halide.

They are not part of this repository: BAYPLAN_HALIDE_TUTORIAL names a checkout of Halide, or its
folder `python_bindings/tutorial`; without it these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan import settings

LESSONS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 17, 18, 20)
ROOT = Path(__file__).resolve().parents[2]


def _lesson(number: int) -> Path:
    named = settings.value("HALIDE_TUTORIAL")
    if not named:
        pytest.skip("BAYPLAN_HALIDE_TUTORIAL does not name Halide's tutorial")
    folder = Path(named)
    if (folder / "python_bindings" / "tutorial").is_dir():
        folder = folder / "python_bindings" / "tutorial"
    found = sorted(folder.glob(f"lesson_{number:02d}_*.py"))
    assert found, f"there is no lesson {number} in {folder}"
    return found[0]


@pytest.mark.parametrize("number", LESSONS)
def test_lesson_runs(number: int, tmp_path: Path) -> None:
    path = _lesson(number)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.lessons.run_lesson", str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Success!" in done.stdout
