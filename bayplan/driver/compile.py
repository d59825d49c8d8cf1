"""Lowers a pipeline to a program and keeps what was lowered before."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from bayplan.driver.contexts import runtime
from bayplan.driver.externs import ExternTable
from bayplan.ir.errors import DefinitionError, ErrorSite, InternalError, OutOfMemory
from bayplan.ir.node import compilation
from bayplan.language import changes
from bayplan.language.fingerprint import fingerprint
from bayplan.language.function import Function
from bayplan.language.target_names import TargetFeature
from bayplan.lower.pipeline import lower
from bayplan.lower.program import Argument, LoweredProgram
from bayplan.runtime.binding import BP_CANCELLED, BP_OUT_OF_MEMORY, Context

_KEPT_PROGRAMS = 128


class CompiledPipeline:
    """A pipeline that was lowered, and loaded once it first runs.

    Attributes:
        functions: the output Functions it was made from.
        program: the lowered program.
        source: the emitted C.
        device_source: its kernels, "" where there are none.
        kernel_names: by title of a kernel, its name in that source.
        sites: the places at which a call can end with an error.
    """

    def __init__(self, functions: Sequence[Function], target: Any, name: str) -> None:
        from bayplan.targets import c

        self.functions = tuple(functions)
        self.target = target
        self.changes = changes.count()
        self.fingerprint = fingerprint(functions)
        with compilation():
            self.program: LoweredProgram = lower(list(functions), target, name)
            emitted = c.emit(self.program)
        show_warnings(self.program.warnings)
        self.source: str = emitted.source
        self.sites: list[ErrorSite] = emitted.sites
        self.device_source: str = emitted.device_source
        self.kernel_names: dict[str, str] = emitted.kernel_names
        self._kernel_count = emitted.kernel_count
        self._externs = ExternTable(list(emitted.unit.extern_functions.values()))
        self._loaded: Any = None

    def is_current(self) -> bool:
        """Whether the pipeline is still what was compiled."""
        count = changes.count()
        if self.changes != count:
            if self.fingerprint != fingerprint(self.functions):
                return False
            # Something else was changed; look again only after the next change.
            self.changes = count
        return True

    @property
    def arguments(self) -> list[Argument]:
        """What a call is given, in order."""
        return self.program.arguments

    def load(self) -> Any:
        """The compiled code in this process (a `build.loading.LoadedProgram`)."""
        if self._loaded is None:
            from bayplan.build.loading import load_program

            loaded = load_program(self._externs.begin + self.source, self.program.name)
            if self.device_source:
                from bayplan.build.load_kernels import load_kernels

                load_kernels(loaded, runtime(), self._kernel_count)
            self._loaded = loaded
        self._externs.fill(self._loaded)
        return self._loaded

    def call(
        self,
        values: Sequence[Any],
        context: Context,
        workspace: tuple[int, int] | None = None,
    ) -> None:
        """Runs the program.

        Args:
            values: one `BufferRecord` or ctypes scalar per argument.
            context: memory, workers and messages of the call.
            workspace: address and bytes of the memory of temporaries; None: the context's.

        Raises:
            BayplanError: the call ended with one of the program's errors.
            KeyboardInterrupt: SIGINT arrived on the main thread while it ran.
        """
        pointers = _pointers(values)
        interrupt = threading.current_thread() is threading.main_thread()
        loaded = self.load()
        if workspace is None:
            status = context.call(loaded.entry, pointers, interrupt=interrupt)
        else:
            entry, (address, size) = loaded.workspace_entry, workspace
            status = context.call_with_workspace(
                entry, pointers, address, size, interrupt=interrupt
            )
        if status:
            self._raise(status, context)

    def workspace_bytes(self, values: Sequence[Any], context: Context) -> int:
        """The bytes of workspace that a call with these values needs; runs nothing.

        Raises:
            WorkspaceError: they are not known before the call.
            BayplanError: the call would end with an error before it takes memory.
        """
        entry = self.load().workspace_bytes_entry
        size = context.workspace_bytes(entry, _pointers(values))
        if size < 0:
            self._raise(size, context)
        return size

    @property
    def workspace_alignment(self) -> int:
        """What the first address that is used of a workspace is a multiple of."""
        plan = self.program.plan
        return plan.alignment if plan is not None else 1

    def _raise(self, status: int, context: Context) -> None:
        if status == BP_CANCELLED:
            import time

            # Python's own handler noted the signal; it raises here, once.
            time.sleep(0)
            raise KeyboardInterrupt
        failure = context.failure()
        if failure is not None and 0 <= failure[0] < len(self.sites):
            refusal = context.refusal() if status == BP_OUT_OF_MEMORY else None
            hint = "" if refusal is None else f"the pool was {refusal}"
            raise self.sites[failure[0]].error(failure[1], hint) from self._externs.take_raised()
        text = context.failure_text()
        if status == BP_OUT_OF_MEMORY:
            raise OutOfMemory(text or "the allocator could not give the bytes of a temporary")
        raise InternalError(f"the program ended with {status}: {text or 'no message'}")


def _pointers(values: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])


def show_warnings(texts: Sequence[str]) -> None:
    """Shows what lowering has to say as Python warnings at the user's line."""
    if not texts:
        return
    import sys
    import warnings

    package = __file__.rpartition("driver")[0]
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        depth, frame = depth + 1, frame.f_back
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=depth)


