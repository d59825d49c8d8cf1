"""Kernels that live off a block's shared memory, with the Python API."""

NAMES = ("matrix_product", "histogram", "separable", "cell_mass")
