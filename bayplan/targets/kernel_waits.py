"""Where the threads of a block wait in the uniform code of a kernel, for devices with conditions.

PoCL makes loops over the threads of what stands between two barriers. Where the next barrier is in
a branch or in a loop, so that there are several ways to one, it takes conditions for the same in
all threads that are not, or leaves loops out. Barriers behind branches and loops part the ways.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind
from bayplan.targets.device_language import DeviceLanguage

SOMETIMES: Final = 1
ALWAYS: Final = 2


def last_wait(s: Any, language: DeviceLanguage) -> int:
    """Whether the last barrier of uniform code is passed always, or depends on a branch; 0: none.

    So does one in a loop that may have no iterations.
    """
    if isinstance(s, S.Evaluate):
        return ALWAYS if _is_wait(s) else 0
    if isinstance(s, S.For) and s.kind is not ForKind.Serial:
        return 0
    for child in reversed(s.children()):
        found = last_wait(child, language) if isinstance(child, S.Stmt) else 0
        if found:
            may_be_empty = isinstance(s, S.For) and (build.constant_value(s.extent) or 0) < 1
            may_be_passed = isinstance(s, S.IfThenElse) and not language.waits_behind_branches
            return SOMETIMES if may_be_empty or may_be_passed else found
    return 0


def find_ends_of_loops(s: S.Block, language: DeviceLanguage) -> list[int]:
    """The parts of a block behind which threads wait: of loops with waits before other such loops.

    Other branches count as loops do.
    """
    waiting = [i for i, part in enumerate(s.stmts) if last_wait(part, language)]
    return [
        i
        for i, then in zip(waiting, waiting[1:], strict=False)
        if isinstance(_around_wait(s.stmts[i], language, last=True), S.For)
        and _around_wait(s.stmts[then], language, last=False) is not None
    ]


def _around_wait(s: Any, language: DeviceLanguage, last: bool) -> S.For | S.IfThenElse | None:
    """The loop or branch around the last barrier in it, or around the first."""
    while not _is_wait(s):
        if isinstance(s, S.IfThenElse):
            return s
        if isinstance(s, S.For) and not build.is_const(s.extent, 1):
            return s
        children = [c for c in s.children() if isinstance(c, S.Stmt) and last_wait(c, language)]
        s = children[-1 if last else 0]
    return None


def _is_wait(s: S.Stmt) -> bool:
    value = s.value if isinstance(s, S.Evaluate) else None
    return isinstance(value, E.Call) and value.is_intrinsic("gpu_thread_barrier")
