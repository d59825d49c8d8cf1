"""From the raw mosaic of a camera to an RGB picture: the many-temporaries application.

Hot pixels are suppressed, the Bayer mosaic (GRBG) is demosaiced, colours are corrected by a
matrix that depends on the colour temperature, a tone curve is applied through a table, and
the result is sharpened. Input is uint16 with 10 bits, output uint8 in three planes.
"""

from __future__ import annotations

from typing import Any

from apps.harness import App, Box, Extents

STRIP = 32

MATRIX_3200 = (
    (1.6697, -0.2693, -0.4004, -42.4346),
    (-0.3576, 1.0615, 1.5949, -37.1158),
    (-0.2175, -1.8751, 6.9640, -26.6970),
)
MATRIX_7000 = (
    (2.2997, -0.4478, 0.1706, -39.0923),
    (-0.3826, 1.5906, -0.2080, -25.4311),
    (-0.0888, -0.7344, 2.2832, -20.0826),
)


def build(hl: Any, *, width: int = 2560, height: int = 1920, gpu: bool = False) -> App:
    """Builds the camera pipeline.

    On the CPU strips of 32 rows run in parallel; in each, five line buffers of four rows slide.
    Output extents must be multiples of twice the natural vector size of uint16, by 32. On a GPU
    a block of 28 x 12 pixels keeps seven temporaries in shared memory; extents must be even.

    Args:
        hl: The module to build with.
        width: Usual width of the output; any multiple works in the call.
        height: Usual height of the output.
        gpu: Schedule for a GPU.
    """
    pipeline = _Camera(hl)
    processed = pipeline.define()
    if gpu:
        pipeline.schedule_gpu()
    else:
        pipeline.schedule()
    step = 2 * pipeline.vector
    return App(
        "camera_pipe",
        processed,
        pipeline.inputs,
        params=pipeline.params,
        values=_usual_values(),
        extents=(width, height, 3),
        smallest=(step, STRIP, 3),
        multiples=(step, STRIP, 3),
        cases=[((0, 0, 0), (step, STRIP, 3)), ((0, 0, 0), (3 * step, 5 * STRIP, 3))],
        input_box=_input_box,
        fill=lambda name, shape, rng: rng.integers(0, 1024, shape).astype("uint16"),
    )


def _usual_values() -> dict[str, Any]:
    """The usual settings, and the two colour matrices as arrays (row, column)."""
    import numpy as np

    return {
        "matrix_3200": np.array(MATRIX_3200, np.float32),
        "matrix_7000": np.array(MATRIX_7000, np.float32),
        "color_temp": 3700.0,
        "gamma": 2.0,
        "contrast": 50.0,
        "sharpen_strength": 1.0,
        "black_level": 25,
        "white_level": 1023,
    }


def _input_box(name: str, mins: Extents, extents: Extents) -> Box:
    """The raw image that the driver of the original takes: 32 columns and 48 rows more."""
    return (mins[0], mins[1]), (extents[0] + 32, extents[1] + 48)


