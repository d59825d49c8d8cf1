"""Each application once more, as plain numpy over whole arrays: no compiler, no schedule.

Arrays have Halide's axes reversed (y before x, planes first). Every function takes the input
arrays and the box of the output, as `apps.harness` hands them out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.camera_pipe import MATRIX_3200, MATRIX_7000

Array = np.ndarray[Any, Any]
F32 = np.float32


def blur(arrays: dict[str, Array], mins: tuple[int, ...], extents: tuple[int, ...]) -> Array:
    """Two passes of a 3-tap mean, rounded down each time."""
    a = arrays["input"]
    rows = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) // 3
    return (rows[:-2] + rows[1:-1] + rows[2:]) // 3


def unsharp(arrays: dict[str, Array], mins: tuple[int, ...], extents: tuple[int, ...]) -> Array:
    """In float64, to be compared with a tolerance."""
    a = arrays["input"].astype(np.float64)
    k = np.exp(-(np.arange(4.0) ** 2) / 4.5) / (np.sqrt(2 * np.pi) * 1.5)
    gray = 0.299 * a[0] + 0.587 * a[1] + 0.114 * a[2]
    blurred = np.pad(gray, 3, mode="edge")
    for axis in (0, 1):
        n = blurred.shape[axis] - 6
        taps = [blurred.take(range(i, i + n), axis) for i in range(7)]
        blurred = k[0] * taps[3] + sum(k[i] * (taps[3 - i] + taps[3 + i]) for i in (1, 2, 3))
    return ((2 * gray - blurred) / gray * a).astype(F32)


def harris(arrays: dict[str, Array], mins: tuple[int, ...], extents: tuple[int, ...]) -> Array:
    """In float64, to be compared with a tolerance."""
    a = arrays["input"].astype(np.float64)
    gray = 0.299 * a[0] + 0.587 * a[1] + 0.114 * a[2]
    smooth_x = gray[:, :-2] + 2 * gray[:, 1:-1] + gray[:, 2:]
    smooth_y = gray[:-2] + 2 * gray[1:-1] + gray[2:]
    iy = (smooth_x[2:] - smooth_x[:-2]) / 12
    ix = (smooth_y[:, 2:] - smooth_y[:, :-2]) / 12
    sxx, syy, sxy = (_sum3x3(p) for p in (ix * ix, iy * iy, ix * iy))
    trace = sxx + syy
    return (sxx * syy - sxy * sxy - 0.04 * trace * trace).astype(F32)


def _sum3x3(a: Array) -> Array:
    rows = a[:-2] + a[1:-1] + a[2:]
    total: Array = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    return total


def stencil_chain(
    arrays: dict[str, Array], mins: tuple[int, ...], extents: tuple[int, ...], stencils: int = 32
) -> Array:
    """Modulo 65536 throughout; edges are repeated at the input only."""
    a = np.pad(arrays["input"], 2 * stencils, mode="edge")
    for _ in range(stencils):
        h, w = a.shape[0] - 4, a.shape[1] - 4
        total = np.zeros((h, w), np.uint16)
        for i in range(5):
            for j in range(5):
                total += a[j : j + h, i : i + w] * np.uint16((i + 1) * (j + 1))
        a = total
    return a


def iir_blur(
    arrays: dict[str, Array],
    mins: tuple[int, ...],
    extents: tuple[int, ...],
    alpha: float = 0.5,
) -> Array:
    """Scans down and up, transposed, twice; in float64."""
    a = arrays["input"].astype(np.float64)
    for _ in range(2):
        a = a.copy()
        for y in range(1, a.shape[1]):
            a[:, y] = (1 - alpha) * a[:, y - 1] + alpha * a[:, y]
        for y in range(a.shape[1] - 2, -1, -1):
            a[:, y] = (1 - alpha) * a[:, y + 1] + alpha * a[:, y]
        a = a.transpose(0, 2, 1)
    return a.astype(F32)


def camera_pipe(arrays: dict[str, Array], mins: tuple[int, ...], extents: tuple[int, ...]) -> Array:
    """All stages on whole images, in the integer widths of the original."""
    raw = arrays["input"].astype(np.int64)
    # Index (y + PAD, x + PAD) of every array below is the full or half resolution position.
    shifted = raw[12 - 8 : 12 + extents[1] + 8, 16 - 8 : 16 + extents[0] + 8]
    around = [np.roll(shifted, s, axis) for axis in (0, 1) for s in (-2, 2)]
    denoised = np.clip(shifted, 0, np.maximum.reduce(around))
    gr, r = denoised[::2, ::2], denoised[::2, 1::2]
    b, gb = denoised[1::2, ::2], denoised[1::2, 1::2]
    color = _demosaic(gr, r, b, gb)
    corrected = _correct(color)
    curved = _curve()[np.clip(corrected, 0, 1023)]
    return _sharpen(curved)[:, 8:-8, 8:-8]


def _at(a: Array, dx: int, dy: int) -> Array:
    """The value at (x + dx, y + dy); wraps at the border, which is cropped in the end."""
    return np.roll(a, (-dy, -dx), (-2, -1))


def _avg(a: Array, b: Array) -> Array:
    return (a + b + 1) >> 1


def _u16(a: Array) -> Array:
    return a & 0xFFFF


def _demosaic(gr: Array, r: Array, b: Array, gb: Array) -> Array:
    def smoother(a: tuple[Array, Array], c: tuple[Array, Array]) -> Array:
        return np.where(abs(a[0] - a[1]) < abs(c[0] - c[1]), _avg(*a), _avg(*c))

    def moved(here: Array, green: Array, col: Array, dx: int, dy: int) -> Array:
        return _u16(_u16(here - _avg(green, _at(green, dx, dy))) + _avg(_at(col, -dx, -dy), col))

    def diagonal(here: Array, green: Array, col: Array, steps: Any) -> Array:
        value, change = [], []
        for p, q in steps:
            mean = _avg(_at(green, *p), _at(green, *q))
            value.append(_u16(_u16(here - mean) + _avg(_at(col, *p), _at(col, *q))))
            change.append(abs(_at(col, *p) - _at(col, *q)))
        return np.where(change[0] < change[1], value[0], value[1])

    g_r = smoother((_at(gr, 1, 0), gr), (_at(gb, 0, -1), gb))
    g_b = smoother((_at(gb, -1, 0), gb), (_at(gr, 0, 1), gr))
    r_gr = _u16(_u16(gr - _avg(g_r, _at(g_r, -1, 0))) + _avg(_at(r, -1, 0), r))
    b_gr = _u16(_u16(gr - _avg(g_b, _at(g_b, 0, -1))) + _avg(_at(b, 0, -1), b))
    r_gb = _u16(_u16(gb - _avg(g_r, _at(g_r, 0, 1))) + _avg(_at(r, 0, 1), r))
    b_gb = _u16(_u16(gb - _avg(g_b, _at(g_b, 1, 0))) + _avg(_at(b, 1, 0), b))
    r_b = diagonal(g_b, g_r, r, [((0, 0), (-1, 1)), ((-1, 0), (0, 1))])
    b_r = diagonal(g_r, g_b, b, [((0, 0), (1, -1)), ((1, 0), (0, -1))])
    quads = ((r_gr, r, r_b, r_gb), (gr, g_r, g_b, gb), (b_gr, b_r, b, b_gb))
    out = np.empty((3, gr.shape[0] * 2, gr.shape[1] * 2), np.int64)
    for plane, (ee, oe, eo, oo) in zip(out, quads, strict=True):
        plane[::2, ::2], plane[::2, 1::2], plane[1::2, ::2], plane[1::2, 1::2] = ee, oe, eo, oo
    return out.astype(np.int16)


def _correct(color: Array) -> Array:
    one = F32(1)
    low, high = one / F32(3200), one / F32(7000)
    alpha = (one / F32(3700) - low) / (high - low)
    m = np.array(MATRIX_3200, F32) * alpha + np.array(MATRIX_7000, F32) * (one - alpha)
    fixed = np.trunc(m * F32(256)).astype(np.int64)
    wide = np.tensordot(fixed[:, :3], color.astype(np.int64), 1) + fixed[:, 3, None, None]
    return (wide >> 8).astype(np.int16)


def _curve(black: int = 25, white: int = 1023, contrast: float = 50, gamma: float = 2) -> Array:
    x = np.arange(1024)
    b = F32(2) - F32(2) ** F32(contrast / 100)
    a = F32(2) - F32(2) * b
    t = np.clip((x - black).astype(F32) * (F32(1) / F32(white - black)), F32(0), F32(1))
    g = t ** (F32(1) / F32(gamma))
    z = np.where(g > 0.5, 1 - (a * (1 - g) * (1 - g) + b * (1 - g)), a * g * g + b * g)
    value = np.clip(z * F32(255) + F32(0.5), 0, 255).astype(np.uint8)
    return np.where(x <= black, 0, np.where(x > white, 255, value)).astype(np.int64)


def _sharpen(f: Array, strength: int = 32) -> Array:
    uy = _avg(_avg(_at(f, 0, -1), _at(f, 0, 1)), f)
    u = _avg(_avg(_at(uy, -1, 0), _at(uy, 1, 0)), uy)
    return np.clip(f + ((f - u) * strength >> 5), 0, 255).astype(np.uint8)
