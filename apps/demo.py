"""Develops a photograph with the camera pipeline and shows where every temporary lived.

What `make demo` runs. A photograph that ships inside the wheel of scikit-image is turned back
into what the sensor of a camera would have delivered: a mosaic of 10-bit values behind red, green
and blue filters. `apps/camera_pipe.py` develops it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from apps import camera_pipe, harness  # noqa: E402

PHOTOGRAPH = "hubble_deep_field.jpg"
MARGIN_X, MARGIN_Y = 32, 48  # what the pipeline reads beyond its output
LEVELS = 1024


def load_photograph() -> Any:
    """Reads the photograph as an array (row, column, channel) of uint8, without a network."""
    import imageio.v2
    import skimage

    return imageio.v2.imread(Path(skimage.__file__).parent / "data" / PHOTOGRAPH)[:, :, :3]


def expose(photograph: Any, values: dict[str, Any]) -> Any:
    """Turns a picture into the GRBG mosaic that develops to it.

    The tone curve and the colour matrix of the pipeline are undone, then each pixel keeps the one
    colour that its filter lets through.

    Args:
        photograph: uint8 (row, column, channel).
        values: The settings with which the mosaic will be developed.

    Returns:
        uint16 (row, column), values below 1024.
    """
    import numpy as np

    corrected = np.searchsorted(tone_curve(values), photograph).astype(np.float64)
    matrix = color_matrix(values)
    sensor = (corrected - matrix[:, 3]) @ np.linalg.inv(matrix[:, :3]).T
    sensor = np.clip(np.rint(sensor), 0, LEVELS - 1).astype(np.uint16)
    mosaic = sensor[:, :, 1].copy()  # green at (0, 0) and (1, 1)
    mosaic[0::2, 1::2] = sensor[0::2, 1::2, 0]
    mosaic[1::2, 0::2] = sensor[1::2, 0::2, 2]
    return mosaic


def color_matrix(values: dict[str, Any]) -> Any:
    """The 3 x 4 matrix from sensor to picture at the colour temperature of the settings."""
    low, high = 1 / 3200, 1 / 7000
    alpha = (1 / values["color_temp"] - low) / (high - low)
    return values["matrix_3200"] * alpha + values["matrix_7000"] * (1 - alpha)


def tone_curve(values: dict[str, Any]) -> Any:
    """The brightness of the picture for each of the 1024 levels, as the pipeline computes it."""
    import numpy as np

    black, white = values["black_level"], values["white_level"]
    b = 2 - 2 ** (values["contrast"] / 100)
    a = 2 - 2 * b
    level = np.clip((np.arange(LEVELS) - black) / (white - black), 0, 1)
    g = level ** (1 / values["gamma"])
    z = np.where(g > 0.5, 1 - (a * (1 - g) ** 2 + b * (1 - g)), a * g**2 + b * g)
    return np.clip(np.rint(255 * z), 0, 255)


def fit_size(available: tuple[int, int], step: tuple[int, int]) -> tuple[int, int]:
    """The largest (width, height) of the result that a mosaic of the given size covers."""
    width = (available[0] - MARGIN_X) // step[0] * step[0]
    height = (available[1] - MARGIN_Y) // step[1] * step[1]
    return width, height


def time_calls(call: Any, seconds: float = 1.0, least: int = 5) -> tuple[float, int]:
    """Repeats a call for about `seconds`; returns the shortest time of one and the count."""
    best, count = float("inf"), 0
    end = time.perf_counter() + seconds
    while count < least or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
        count += 1
    return best, count


def main() -> None:
    """Runs the demo; the picture's path, the storage table and the times go to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "camera_pipe.png")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure")
    options = parser.parse_args()

    import numpy as np

    import bayplan as hl
    from bayplan import driver, imageio

    app = camera_pipe.build(hl)
    mosaic = expose(load_photograph(), app.values)
    width, height = fit_size(mosaic.shape[::-1], app.smallest[:2])
    mosaic = np.ascontiguousarray(mosaic[: height + MARGIN_Y, : width + MARGIN_X])
    extents = (width, height, 3)

    begin = time.perf_counter()
    app.output.compile_jit()
    compiled = time.perf_counter() - begin

    arrays = {
        "input": mosaic,
        **{name: app.values[name] for name in ("matrix_3200", "matrix_7000")},
    }
    prepared = harness.Prepared(hl, app, arrays, app.mins, extents)
    prepared.run()
    counted = driver.context().counts.peak_bytes
    options.output.parent.mkdir(parents=True, exist_ok=True)
    imageio.imwrite(options.output, prepared.out)
    print(f"developed {PHOTOGRAPH}: {width} x {height} pixels, written to {options.output}\n")

    report = hl.Pipeline(app.output).storage(list(extents))
    print(report)
    fewer = ", as not all workers worked at once" if counted < report.peak_bytes else ""
    print(f"counted by the allocator of the call: {counted:,} bytes at its peak{fewer}\n")
    best, count = time_calls(prepared.run, options.seconds)
    rate = width * height / best / 1e6
    print(f"time  {best * 1e3:.2f} ms, best of {count} calls ({rate:.0f} million pixels a second)")
    print(f"      {compiled:.2f} s before, to lower and compile")


if __name__ == "__main__":
    main()
