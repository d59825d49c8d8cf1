"""Kernels of high-order finite elements, written once for `halide` and `bayplan`.

Each module has `build(hl, ...)`, which takes the module to build with, and returns an
`apps.harness.App`. A Lagrange element of degree p has n = p + 1 nodes and q = p + 2 quadrature
points along each axis; numpy arrays have Halide's axes reversed, so u[cell, z, y, x] is u(x, y,
z, cell) here.
"""

NAMES = ("hex_laplacian", "batched_mass", "element_mass")
