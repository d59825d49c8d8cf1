"""What device languages differ in, for the one emitter of the C family.

A language is one file that registers itself here: `opencl`, `cuda`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from bayplan.ir.errors import InternalError
from bayplan.ir.intrinsics import MATHS
from bayplan.language.target_names import TargetFeature

if TYPE_CHECKING:
    from bayplan.ir.types import Type
    from bayplan.targets.kernels import DeviceUnit

AXES: Final = "xyz"

# Where memory is: parameters of the kernel, the block's, the thread's own, constant tables.
GLOBAL: Final = "global"
SHARED: Final = "shared"
PRIVATE: Final = "private"
CONSTANT: Final = "constant"

STATIC_SHARED_BYTES: Final = 48 << 10
"""Shared memory of a block that a kernel may declare with a constant size; more is given by the
launch."""

# The functions of libm that stand for the language's maths, where the names differ.
MATHS_NAMES: Final = {
    "round": "rint", "fast_exp": "exp", "fast_log": "log", "fast_pow": "pow", "fast_sin": "sin",
    "fast_cos": "cos", "fast_atan": "atan", "fast_atan2": "atan2", "fast_tanh": "tanh",
}  # fmt: skip


MATHS_FUNCTIONS: Final = frozenset(
    {MATHS_NAMES.get(name, name) for name in MATHS} | {"isnan", "isinf", "isfinite", "fma", "abs"}
)
"""Names of the functions that kernels call: no local may have one of them."""


class DeviceLanguage:
    """A language in which kernels are written.

    Attributes:
        name: "opencl" or "cuda".
        feature: of targets whose kernels are in it.
        reserved: names that locals of a kernel must not have.
        spaces: what stands before types of pointers into each kind of memory.
        restrict: how a pointer is declared that shares its bytes with no other.
        atomics: the functions for a read and write in one step: (operation, kind, width) -> name.
    """

    name: ClassVar[str]
    feature: ClassVar[TargetFeature]
    reserved: ClassVar[frozenset[str]]
    spaces: ClassVar[dict[str, str]]
    restrict: ClassVar[str]
    atomics: ClassVar[dict[tuple[str, str, int], str]]
    # Whether an iteration must not end with a wait that only some iterations do.
    waits_in_every_iteration: ClassVar[bool] = False
    # Whether the threads wait behind a branch of the block in which they did.
    waits_behind_branches: ClassVar[bool] = False

    def prelude(self, unit: DeviceUnit, text: str) -> str:
        """What stands before the helpers and kernels whose text is given."""
        raise NotImplementedError

    def ending(self, unit: DeviceUnit) -> str:
        """What stands behind the kernels."""
        return ""

    def head(
        self, name: str, parameters: list[str], threads: tuple[int, ...] | None, exchanges: bool
    ) -> list[str]:
        """The lines that begin a kernel.

        Args:
            name: of the kernel.
            parameters: their declarations.
            threads: of a block in x, y and z where they are known.
            exchanges: lanes of its warps exchange values.
        """
        raise NotImplementedError

    def block_id(self, axis: int) -> str:
        """The number of the block in x (0), y or z."""
        raise NotImplementedError

    def thread_id(self, axis: int) -> str:
        """The number of the thread in its block."""
        raise NotImplementedError

    def barrier(self, fence: int) -> str:
        """The statement that lets the threads of a block wait for each other."""
        raise NotImplementedError

    def shared_array(self, c_type: str, name: str, count: int, alignment: int) -> str:
        """The declaration of memory of the block, of a constant size."""
        raise NotImplementedError

    def shared_parameter(self, c_type: str, name: str) -> str | None:
        """The parameter that memory of the block comes as whose size the launch says, if any."""
        raise NotImplementedError

    def shared_pointer(self, c_type: str, name: str) -> str | None:
        """The declaration of such memory where it is no parameter."""
        return None

    def table(self, c_type: str, name: str, count: int) -> str:
        """The declaration of a constant table, up to its initialiser."""
        raise NotImplementedError

    def maths(self, name: str, width: int) -> str:
        """The function for one of `ir.intrinsics.MATHS`."""
        raise NotImplementedError

    def count_bits(self, name: str, width: int) -> str:
        """An expression of `a`, unsigned and of 32 or 64 bits: popcount, or of an `a` that is not
        0 count_leading_zeros or count_trailing_zeros."""
        raise NotImplementedError

    def reinterpret(self, t: Type) -> str | None:
        """The function that gives the bits of its argument as a `t`, where there is one."""
        return None

    def strict_product(self, t: Type) -> str | None:
        """The function for a product that is never fused into a sum; None: there are none such
        where `unit.strict` is set."""
        return None

    def compare_and_swap(self, unit: DeviceUnit, width: int, space: str) -> str:
        """The function `(p, before, after)` that writes where `before` is found, and gives what
        was found, as unsigned integers of the width."""
        raise NotImplementedError

    def shuffle(self, name: str, value: str, which: str, lanes: int) -> str | None:
        """An exchange between the first `lanes` lanes of a warp; None: there is none.

        Args:
            name: of the intrinsic.
            value: that a lane shows, of 32 or 64 bits.
            which: the lane, or how far it is.
            lanes: how many take part.
        """
        return None

    def read_shared(self, swap: str, pointer: str, place: str) -> str:
        """The value at a place that other threads may write at the same time.

        Args:
            swap: the function of `compare_and_swap`.
            pointer: the type of the place.
            place: its text.
        """
        return f"*(volatile {pointer}){place}"


_LANGUAGES: Final[list[DeviceLanguage]] = []


def register(language: DeviceLanguage) -> None:
    """Makes a language known to `find_language`."""
    _LANGUAGES.append(language)


def find_language(target: Any) -> DeviceLanguage:
    """The language of the kernels of a target."""
    from bayplan.targets import cuda, opencl

    del cuda, opencl  # they have registered themselves
    has_feature = getattr(target, "has_feature", None)
    for language in _LANGUAGES:
        if has_feature is not None and has_feature(language.feature):
            return language
    raise InternalError("a program with kernels has a target without a device")
