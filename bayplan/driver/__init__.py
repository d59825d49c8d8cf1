"""The only place that joins front and back: lower, emit, compile, load, run, report.

Methods of Func and Pipeline that run something are one-line calls of the functions here. All take
the pipeline as a list of `Function`s, its outputs in order.
"""

from bayplan.driver.ahead import compile_ahead
from bayplan.driver.bounds import infer_input_bounds, query_input_bounds
from bayplan.driver.callables import Callable, compile_to_callable
from bayplan.driver.compile import (
    CompiledPipeline,
    compile_jit,
    compile_pipeline,
    default_target,
)
from bayplan.driver.contexts import context, num_threads, runtime, set_num_threads
from bayplan.driver.device_buffers import has_device_of, put_on_device
from bayplan.driver.externs import load_externs, register_extern
from bayplan.driver.realize import realize
from bayplan.driver.storage import storage
from bayplan.driver.text import (
    c_source,
    device_source,
    infer_arguments,
    loop_nest_text,
    lowered_text,
)
from bayplan.driver.tune import tune

__all__ = [
    "Callable",
    "CompiledPipeline",
    "c_source",
    "compile_ahead",
    "compile_jit",
    "compile_pipeline",
    "compile_to_callable",
    "context",
    "default_target",
    "device_source",
    "has_device_of",
    "infer_arguments",
    "infer_input_bounds",
    "loop_nest_text",
    "lowered_text",
    "load_externs",
    "num_threads",
    "put_on_device",
    "query_input_bounds",
    "realize",
    "register_extern",
    "runtime",
    "set_num_threads",
    "storage",
    "tune",
]
