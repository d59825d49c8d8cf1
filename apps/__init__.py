"""Standard image-processing applications, written once for `halide` and `bayplan`.

Each module has `build(hl, ...)`, which takes the module to build with, and returns an
`apps.harness.App`: the output Func with its schedule, its inputs and parameters, its usual
size, and the tolerance within which two compilers must agree.
"""

NAMES = ("blur", "unsharp", "harris", "camera_pipe", "iir_blur", "stencil_chain")
