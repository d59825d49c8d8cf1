"""Every error a user can meet: a class, a stable code, the numbers, the user's line.

Errors come in two ways. A Python class is raised at once where Python notices the fault. An
`ErrorSite` is compiled into the program as an assertion; the runtime reports its number and
arguments, and `ErrorSite.error` makes the same kind of exception of them.
"""

from __future__ import annotations

from bayplan.ir.source import SourceLine, user_line


class BayplanError(Exception):
    """Base of all errors.

    Attributes:
        code: stable code such as "BP-S012"; listed in docs/errors.md.
        where: the user's file and line, or None where there is none.
        message: the text without code, place and hint.
        hint: what to do, or what more there is to know; "" for nothing.
        numbers: what a running program reported, in the order of the message.
    """

    code = "BP-000"

    def __init__(self, message: str, where: SourceLine | None = None, hint: str = "") -> None:
        self.where = where if where is not None else user_line()
        self.message = message
        self.hint = hint
        self.numbers: tuple[object, ...] = ()
        text = f"{self.code}: {message}"
        if self.where is not None:
            text += f"\n  at {self.where}"
        if hint:
            text += f"\n  hint: {hint}"
        super().__init__(text)


class InternalError(BayplanError):
    """A fault of the compiler itself, not of the program it was given."""

    code = "BP-X001"


class PlanError(InternalError):
    """A storage plan in which two temporaries would destroy one another's values."""

    code = "BP-X002"


class DefinitionError(BayplanError):
    """An algorithm that cannot be: an undefined Func, a wrong number of arguments, ..."""

    code = "BP-A001"


class TypeMismatchError(BayplanError):
    """Operands or values whose types do not fit, or a constant its type cannot hold."""

    code = "BP-A002"


class ScheduleError(BayplanError):
    """A schedule directive that names something unknown or is not legal."""

    code = "BP-S001"


class FoldError(ScheduleError):
    """An explicit storage fold that is too small or not possible."""

    code = "BP-S002"


class BufferError(BayplanError):
    """A buffer of the wrong type, rank or layout, or missing."""

    code = "BP-B001"


class BoundsError(BayplanError):
    """A buffer or a promised range that does not cover what the program needs."""

    code = "BP-B002"


class ConstraintError(BayplanError):
    """A constraint the user set on a buffer or a parameter that the call violates."""

    code = "BP-B003"


class AliasError(BayplanError):
    """An output that shares bytes with another argument of the call."""

    code = "BP-B004"


class MissingArgument(BayplanError):
    """A parameter or input buffer that was never given a value."""

    code = "BP-B005"


class AllocationTooLarge(BayplanError):
    """A size that does not fit the index type or the limit."""

    code = "BP-M001"


class OutOfMemory(BayplanError):
    """The allocator could not give the bytes of a temporary."""

    code = "BP-M002"


class WorkspaceError(BayplanError):
    """A workspace for a program whose bytes are not known before the call."""

    code = "BP-M003"


class WorkspaceTooSmall(WorkspaceError):
    """A workspace of too few bytes, counted from its first aligned address.

    Attributes:
        need_bytes: what a workspace at the given address must have.
        got_bytes: what it has.
    """

    code = "BP-M004"

    @property
    def need_bytes(self) -> int:
        return int(str(self.numbers[0]))

    @property
    def got_bytes(self) -> int:
        return int(str(self.numbers[1]))


class DeviceLimitError(BayplanError):
    """A kernel needs more of something than a block has on the device."""

    code = "BP-M006"


class CapacityError(BayplanError):
    """Requests that no plan can put into the bytes given, or pinned onto one another."""

    code = "BP-M010"


class StorageDamaged(BayplanError):
    """A build with guards found that a temporary's bytes were written by another."""

    code = "BP-M005"


class LifetimesError(BayplanError):
    """A list of lifetimes that cannot be read: the file, the line, and what is wrong there."""

    code = "BP-M011"


class RequirementFailed(BayplanError):
    """A `require` of the program, or a `specialize_fail`, that was reached."""

    code = "BP-R001"


class ExternError(BayplanError):
    """An external function that is not found, or whose result was not 0."""

    code = "BP-E001"


class NoCompiler(BayplanError):
    """No working C compiler was found."""

    code = "BP-C001"


class CompileError(BayplanError):
    """The C compiler failed."""

    code = "BP-C002"


class OutputFileError(BayplanError):
    """A file that cannot be written, or a kind of file that is not made."""

    code = "BP-C003"


class NoDevice(BayplanError):
    """The device, its loader or its driver is missing."""

    code = "BP-D001"


class DeviceError(BayplanError):
    """A device that refuses a kernel, or fails at running it or at a copy."""

    code = "BP-D002"


class OutOfDeviceMemory(OutOfMemory):
    """The device could not give the bytes of a temporary or of a buffer."""

    code = "BP-D003"


class ErrorSite:
    """A place in the program at which the call can end with an error.

    Attributes:
        error_class: the class of the exception it becomes.
        template: the message, with {0}, {1}, ... for the arguments.
        where: the user's line it belongs to.
        hint: what to do; "" for nothing.
    """

    __slots__ = ("error_class", "hint", "template", "where")

    def __init__(
        self,
        error_class: type[BayplanError],
        template: str,
        where: SourceLine | None = None,
        hint: str = "",
    ) -> None:
        self.error_class = error_class
        self.template = template
        self.where = where
        self.hint = hint

    def error(self, args: tuple[object, ...], hint: str = "") -> BayplanError:
        """The exception for the arguments that the runtime reported.

        Args:
            hint: one that only this call knows; without it the site's.
        """
        error = self.error_class(self.template.format(*args), self.where, hint or self.hint)
        error.numbers = args
        return error
