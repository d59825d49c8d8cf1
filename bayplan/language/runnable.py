"""What Func and Pipeline share: running, compiling and looking at a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn

from bayplan.ir.errors import BayplanError, DefinitionError
from bayplan.language.function import Function
from bayplan.language.output_files import OutputFileType


class StmtOutputFormat(Enum):
    """The form in which a lowered program is written."""

    Text = "text"
    HTML = "html"


def _target_or_none(target: Any) -> Any:
    """None, the target of this machine, for a Target that says nothing."""
    if target is None or not str(target):
        return None
    return target


def put_on_device(buffer: Any, args: Sequence[Any], target: Any, values: bool) -> None:
    """Gives a Buffer memory on a device, and its elements if asked for.

    Args:
        buffer: a Buffer with memory.
        args: a Target, or a DeviceAPI and a Target, as Halide takes them.
        target: a Target, unless `args` has one.
        values: bring the elements too.
    """
    from bayplan import driver
    from bayplan.language.target_names import DeviceAPI

    api = next((a for a in args if isinstance(a, DeviceAPI)), None)
    found = next((a for a in args if not isinstance(a, DeviceAPI)), target)
    driver.put_on_device(buffer, api, found, values)


def has_device(api: Any) -> bool:
    """Whether this machine has a device of the kind (a DeviceAPI)."""
    from bayplan import driver

    return driver.has_device_of(api)


class Runnable:
    """Methods that hand the output Funcs to the driver."""

    __slots__ = ()

    def _functions(self) -> list[Function]:
        raise NotImplementedError

    def _final_functions(self) -> list[Function]:
        """The outputs; from here on they can get no further definitions."""
        functions = self._functions()
        for f in functions:
            if f.init is None:
                raise DefinitionError(f"the Func {f.name} is not defined, so it cannot run")
            f.frozen = True
        return functions

    def realize(self, sizes: Any = None, target: Any = None, **named: Any) -> Any:
        """Run, and give the result.

        Args:
            sizes: extents of the output, first dimension first; or a Buffer to write to, or a
                list or tuple of Buffers, one for each value.
            target: what to compile for; None for this machine.
            **named: `dst`, another name for `sizes`.

        Returns:
            A Buffer, a tuple of Buffers for several values, or None where Buffers were given.
        """
        from bayplan import driver

        sizes = named.pop("dst", sizes)
        _check_no_more(named, "realize")
        return driver.realize(self._final_functions(), sizes, _target_or_none(target))

    def compile_jit(self, target: Any = None) -> None:
        """Compile and load now what `realize` would at its first call."""
        from bayplan import driver

        driver.compile_jit(self._final_functions(), _target_or_none(target))

    def compile_to_callable(self, arguments: Sequence[Any], target: Any = None) -> Any:
        """A callable that takes the arguments in this order, then one buffer per output value.

        Args:
            arguments: the Params and ImageParams of the pipeline.
            target: what to compile for; None for this machine.
        """
        from bayplan import driver

        parameters = [a if not hasattr(a, "parameter") else _parameter(a) for a in arguments]
        return driver.compile_to_callable(
            self._final_functions(), parameters, _target_or_none(target)
        )

    def infer_input_bounds(self, dst: Any, target: Any = None) -> None:
        """Allocate each input buffer that is not set, as large as the output needs it."""
        from bayplan import driver

        driver.infer_input_bounds(self._final_functions(), dst, _target_or_none(target))

    def infer_arguments(self) -> list[Any]:
        """The inputs that a call needs, in order of name."""
        from bayplan import driver

        return driver.infer_arguments(self._final_functions())

    def storage(
        self,
        sizes: Any = None,
        target: Any = None,
        workers: int | None = None,
        **values: Any,
    ) -> Any:
        """The report of where each temporary of a call lives and how many bytes it takes.

        Args:
            sizes: extents of the output, or Buffers, as for `realize`.
            target: what to compile for; None for this machine.
            workers: threads of parallel loops; None for as many as a call would have.
            **values: values of Params and ImageParams for this report, by their names.
        """
        from bayplan import driver

        functions = self._final_functions()
        given = {}
        if values:
            sources = {a.name: a.source for a in driver.infer_arguments(functions)}
            for name, value in values.items():
                if name not in sources:
                    known = ", ".join(sources) or "none"
                    raise DefinitionError(f"the pipeline has no argument {name}; it has {known}")
                given[id(sources[name])] = value
        return driver.storage(functions, sizes, _target_or_none(target), given, workers)

    def lowered_text(self, target: Any = None) -> str:
        """The lowered program as text."""
        from bayplan import driver

        return driver.lowered_text(self._final_functions(), _target_or_none(target))

    def loop_nest_text(self) -> str:
        """The loops of the schedule as text, without bounds or expressions."""
        from bayplan import driver

        return driver.loop_nest_text(self._final_functions())

    def print_loop_nest(self) -> None:
        """Print the loops of the schedule to stderr, as Halide does."""
        import sys

        print(self.loop_nest_text().rstrip("\n"), file=sys.stderr)

    def compile_to_lowered_stmt(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fmt: StmtOutputFormat = StmtOutputFormat.Text,
        target: Any = None,
    ) -> None:
        """Write the lowered program to a file, as text or as a page."""
        kind = OutputFileType.stmt_html if fmt is StmtOutputFormat.HTML else OutputFileType.stmt
        self._compile_ahead({kind: filename}, arguments, "", target)

    def compile_to_conceptual_stmt(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fmt: StmtOutputFormat = StmtOutputFormat.Text,
        target: Any = None,
    ) -> None:
        """Write the lowered program to a file; there is one text for both of Halide's."""
        self.compile_to_lowered_stmt(filename, arguments, fmt, target)

    def _compile_ahead(
        self,
        outputs: Mapping[OutputFileType, Any],
        arguments: Sequence[Any] | None,
        fn_name: str,
        target: Any,
    ) -> Any:
        from bayplan import driver

        functions = self._final_functions()
        target = _target_or_none(target)
        return driver.compile_ahead(functions, outputs, arguments, fn_name, target)

    def compile_to_c(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write a C file with the functions that a C or C++ program calls.

        Args:
            filename: the file to write.
            arguments: Params and ImageParams in the order of the C function, which takes the
                outputs after them; None: all that are needed, in order of name.
            fn_name: of the C function; "": the first output's name.
            target: what to make it for; None for what HL_TARGET says, else this machine.
        """
        self._compile_ahead({OutputFileType.c_source: filename}, arguments, fn_name, target)

    def compile_to_header(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write the C and C++ header of the functions of `compile_to_c`."""
        self._compile_ahead({OutputFileType.c_header: filename}, arguments, fn_name, target)

    def compile_to_object(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write an object file; what it is linked with must bring the runtime."""
        fn_name, target = _name_or_target(fn_name, target)
        self._compile_ahead({OutputFileType.object: filename}, arguments, fn_name, target)

    def compile_to_assembly(
        self,
        filename: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write the assembly that the C compiler makes."""
        fn_name, target = _name_or_target(fn_name, target)
        self._compile_ahead({OutputFileType.assembly: filename}, arguments, fn_name, target)

    def compile_to_static_library(
        self,
        filename_prefix: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write PREFIX.a, which needs no other library of ours, and PREFIX.h."""
        outputs = {
            OutputFileType.static_library: f"{filename_prefix}.a",
            OutputFileType.c_header: f"{filename_prefix}.h",
        }
        self._compile_ahead(outputs, arguments, fn_name, target)

    def compile_to_file(
        self,
        filename_prefix: str,
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write PREFIX.o and PREFIX.h."""
        outputs = {
            OutputFileType.object: f"{filename_prefix}.o",
            OutputFileType.c_header: f"{filename_prefix}.h",
        }
        self._compile_ahead(outputs, arguments, fn_name, target)

    def compile_to(
        self,
        outputs: Mapping[OutputFileType, Any],
        arguments: Sequence[Any] | None = None,
        fn_name: str = "",
        target: Any = None,
    ) -> None:
        """Write several files of one pipeline.

        Args:
            outputs: names of files by their kind.
            arguments, fn_name, target: as for `compile_to_c`.
        """
        self._compile_ahead(outputs, arguments, fn_name, target)

    def device_source(self, target: Any = None) -> str:
        """The kernels of a schedule for a GPU, in the language of the target's device.

        Args:
            target: what to compile for, such as a Target of "host-opencl"; None for that of
                HL_JIT_TARGET.

        Returns:
            The text; "" where no loop runs on a device.
        """
        from bayplan import driver

        return driver.device_source(self._final_functions(), _target_or_none(target))

    def c_source(self, fn_name: str = "", target: Any = None) -> str:
        """The C that the pipeline becomes."""
        from bayplan import driver

        return driver.c_source(self._final_functions(), _target_or_none(target), fn_name or None)

    def _not_here(self, what: str) -> NoReturn:
        raise BayplanError(
            f"{what} is not available: programs are compiled by the C compiler, for one target",
            hint="compile_to_c, compile_to_object, compile_to_static_library write files",
        )

    def compile_to_module(self, *args: Any, **named: Any) -> NoReturn:
        """Refused."""
        self._not_here("compile_to_module")

    def compile_to_multitarget_object_files(self, *args: Any, **named: Any) -> NoReturn:
        """Refused."""
        self._not_here("compile_to_multitarget_object_files")

    def compile_to_multitarget_static_library(self, *args: Any, **named: Any) -> NoReturn:
        """Refused."""
        self._not_here("compile_to_multitarget_static_library")

    def compile_to_llvm_assembly(self, *args: Any, **named: Any) -> NoReturn:
        """Refused."""
        self._not_here("compile_to_llvm_assembly")

    def compile_to_bitcode(self, *args: Any, **named: Any) -> NoReturn:
        """Refused."""
        self._not_here("compile_to_bitcode")


def _parameter(argument: Any) -> Any:
    found = argument.parameter
    return found() if callable(found) else found


def _name_or_target(fn_name: Any, target: Any) -> tuple[str, Any]:
    """Both overloads of Halide's: (file, arguments, name, target) and (file, arguments, target)."""
    return ("", fn_name) if not isinstance(fn_name, str) else (fn_name, target)


def _check_no_more(named: dict[str, Any], function: str) -> None:
    if named:
        raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(named))!r}")
