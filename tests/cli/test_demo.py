"""The demo develops the photograph it took apart, and tells what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apps import camera_pipe, demo
from bayplan.imageio import imread

ROOT = Path(__file__).resolve().parents[2]


def test_the_curve_and_the_matrix_are_undone_exactly_enough() -> None:
    values = camera_pipe._usual_values()
    photograph = np.random.default_rng(0).integers(40, 200, (64, 64, 3)).astype(np.uint8)
    photograph[:] = photograph[:1, :1]  # one colour, so that each filter sees the same light
    mosaic = demo.expose(photograph, values)
    assert mosaic.dtype == np.uint16 and mosaic.max() < demo.LEVELS
    light = np.array([mosaic[0, 1], mosaic[0, 0], mosaic[1, 0]], np.float64)
    matrix = demo.color_matrix(values)
    level = np.clip(np.rint(matrix[:, :3] @ light + matrix[:, 3]), 0, demo.LEVELS - 1)
    developed = demo.tone_curve(values)[level.astype(int)]
    assert np.abs(developed - photograph[0, 0]).max() <= 4
    assert mosaic[0, 0] == mosaic[1, 1]


def test_sizes_fit() -> None:
    assert demo.fit_size((1000, 872), (64, 32)) == (960, 800)
    assert demo.fit_size((96, 80), (64, 32)) == (64, 32)


def test_the_calls_are_timed() -> None:
    calls: list[int] = []
    best, count = demo.time_calls(lambda: calls.append(0), seconds=0.0)
    assert count == len(calls) == 5 and 0 <= best < 0.1


def test_the_demo_runs(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    picture = tmp_path / "developed.png"
    done = subprocess.run(
        [sys.executable, str(ROOT / "apps/demo.py"), "--output", picture, "--seconds", "0.1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert f"written to {picture}" in done.stdout
    for name in ("denoised", "deinterleaved", "curved", "peak ", "floor ", "time "):
        assert f"\n{name}" in done.stdout
    developed = np.moveaxis(imread(picture), 0, 2).astype(int)
    height, width = developed.shape[:2]
    photograph = demo.load_photograph()[12 : 12 + height, 16 : 16 + width]
    # Half of the colours were never measured and the result is sharpened.
    assert np.abs(developed - photograph).mean() < 9
