"""Where the functions of external stages are found, for code that runs in this process.

In this order: what `register_extern` was given; the libraries given to `load_externs`; what the
process itself exports: its program, libraries loaded with RTLD_GLOBAL, the C library.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.analysis.evaluate import Unknown
from bayplan.ir.errors import DefinitionError, ExternError
from bayplan.ir.types import Type
from bayplan.runtime.buffers import make_query, scalar_class
from bayplan.runtime.extern_buffers import ExternBuffer
from bayplan.targets.c_extern import FROM_TABLE

_registered: dict[str, Any] = {}
_libraries: list[tuple[str, ctypes.CDLL]] = []
# What was made for a Python function, by (its identity, parameters); kept alive for good, since
# loaded programs hold the addresses.
_made: dict[tuple[int, Any], PythonExtern] = {}
_changes = 0


class PythonExtern:
    """A Python function that C code can call.

    Attributes:
        address: of the C function.
        raised: what it last raised; the call ends with an error that names it as its cause.
    """

    def __init__(
        self, function: Callable[..., Any], parameters: Sequence[tuple[Type, int | None]]
    ) -> None:
        self.function = function
        self.raised: BaseException | None = None
        self._is_buffer = [dimensions is not None for _, dimensions in parameters]
        types = [ctypes.c_void_p if d is not None else scalar_class(t) for t, d in parameters]
        self._pointer = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._call)
        self.address = ctypes.cast(self._pointer, ctypes.c_void_p).value or 0

    def _call(self, *values: Any) -> int:
        args = [
            ExternBuffer(value) if is_buffer else value
            for value, is_buffer in zip(values, self._is_buffer, strict=True)
        ]
        try:
            result = self.function(*args)
        except BaseException as error:
            self.raised = error
            return -1
        return int(result) if result is not None else 0


def register_extern(name: Any, function: Any = None) -> Any:
    """Gives external stages the function `name`.

    Args:
        name: the name; or the function itself, a decorator then: its own name counts.
        function: a ctypes function, an address, or a Python callable, which is given
            `ExternBuffer`s and numbers in the order of the C function, and may return a nonzero
            result, or raise, to end the call with an error. None: the result is a decorator.

    Returns:
        The function.
    """
    global _changes
    if callable(name) and function is None:
        return register_extern(name.__name__, name)
    if function is None:
        return lambda given: register_extern(name, given)
    if not isinstance(name, str) or not name.isidentifier():
        raise DefinitionError(f"{name!r} cannot be the name of a C function")
    if not callable(function) and not isinstance(function, int):
        raise TypeError(f"a {type(function).__name__} is no function")
    _registered[name] = function
    _changes += 1
    return function


def load_externs(library: Any) -> ctypes.CDLL:
    """Lets external stages find the functions of a library.

    Args:
        library: a path, or a loaded `ctypes.CDLL`.
    """
    global _changes
    if not isinstance(library, ctypes.CDLL):
        path = os.fspath(library)
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ExternError(f"the library {path} cannot be loaded: {error}") from error
    _libraries.insert(0, (str(library._name), library))
    _changes += 1
    return library


def find_extern(extern: Any) -> tuple[int, PythonExtern | None]:
    """The address of the function of an external stage.

    Args:
        extern: the stage's `language.extern_stage.ExternDefinition`.

    Raises:
        ExternError: there is no such function.
    """
    symbol = extern.symbol
    given = _registered.get(symbol)
    if isinstance(given, int):
        return given, None
    if isinstance(given, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        return ctypes.cast(given, ctypes.c_void_p).value or 0, None
    if given is not None:
        key = (id(given), extern.parameters)
        made = _made.get(key)
        if made is None:
            made = _made[key] = PythonExtern(given, extern.parameters)
        return made.address, made
    for library in [*[library for _, library in _libraries], ctypes.CDLL(None)]:
        try:
            found = library[symbol]
        except AttributeError:
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0, None
    looked = [f"the library {path}" for path, _ in _libraries]
    raise ExternError(
        f"there is no function {symbol}, which is to compute {extern.func}; looked for it among "
        f"registered functions, in {', in '.join([*looked, 'this process and the C library'])}",
        extern.where,
        "register_extern(name, function), load_externs(library), or load the library with "
        "ctypes.CDLL(path, ctypes.RTLD_GLOBAL)",
    )


def ask_extern(extern: Any, given: Sequence[Any]) -> Any:
    """What a function of this process answers when it is asked for its regions.

    Args:
        extern: its record.
        given: for each argument (min, extent) of each dimension, or a number.

    Returns:
        (min, extent) of the dimensions of all buffers, in order.

    Raises:
        Unknown: a pipeline computes the stage, or there is no such function.
        ExternError: the function returned something other than 0.
    """
    if extern.callee is not None:
        raise Unknown(f"the regions that {extern.symbol} needs")
    try:
        address, _ = find_extern(extern)
    except ExternError as error:
        raise Unknown(error.message) from error
    records: list[Any] = []
    types: list[Any] = []
    args: list[Any] = []
    for (t, dimensions), value in zip(extern.parameters, given, strict=True):
        if dimensions is None:
            types.append(scalar_class(t))
            args.append(value)
        else:
            records.append(make_query(t, value))
            types.append(ctypes.c_void_p)
            args.append(ctypes.addressof(records[-1]))
    result = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)(*args)
    if result:
        raise ExternError(
            f"the external function {extern.symbol} returned {result} when it was asked for the "
            f"regions of {extern.func}",
            extern.where,
        )
    return [bounds for record in records for bounds in ExternBuffer.of(record).bounds()]


class ExternTable:
    """The external functions of one program, looked up for the code that runs in this process.

    Attributes:
        begin: what the C text begins with, so that the functions are taken from the table.
    """

    def __init__(self, functions: Sequence[Any]) -> None:
        self._externs = [f.extern for f in functions]
        self._python: list[PythonExtern] = []
        self._filled: tuple[Any, int] | None = None
        self.begin = f"#define {FROM_TABLE} 1\n" if self._externs else ""

    def fill(self, loaded: Any) -> None:
        """Writes the addresses into the table of a loaded program, where they may have changed."""
        if not self._externs or self._filled == (loaded, _changes):
            return
        table = (ctypes.c_void_p * len(self._externs)).in_dll(
            loaded.library, f"{loaded.name}_externs"
        )
        python: list[PythonExtern] = []
        for i, extern in enumerate(self._externs):
            address, made = find_extern(extern)
            table[i] = address
            if made is not None:
                python.append(made)
        self._python = python
        self._filled = (loaded, _changes)

    def take_raised(self) -> BaseException | None:
        """What a Python function raised in the call that just ended."""
        found: BaseException | None = None
        for made in self._python:
            found, made.raised = found or made.raised, None
        return found