class _Camera:
    """The pipeline under construction: its Funcs by name, for the schedule."""

    def __init__(self, hl: Any) -> None:
        self.hl = hl
        self.x, self.y, self.c = hl.vars("x y c")
        self.vector: int = hl.get_host_target().natural_vector_size(hl.UInt(16))
        self.inputs = {
            "input": hl.ImageParam(hl.UInt(16), 2, "input"),
            "matrix_3200": hl.ImageParam(hl.Float(32), 2, "matrix_3200"),
            "matrix_7000": hl.ImageParam(hl.Float(32), 2, "matrix_7000"),
        }
        self.params = {
            name: hl.Param(hl.Float(32), name)
            for name in ("color_temp", "gamma", "contrast", "sharpen_strength")
        }
        for name in ("black_level", "white_level"):
            self.params[name] = hl.Param(hl.Int(32), name)

    def define(self) -> Any:
        """Defines all stages and returns the output Func."""
        hl, x, y = self.hl, self.x, self.y
        shifted = hl.Func("shifted")
        shifted[x, y] = self.inputs["input"][x + 16, y + 12]
        self.denoised = self._suppress_hot_pixels(shifted)
        self.deinterleaved = self._deinterleave(self.denoised)
        self.demosaiced = self._demosaic(self.deinterleaved)
        self.corrected = self._correct_colors(self.demosaiced)
        self.curved = self._apply_curve(self.corrected)
        self.processed = self._sharpen(self.curved)
        return self.processed

    def _suppress_hot_pixels(self, f: Any) -> Any:
        """Clamps each pixel to the largest of its neighbours of the same colour."""
        hl, x, y = self.hl, self.x, self.y
        largest = hl.max(hl.max(f[x - 2, y], f[x + 2, y]), hl.max(f[x, y - 2], f[x, y + 2]))
        g = hl.Func("denoised")
        g[x, y] = hl.clamp(f[x, y], 0, largest)
        return g

    def _deinterleave(self, f: Any) -> Any:
        """Splits the mosaic into four planes of half the resolution: gr, r, b, gb."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        g = hl.Func("deinterleaved")
        g[x, y, c] = hl.mux(
            c,
            [
                f[2 * x, 2 * y],
                f[2 * x + 1, 2 * y],
                f[2 * x, 2 * y + 1],
                f[2 * x + 1, 2 * y + 1],
            ],
        )
        return g

    def _demosaic(self, planes: Any) -> Any:
        """Interpolates the two missing colours at each pixel, along the smoother direction."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        gr, r, b, gb = (self._plane(planes, i, n) for i, n in enumerate(("gr", "r", "b", "gb")))

        g_r, g_b = hl.Func("g_r"), hl.Func("g_b")
        g_r[x, y] = self._smoother((gr[x + 1, y], gr[x, y]), (gb[x, y - 1], gb[x, y]))
        g_b[x, y] = self._smoother((gb[x - 1, y], gb[x, y]), (gr[x, y + 1], gr[x, y]))
        self.g_r, self.g_b = g_r, g_b

        r_gr = self._difference("r_gr", gr, g_r, r, (0, 0), (-1, 0))
        b_gr = self._difference("b_gr", gr, g_b, b, (0, 0), (0, -1))
        r_gb = self._difference("r_gb", gb, g_r, r, (0, 0), (0, 1))
        b_gb = self._difference("b_gb", gb, g_b, b, (0, 0), (1, 0))
        r_b = self._diagonal("r_b", g_b, g_r, r, ((0, 0), (-1, 1)), ((-1, 0), (0, 1)))
        b_r = self._diagonal("b_r", g_r, g_b, b, ((0, 0), (1, -1)), ((1, 0), (0, -1)))

        red = self._quad("red", r_gr, r, r_b, r_gb)
        green = self._quad("green", gr, g_r, g_b, gb)
        blue = self._quad("blue", b_gr, b_r, b, b_gb)
        f = hl.Func("demosaiced")
        f[x, y, c] = hl.i16(hl.mux(c, [red[x, y], green[x, y], blue[x, y]]))
        return f

    def _plane(self, planes: Any, index: int, name: str) -> Any:
        f = self.hl.Func(name)
        f[self.x, self.y] = planes[self.x, self.y, index]
        return f

    def _smoother(self, across: tuple[Any, Any], down: tuple[Any, Any]) -> Any:
        """The mean of the pair that differs less; `down` on a tie."""
        hl = self.hl
        return hl.select(
            hl.absd(*across) < hl.absd(*down), _average(hl, *across), _average(hl, *down)
        )

    def _difference(
        self,
        name: str,
        here: Any,
        green: Any,
        color: Any,
        a: tuple[int, int],
        b: tuple[int, int],
    ) -> Any:
        """A colour where only green was measured: its mean, moved by what green deviates."""
        hl, x, y = self.hl, self.x, self.y
        f = hl.Func(name)
        f[x, y] = (here[x, y] - self._mean(green, a, b)) + self._mean(color, b, a)
        return f

    def _diagonal(
        self,
        name: str,
        here: Any,
        green: Any,
        color: Any,
        positive: tuple[tuple[int, int], tuple[int, int]],
        negative: tuple[tuple[int, int], tuple[int, int]],
    ) -> Any:
        """Red at blue or blue at red: along the diagonal that differs less."""
        hl, x, y = self.hl, self.x, self.y
        values, steps = [], []
        for a, b in (positive, negative):
            values.append((here[x, y] - self._mean(green, a, b)) + self._mean(color, a, b))
            steps.append(hl.absd(*(color[x + dx, y + dy] for dx, dy in (a, b))))
        f = hl.Func(name)
        f[x, y] = hl.select(steps[0] < steps[1], values[0], values[1])
        return f

    def _mean(self, f: Any, a: tuple[int, int], b: tuple[int, int]) -> Any:
        x, y = self.x, self.y
        return _average(self.hl, f[x + a[0], y + a[1]], f[x + b[0], y + b[1]])

    def _quad(self, name: str, even_even: Any, odd_even: Any, even_odd: Any, odd_odd: Any) -> Any:
        """Full resolution from four half-resolution planes (named by x then y)."""
        hl, x, y = self.hl, self.x, self.y
        f = hl.Func(name)
        f[x, y] = hl.select(
            y % 2 == 0,
            hl.select(x % 2 == 0, even_even[x / 2, y / 2], odd_even[x / 2, y / 2]),
            hl.select(x % 2 == 0, even_odd[x / 2, y / 2], odd_odd[x / 2, y / 2]),
        )
        return f

    def _correct_colors(self, f: Any) -> Any:
        """Applies the 3 x 4 matrix in 8-bit fixed point."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        one = hl.f32(1.0)
        low, high = one / hl.f32(3200.0), one / hl.f32(7000.0)
        alpha = (one / self.params["color_temp"] - low) / (high - low)
        value = self.inputs["matrix_3200"][x, y] * alpha + self.inputs["matrix_7000"][x, y] * (
            one - alpha
        )
        matrix = hl.Func("matrix")
        matrix[x, y] = hl.i16(value * hl.f32(256.0))
        self.matrix = matrix

        colors = [hl.i32(f[x, y, i]) for i in range(3)]
        rows = []
        for row in range(3):
            total = hl.i32(matrix[3, row])
            for i in range(3):
                total = total + matrix[i, row] * colors[i]
            rows.append(hl.i16(total / 256))
        g = hl.Func("corrected")
        g[x, y, c] = hl.mux(c, rows)
        return g

    def _apply_curve(self, f: Any) -> Any:
        """Gamma and contrast through a table of 1024 entries."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        black, white = self.params["black_level"], self.params["white_level"]
        one = hl.f32(1.0)
        b = hl.f32(2.0) - hl.pow(hl.f32(2.0), self.params["contrast"] / hl.f32(100.0))
        a = hl.f32(2.0) - hl.f32(2.0) * b
        scale = one / hl.f32(white - black)
        t = hl.clamp(hl.f32(x - black) * scale, hl.f32(0.0), one)
        g = hl.pow(t, one / self.params["gamma"])
        z = hl.select(
            g > hl.f32(0.5),
            one - (a * (one - g) * (one - g) + b * (one - g)),
            a * g * g + b * g,
        )
        value = hl.u8(hl.clamp(z * hl.f32(255.0) + hl.f32(0.5), hl.f32(0.0), hl.f32(255.0)))
        curve = hl.Func("curve")
        curve[x] = hl.select(x <= black, hl.u8(0), hl.select(x > white, hl.u8(255), value))
        self.curve = curve
        curved = hl.Func("curved")
        curved[x, y, c] = curve[hl.clamp(f[x, y, c], 0, 1023)]
        return curved

    def _sharpen(self, f: Any) -> Any:
        """Adds the difference to a 3 x 3 binomial blur, scaled."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        strength, blur_y, blur, mask = (
            hl.Func(name) for name in ("strength", "unsharp_y", "unsharp", "mask")
        )
        strength[()] = hl.u8_sat(self.params["sharpen_strength"] * hl.f32(32.0))
        self.strength = strength
        blur_y[x, y, c] = _blur121(hl, f[x, y - 1, c], f[x, y, c], f[x, y + 1, c])
        blur[x, y, c] = _blur121(hl, blur_y[x - 1, y, c], blur_y[x, y, c], blur_y[x + 1, y, c])
        mask[x, y, c] = hl.i16(f[x, y, c]) - hl.i16(blur[x, y, c])
        g = hl.Func("processed")
        g[x, y, c] = hl.u8_sat(hl.i16(f[x, y, c]) + (mask[x, y, c] * strength[()]) / 32)
        return g

    def schedule_gpu(self) -> None:
        """Gives all stages their GPU schedule: seven tiles in a block's shared memory."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        xi, yi = hl.vars("xi yi")
        processed = self.processed
        self.curve.compute_root().gpu_tile(x, xi, 32)
        self.matrix.compute_root().gpu_single_thread()
        self.strength.compute_root().gpu_single_thread()

        out = processed.output_buffer()
        processed.compute_root().reorder(c, x, y).bound(c, 0, 3)
        processed.bound(x, 0, out.width() / 2 * 2).bound(y, 0, out.height() / 2 * 2)
        processed.unroll(x, 2).gpu_tile(x, y, xi, yi, 28, 12)
        self.denoised.compute_at(processed, x)
        self.denoised.tile(x, y, xi, yi, 2, 2).unroll(xi).unroll(yi).gpu_threads(x, y)
        self.deinterleaved.compute_at(processed, x)
        self.deinterleaved.unroll(x, 2).gpu_threads(x, y).reorder(c, x, y).unroll(c)
        for green in (self.g_r, self.g_b):
            green.compute_at(processed, x).gpu_threads(x, y)
        for stage in (self.demosaiced, self.curved):
            stage.compute_at(processed, x)
            stage.unroll(x, 2).gpu_threads(x, y).reorder(c, x, y).unroll(c)
        self.corrected.compute_at(processed, x).gpu_threads(x, y).reorder(c, x, y).unroll(c)

    def schedule(self) -> None:
        """Gives all stages their CPU schedule."""
        hl, x, y, c = self.hl, self.x, self.y, self.c
        yo, yi, yii, xi = hl.vars("yo yi yii xi")
        processed, step = self.processed, 2 * self.vector
        round_up = hl.TailStrategy.RoundUp
        for table in (self.matrix, self.curve, self.strength):
            table.compute_root()

        out = processed.output_buffer()
        processed.compute_root().reorder(c, x, y)
        processed.split(y, yi, yii, 2, round_up).split(yi, yo, yi, STRIP // 2)
        processed.vectorize(x, step, round_up).unroll(c).parallel(yo)
        processed.bound(c, 0, 3).bound(x, 0, out.width() / step * step)
        processed.bound(y, 0, out.height() / STRIP * STRIP)

        for buffered in (self.denoised, self.deinterleaved, self.g_r, self.g_b, self.curved):
            buffered.compute_at(processed, yi).store_at(processed, yo)
        self.denoised.fold_storage(y, 4).prefetch(self.inputs["input"], y, y, 2)
        self.denoised.tile(x, y, x, y, xi, yi, step, 2).vectorize(xi).unroll(yi)
        self.deinterleaved.fold_storage(y, 4).reorder(c, x, y)
        self.deinterleaved.vectorize(x, step, round_up).unroll(c)
        for green in (self.g_r, self.g_b):
            green.fold_storage(y, 4).vectorize(x, step, round_up)
        start = hl.LoopAlignStrategy.AlignStart
        self.g_b.compute_with(self.g_r, x, [(x, start), (y, start)])
        self.curved.reorder(c, x, y).tile(x, y, x, y, xi, yi, step, 2, round_up)
        self.curved.vectorize(xi).unroll(yi).unroll(c)
        self.corrected.compute_at(self.curved, x).reorder(c, x, y).vectorize(x).unroll(c)
        self.demosaiced.compute_at(self.curved, x)
        self.demosaiced.vectorize(x).unroll(y).reorder(c, x, y).unroll(c)


def _average(hl: Any, a: Any, b: Any) -> Any:
    """The mean of two unsigned values, rounded up, computed one size wider."""
    a = a if isinstance(a, hl.Expr) else hl.Expr(a)
    narrow = a.type()
    wide = narrow.with_bits(narrow.bits() * 2)
    return hl.cast(narrow, (hl.cast(wide, a) + b + 1) / 2)


def _blur121(hl: Any, a: Any, b: Any, c: Any) -> Any:
    """The weighted mean (a + 2 b + c) / 4, by two rounded means."""
    return _average(hl, _average(hl, a, c), b)