_kept: OrderedDict[tuple[Any, ...], CompiledPipeline] = OrderedDict()
_kept_lock = threading.Lock()


def default_target() -> Any:
    """The target of code that runs in this process."""
    from bayplan.language.target import get_jit_target_from_environment

    return get_jit_target_from_environment()


def any_target(functions: Sequence[Function]) -> Any:
    """A target that a pipeline can be lowered for: this machine's, with a device if need be.

    For questions whose answer is the same for all targets.
    """
    from bayplan.language.target_names import DeviceAPI
    from bayplan.lower.build_environment import build_environment

    target = default_target()
    if target.device_api() is not DeviceAPI.None_:
        return target
    with compilation():
        environment = build_environment(functions).values()
    devices = {
        dim.device
        for function in environment
        if function.init is not None
        for definition in function.stages()
        for dim in definition.schedule.dims
        if dim.kind.is_gpu
    }
    if not devices:
        return target
    if DeviceAPI.OpenCL in devices:
        return target.with_feature(TargetFeature.OpenCL)
    return target.with_emulation()


def check_defined(functions: Sequence[Function]) -> None:
    for f in functions:
        if not f.has_pure_definition():
            raise DefinitionError(f"Func {f.name} is not defined", f.where)


def compile_pipeline(
    functions: Sequence[Function], target: Any = None, name: str | None = None
) -> CompiledPipeline:
    """Lowers a pipeline, or finds what was lowered before and is still true.

    Args:
        functions: the output Functions.
        target: a Target; None for this machine.
        name: of the entry point; None for the first output's name.
    """
    if not functions:
        raise DefinitionError("a pipeline needs at least one output Func")
    target = default_target() if target is None else target
    title = name or functions[0].name
    key = (*[id(f) for f in functions], str(target), title)
    with _kept_lock:
        found = _kept.get(key)
        if found is not None and found.is_current():
            _kept.move_to_end(key)
            return found
    compiled = CompiledPipeline(functions, target, title)
    with _kept_lock:
        if found is not None and found.source == compiled.source:
            compiled._loaded = found._loaded
        _kept[key] = compiled
        while len(_kept) > _KEPT_PROGRAMS:
            _kept.popitem(last=False)
    return compiled


def compile_jit(functions: Sequence[Function], target: Any = None) -> None:
    """Lowers, compiles and loads now what `realize` would at its first call."""
    check_defined(functions)
    compile_pipeline(functions, target).load()
    runtime()
