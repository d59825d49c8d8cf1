"""Bayplan: an array compiler that knows where every temporary lives."""

from __future__ import annotations

from typing import Any

from bayplan import memory
from bayplan.ir.errors import (
    AliasError,
    AllocationTooLarge,
    BayplanError,
    BoundsError,
    BufferError,
    CompileError,
    ConstraintError,
    DefinitionError,
    DeviceLimitError,
    ExternError,
    FoldError,
    InternalError,
    MissingArgument,
    NoCompiler,
    NoDevice,
    OutOfMemory,
    OutputFileError,
    PlanError,
    RequirementFailed,
    ScheduleError,
    StorageDamaged,
    TypeMismatchError,
    WorkspaceError,
    WorkspaceTooSmall,
)
from bayplan.ir.memory import MemoryType, Partition
from bayplan.ir.types import Bool, Float, Handle, Int, Type, UInt
from bayplan.language import boundary_conditions as BoundaryConditions
from bayplan.language.argument import Argument, ArgumentKind
from bayplan.language.arithmetic import (
    abs,
    absd,
    clamp,
    div_round_to_zero,
    fma,
    lerp,
    logical_not,
    max,
    min,
    mod_round_to_zero,
    unsafe_promise_clamped,
)
from bayplan.language.bits import (
    concat_bits,
    count_leading_zeros,
    count_trailing_zeros,
    extract_bits,
    popcount,
)
from bayplan.language.buffer import Buffer, BufferDimension
from bayplan.language.casts import (
    cast,
    f16,
    f32,
    f64,
    i8,
    i8_sat,
    i16,
    i16_sat,
    i32,
    i32_sat,
    i64,
    i64_sat,
    reinterpret,
    saturating_cast,
    u8,
    u8_sat,
    u16,
    u16_sat,
    u32,
    u32_sat,
    u64,
    u64_sat,
)
from bayplan.language.effects import print, print_when, require
from bayplan.language.evaluate import evaluate, evaluate_may_gpu
from bayplan.language.expr import Expr
from bayplan.language.extern_stage import ExternFuncArgument, NameMangling
from bayplan.language.fixed_point import (
    halving_add,
    halving_sub,
    mul_shift_right,
    rounding_halving_add,
    rounding_mul_shift_right,
    rounding_shift_left,
    rounding_shift_right,
    saturating_add,
    saturating_sub,
    widen_right_add,
    widen_right_mul,
    widen_right_sub,
    widening_add,
    widening_mul,
    widening_shift_left,
    widening_shift_right,
    widening_sub,
)
from bayplan.language.func import Func, funcs
from bayplan.language.func_ref import FuncRef, FuncTupleElementRef
from bayplan.language.image_param import Dimension, ImageParam, OutputImageParam
from bayplan.language.inline_reductions import (
    argmax,
    argmin,
    maximum,
    minimum,
    product,
    saturating_sum,
    sum,
)
from bayplan.language.lambda_func import lambda_func
from bayplan.language.loop_level import LoopLevel
from bayplan.language.loop_names import VarOrRVar
from bayplan.language.markers import (
    likely,
    likely_if_innermost,
    memoize_tag,
    strict_float,
    undef,
)
from bayplan.language.maths import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    fast_cos,
    fast_exp,
    fast_inverse,
    fast_inverse_sqrt,
    fast_log,
    fast_pow,
    fast_sin,
    floor,
    fract,
    hypot,
    is_finite,
    is_inf,
    is_nan,
    log,
    pow,
    round,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from bayplan.language.output_files import OutputFileType
from bayplan.language.param import Param
from bayplan.language.parameter import Parameter
from bayplan.language.pipeline import Pipeline
from bayplan.language.random_calls import random_float, random_int, random_uint
from bayplan.language.rdom import Range, RDom, RVar
from bayplan.language.runnable import StmtOutputFormat
from bayplan.language.schedule import (
    LoopAlignStrategy,
    PrefetchBoundStrategy,
    TailStrategy,
)
from bayplan.language.select import mux, select
from bayplan.language.stage import Stage
from bayplan.language.target import (
    Target,
    get_host_target,
    get_jit_target_from_environment,
    get_target_from_environment,
    host_supports_target_device,
    target_feature_for_device_api,
)
from bayplan.language.target_names import (
    DeviceAPI,
    TargetArch,
    TargetFeature,
    TargetOS,
    TargetProcessorTune,
)
from bayplan.language.tuple import Tuple
from bayplan.language.types import TypeCode
from bayplan.language.var import IMPLICIT, PLACEHOLDER, Var, vars

__version__ = "0.1.0"

HalideError = BayplanError
"""The name under which programs written for Halide catch errors."""

_ = Var(PLACEHOLDER)
_0, _1, _2, _3, _4, _5, _6, _7, _8, _9 = IMPLICIT


def register_extern(name: Any, function: Any = None) -> Any:
    """Give external stages the function `name`: see `bayplan.driver.externs`."""
    from bayplan import driver

    return driver.register_extern(name, function)


def load_externs(library: Any) -> Any:
    """Let external stages find the functions of a library: see `bayplan.driver.externs`."""
    from bayplan import driver

    return driver.load_externs(library)


def set_num_threads(threads: int) -> int:
    """Set the threads that parallel loops run on, caller included; returns the number before."""
    from bayplan import driver

    return driver.set_num_threads(threads)


def get_num_threads() -> int:
    """The threads that parallel loops run on, caller included."""
    from bayplan import driver

    return driver.num_threads()


def tune(build: Any, choices: Any, sizes: Any, target: Any = None, *, repeats: int = 5) -> Any:
    """Try a program under several schedules: see `bayplan.driver.tune`."""
    from bayplan import driver

    return driver.tune(build, choices, sizes, target, repeats=repeats)
