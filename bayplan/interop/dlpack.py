"""Arrays on devices that are handed over by DLPack."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Final

from bayplan.ir.errors import BufferError
from bayplan.ir.types import Type

CUDA: Final = 2
_KINDS: Final = {0: "int", 1: "uint", 2: "float", 6: "uint"}
_BOOL: Final = 6


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class ManagedTensor(ctypes.Structure):
    """`DLManagedTensor`, as version 0 of DLPack has it."""

    _fields_ = [
        ("tensor", _Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class Handed:
    """An array that DLPack handed over; given back when this dies.

    Attributes:
        address: of its first element on the device.
        type: of the elements.
        shape: of the array.
        strides: in elements.
    """

    def __init__(self, array: Any) -> None:
        kind = int(array.__dlpack_device__()[0])
        if kind != CUDA:
            raise BufferError(f"the array is on a device of DLPack's kind {kind}, not of CUDA")
        # The legacy default stream, in which kernels run.
        self._capsule = array.__dlpack__(stream=1)
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self._address = api.PyCapsule_GetPointer(self._capsule, b"dltensor")
        # From here on the tensor is ours to give back.
        api.PyCapsule_SetName(self._capsule, b"used_dltensor")
        self._managed = ManagedTensor.from_address(self._address)
        tensor = self._managed.tensor
        code, bits = int(tensor.code), int(tensor.bits)
        if code not in _KINDS or int(tensor.lanes) != 1:
            raise BufferError(f"elements of DLPack's type {code} with {bits} bits are none of ours")
        self.type = Type("uint", 1) if code == _BOOL else Type(_KINDS[code], bits)
        self.address = int(tensor.data or 0) + int(tensor.byte_offset)
        self.shape = [int(tensor.shape[i]) for i in range(tensor.ndim)]
        if tensor.strides:
            self.strides = [int(tensor.strides[i]) for i in range(tensor.ndim)]
        else:
            self.strides = [math.prod(self.shape[i + 1 :]) for i in range(tensor.ndim)]

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            managed.deleter(self._address)
            self._managed = None  # type: ignore[assignment]
