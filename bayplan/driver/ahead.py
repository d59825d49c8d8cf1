"""Builds pipelines ahead of time: C source, headers, objects, static libraries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan.driver.compile import check_defined, show_warnings
from bayplan.ir.errors import DefinitionError, MissingArgument, OutputFileError
from bayplan.ir.node import compilation
from bayplan.ir.printer import print_node
from bayplan.language.function import Function
from bayplan.language.output_files import SUFFIXES, OutputFileType
from bayplan.language.parameter import Parameter
from bayplan.language.target import Target, get_host_target, get_target_from_environment
from bayplan.language.target_names import TargetFeature
from bayplan.lower.pipeline import lower
from bayplan.lower.program import Argument, LoweredProgram
from bayplan.targets.c_device import uses_device
from bayplan.targets.c_names import sanitise

if TYPE_CHECKING:
    from bayplan.build.stack_use import StackUse
    from bayplan.targets.c import Emission

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPILED: Final = (
    OutputFileType.object, OutputFileType.static_library, OutputFileType.assembly
)  # fmt: skip


class AheadProgram:
    """A pipeline lowered and emitted for C callers.

    Attributes:
        emission: the C text and what goes with it.
        target: what it is made for.
        stack: bytes of stack of each function, once something was compiled.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        arguments: Sequence[Any] | None,
        name: str,
        target: Any,
    ) -> None:
        from bayplan.targets import c

        check_defined(functions)
        self.target = _ahead_target(target)
        title = check_function_name(name) if name else sanitise(functions[0].name)
        with compilation():
            program = lower(list(functions), self.target, title, embed=True)
            if arguments is not None:
                program.arguments = _order_arguments(program, arguments)
            takes_context = self.target.has_feature(TargetFeature.UserContext)
            self.emission: Emission = c.emit(program, ahead=True, takes_context=takes_context)
        show_warnings(program.warnings)
        self.stack: list[StackUse] = []

    @property
    def program(self) -> LoweredProgram:
        """The lowered program."""
        return self.emission.program

    def stack_bytes(self) -> int | None:
        """The most stack that a call takes, hooks not counted; None where it was not measured."""
        from bayplan.build.stack_use import measure_stack

        name = self.emission.name
        forms = (name, f"{name}_workspace_bytes", f"{name}_with_workspace")
        entries = [f"{form}{end}" for form in forms for end in ("", "_argv")]
        return measure_stack(self.emission.source, entries, self.stack)

    def write(self, outputs: Mapping[OutputFileType, Path]) -> None:
        """Writes the files, each of its kind."""
        from bayplan.build.ahead_of_time import check_reachable

        for kind in outputs:
            if kind not in SUFFIXES:
                made = ", ".join([k.name for k in SUFFIXES])
                raise OutputFileError(f"files of kind {kind.name} are not made; there are {made}")
        if any(kind in _COMPILED for kind in outputs):
            check_reachable(self.target, get_host_target())
        # The header tells what compiling found.
        order = sorted(outputs, key=lambda kind: kind is OutputFileType.c_header)
        for kind in order:
            path = Path(outputs[kind])
            try:
                _WRITERS[kind](self, path)
            except OSError as error:
                raise OutputFileError(
                    f"{path} cannot be written: {error.strerror or error}",
                    hint="the folder must exist and be writable",
                ) from error

    def header(self) -> str:
        """The text of the header."""
        from bayplan.targets.c_header import write_header

        return write_header(self.emission, self.stack_bytes())


def _write_source(ahead: AheadProgram, path: Path) -> None:
    path.write_text(ahead.emission.source, encoding="utf-8")


def _write_header(ahead: AheadProgram, path: Path) -> None:
    path.write_text(ahead.header(), encoding="utf-8")


def _write_object(ahead: AheadProgram, path: Path) -> None:
    from bayplan.build.ahead_of_time import compile_object

    ahead.stack = compile_object(ahead.emission.source, ahead.emission.name, ahead.target, path)


def _write_library(ahead: AheadProgram, path: Path) -> None:
    from bayplan.build.ahead_of_time import compile_static_library

    emission = ahead.emission
    emulated = ""
    if emission.device_source and ahead.target.is_emulated:
        from bayplan.build.load_kernels import emulation_text
        from bayplan.targets.c_device import kernels_key

        source = emission.device_source
        emulated = emulation_text(source, kernels_key("emulated", source))
    ahead.stack = compile_static_library(
        emission.source,
        emission.name,
        ahead.target,
        path,
        devices=uses_device(emission),
        emulated=emulated,
    )


def _write_assembly(ahead: AheadProgram, path: Path) -> None:
    from bayplan.build.ahead_of_time import compile_assembly

    compile_assembly(ahead.emission.source, ahead.emission.name, ahead.target, path)


def _write_statement(ahead: AheadProgram, path: Path) -> None:
    path.write_text(print_node(ahead.program.readable), encoding="utf-8")


