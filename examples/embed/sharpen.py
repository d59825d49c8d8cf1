"""A picture sharpened: the pipeline that the C and C++ programs of this folder call."""

from kernel import taps


def build(hl):
    """The picture plus what a blur takes away from it, times a strength."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 2, "image")
    strength = hl.Param(hl.Float(32), "strength")
    weights = hl.Buffer(hl.Float(32), [3], "weights")
    for i, tap in enumerate(taps):
        weights[i] = tap

    padded = hl.BoundaryConditions.repeat_edge(image)
    r = hl.RDom([(0, 3)])
    rows, blurred, sharp = hl.Func("rows"), hl.Func("blurred"), hl.Func("sharp")
    rows[x, y] = hl.sum(padded[x, y + r - 1] * weights[r])
    blurred[x, y] = hl.sum(rows[x + r - 1, y] * weights[r])
    sharp[x, y] = image[x, y] + strength * (image[x, y] - blurred[x, y])

    rows.compute_at(sharp, y)
    sharp.parallel(y).vectorize(x, 8, hl.TailStrategy.GuardWithIf)
    return sharp
