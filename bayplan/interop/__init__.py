"""Arrays of other libraries that live on devices: taken as Buffers without a copy.

`cuda_array` takes what has `__cuda_array_interface__` (CuPy, PyTorch, Numba, JAX), `opencl_array`
an array of PyOpenCL; `on_queue` runs kernels in a queue of PyOpenCL's.
"""

from bayplan.interop.cuda_arrays import cuda_array
from bayplan.interop.opencl_arrays import on_queue, opencl_array

__all__ = ["cuda_array", "on_queue", "opencl_array"]