def _write_page(ahead: AheadProgram, path: Path) -> None:
    text = statement_page(ahead.program.name, print_node(ahead.program.readable))
    path.write_text(text, encoding="utf-8")


_WRITERS: Final[dict[OutputFileType, Callable[[AheadProgram, Path], None]]] = {
    OutputFileType.assembly: _write_assembly,
    OutputFileType.c_header: _write_header,
    OutputFileType.c_source: _write_source,
    OutputFileType.object: _write_object,
    OutputFileType.static_library: _write_library,
    OutputFileType.stmt: _write_statement,
    OutputFileType.conceptual_stmt: _write_statement,
    OutputFileType.stmt_html: _write_page,
    OutputFileType.conceptual_stmt_html: _write_page,
}


def statement_page(name: str, text: str) -> str:
    """A lowered program as a page."""
    import html

    return (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>'
        f"{html.escape(name)}</title></head>\n<body><pre>\n{html.escape(text)}</pre></body></html>\n"
    )


def compile_ahead(
    functions: Sequence[Function],
    outputs: Mapping[OutputFileType, str | Path],
    arguments: Sequence[Any] | None = None,
    name: str = "",
    target: Any = None,
) -> AheadProgram:
    """Builds a pipeline ahead of time.

    Args:
        functions: the output Functions.
        outputs: the files to write, by kind.
        arguments: the inputs in the order of the C function; None: all that are needed, by name.
        name: of the C function; "" for the first output's name.
        target: a Target; None for the one HL_TARGET names, else this machine.

    Raises:
        MissingArgument: the pipeline needs an input that is not listed.
        DefinitionError: the name is none that C allows.
        OutputFileError: a file cannot be written, or is of a kind that is not made.
    """
    ahead = AheadProgram(functions, arguments, name, target)
    ahead.write({kind: Path(path) for kind, path in outputs.items()})
    return ahead


def _ahead_target(target: Any) -> Target:
    found = get_target_from_environment() if target is None else Target(target)
    return found.without_feature(TargetFeature.JIT)


def check_function_name(name: str) -> str:
    """The name, when C allows it for a function of the caller's.

    Raises:
        DefinitionError: It is no identifier, or C or the runtime has it already.
    """
    if not _IDENTIFIER.fullmatch(name):
        raise DefinitionError(
            f"{name!r} cannot be the name of a C function",
            hint="letters, digits and underscores, the first no digit",
        )
    if sanitise(name) != name:
        raise DefinitionError(
            f"the name {name!r} is taken: by C, by its library, or by the runtime (bp_...)"
        )
    return name


def _order_arguments(program: LoweredProgram, arguments: Sequence[Any]) -> list[Argument]:
    """The arguments as the caller listed them, then the outputs."""
    known = {id(a.source): a for a in program.arguments}
    embedded = {id(table.buffer) for table in program.tables}
    ordered: list[Argument] = []
    seen: set[int] = set()
    for given in arguments:
        source = _source_of(given)
        if id(source) in embedded:
            continue
        found = known.get(id(source))
        if found is not None and found.kind == "output_buffer":
            raise DefinitionError(
                f"the output {found.name} is listed as an argument; outputs follow by themselves",
                found.where,
            )
        if id(source) in seen:
            raise DefinitionError(
                f"{source.name} is listed twice among the arguments", source.where
            )
        seen.add(id(source))
        ordered.append(found or _unused_argument(source))
    missing = [a for a in program.arguments if id(a.source) not in seen]
    outputs = [a for a in missing if a.kind == "output_buffer"]
    for a in missing:
        if a.kind != "output_buffer":
            listed = ", ".join([b.name for b in ordered]) or "nothing"
            raise MissingArgument(
                f"the pipeline uses {a.name}, which is not among the arguments of {program.name}; "
                f"listed: {listed}",
                a.where,
                "add it to the list, or leave the list out to get all that are needed",
            )
    return [*ordered, *outputs]


def _source_of(given: Any) -> Any:
    """The Parameter behind what a list of arguments may hold."""
    source = getattr(given, "source", None)
    if source is not None:
        return source
    found = getattr(given, "parameter", None)
    if callable(found):
        return found()
    if isinstance(given, Parameter) or hasattr(given, "numpy_view"):
        return given
    raise DefinitionError(
        f"{given!r} is no argument: a list of arguments holds Params, ImageParams and Arguments"
    )


def _unused_argument(source: Any) -> Argument:
    """An argument that the pipeline does not read; callers give it all the same."""
    if not isinstance(source, Parameter):
        name = source.name()
        return Argument(
            "input_buffer", name, source.type(), source.dimensions(), source, source.where
        )
    kind = "input_buffer" if source.is_buffer else "scalar"
    return Argument(kind, source.name, source.type, source.dimensions, source, source.where)
