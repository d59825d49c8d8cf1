"""Small programs made of one statement, compiled and run, for tests of the C target."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bayplan.build.loading import load_program, load_runtime
from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.types import Type
from bayplan.lower.program import Argument, LoweredProgram
from bayplan.targets import c

_DTYPE = {
    ("int", 8): "i1", ("int", 16): "i2", ("int", 32): "i4", ("int", 64): "i8",
    ("uint", 1): "u1", ("uint", 8): "u1", ("uint", 16): "u2", ("uint", 32): "u4",
    ("uint", 64): "u8", ("float", 16): "f2", ("float", 32): "f4", ("float", 64): "f8",
}  # fmt: skip


class Dim(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("min", "extent", "stride", "flags")]


class Buffer(ctypes.Structure):
    """The C buffer, written out a second time so that its layout is tested too."""

    _fields_ = [
        ("device", ctypes.c_uint64),
        ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.c_void_p),
        ("padding", ctypes.c_void_p),
    ]


def dtype(t: Type) -> Any:
    """numpy's type of the elements."""
    return np.dtype(_DTYPE[t.kind, t.width])


def make_buffer(array: Any, t: Type) -> Any:
    """A one-dimensional buffer onto the array, which it keeps alive."""
    dims = (Dim * array.ndim)()
    for d in range(array.ndim):
        axis = array.ndim - 1 - d
        dims[d] = Dim(0, array.shape[axis], array.strides[axis] // array.itemsize, 0)
    code = {"int": 0, "uint": 1, "float": 2}[t.kind]
    buffer = Buffer(
        0, None, array.ctypes.data, 0, code, t.width, 1, array.ndim, ctypes.addressof(dims), None
    )
    buffer.keep = (dims, array)
    return buffer


def emit(body: S.Stmt, arguments: list[Argument], register_bytes: int = 64, name: str = "p") -> Any:
    """The emission of a statement for vector registers of a given size."""

    class Target:
        def natural_vector_size(self, t: Type) -> int:
            return register_bytes

    return c.emit(LoweredProgram(name, Target(), arguments, body, body, {}))


def argument(kind: str, name: str, t: Type, dimensions: int = 1) -> Argument:
    """An argument of a test program."""
    return Argument(kind, name, t, dimensions, None, None)


def run(emission: Any, values: list[Any], context: Any = None) -> int:
    """Compiles and calls the program; its result."""
    program = load_program(emission.source, emission.name)
    context = context or load_runtime().new_context()
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    return int(context.call(program.entry, pointers))


def store_all(values: list[E.Expr], name: str = "out") -> S.Stmt:
    """Stores each value, scalar or vector, one after another into `name`."""
    stmts = []
    at = 0
    for v in values:
        lanes = v.type.lane_count
        index: E.Expr = build.int32(at)
        if lanes > 1:
            index = E.Ramp(index, build.int32(1), lanes)
        stmts.append(S.Store(name, v, index))
        at += lanes
    return build.block(stmts)
