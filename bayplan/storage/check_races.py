"""The checker of barriers: refuses a program in which threads of a block meet without waiting.

It shares no code with what places barriers. It makes up a few calls, walks kernels in them as the
threads of a block do, and notes for the steps between two barriers which thread touches which
elements. Two steps between which no thread waits must not touch a byte from two threads if one of
them writes it. Within a step threads are on their own, so that there only different temporaries
are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.analysis.evaluate import Unknown
from bayplan.ir.build import true
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Allocate, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.walk import iterate
from bayplan.storage.check_block import THREADS, BlockRun
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_samples import find_samples
from bayplan.storage.check_touches import Place, fence_of, place_of
from bayplan.storage.check_walk import Scope

_MOST_SAMPLES: Final = 2
_STRIDE_BITS: Final = 14

# A condition of the host around a kernel, in its scope, and what it must be.
_Test = tuple[Expr, Scope | None, bool]


def check_races(stmt: Stmt) -> None:
    """Refuses a program whose barriers are not enough, for tests and the debug setting.

    Raises:
        PlanError: two threads of a block touch a byte, one of them writes it, and no barrier
            whose fence covers the memory stands between; or a barrier stands where not all
            threads come.
    """
    kernels: list[_Kernel] = []
    _find_kernels(stmt, None, {}, (), kernels)
    if not kernels:
        return
    for kernel in kernels:
        kernel.check_form()
    working = [kernel for kernel in kernels if kernel.has_work()]
    if not working:
        return
    samples = find_samples(stmt)
    working = [kernel for kernel in working if kernel.check_calls(samples)]
    if working:
        # Where threads may meet, regions that do not begin at 0 are tried too.
        samples = find_samples(stmt, (true(), None))
        for kernel in working:
            kernel.check_calls(samples)


def _find_kernels(
    s: Any,
    scope: Scope | None,
    around: dict[str, Place],
    tests: tuple[_Test, ...],
    found: list[_Kernel],
) -> None:
    if isinstance(s, LetStmt):
        _find_kernels(s.body, Scope(s.name, s.value, None, scope), around, tests, found)
    elif isinstance(s, Allocate):
        inner = {**around, s.name: place_of(s, around, scope)}
        _find_kernels(s.body, scope, inner, tests, found)
    elif isinstance(s, For):
        if s.kind is ForKind.GPUBlock:
            found.append(_Kernel(s, scope, around, tests))
        else:
            _find_kernels(s.body, Scope(s.name, None, s, scope), around, tests, found)
    elif isinstance(s, IfThenElse):
        taken, other = (*tests, (s.condition, scope, True)), (*tests, (s.condition, scope, False))
        _find_kernels(s.then_case, scope, around, taken, found)
        if s.else_case is not None:
            _find_kernels(s.else_case, scope, around, other, found)
    else:
        for child in s.children():
            if isinstance(child, Stmt):
                _find_kernels(child, scope, around, tests, found)


class _Kernel:
    """One kernel, with what is bound and allocated around it."""

    def __init__(
        self,
        s: For,
        scope: Scope | None,
        around: dict[str, Place],
        tests: tuple[_Test, ...],
    ) -> None:
        self.tests = tests
        self.loops: list[For] = []
        body: Stmt = s
        while isinstance(body, For) and body.kind is ForKind.GPUBlock:
            self.loops.append(body)
            scope = Scope(body.name, None, body, scope)
            body = body.body
        self.body = body
        self.scope = scope
        self.around = around

    def check_form(self) -> None:
        """No barrier stands in a loop over threads."""
        for s in iterate(self.body):
            if isinstance(s, For) and s.kind in THREADS:
                for inner in iterate(s.body):
                    if fence_of(inner):
                        raise PlanError(
                            f"a barrier stands in the loop over threads {s.name}, in which "
                            "threads do not wait for each other"
                        )

    def has_work(self) -> bool:
        """Whether anything is written that a block's threads could meet in."""
        return any(isinstance(s, Store) for s in iterate(self.body))

    def check_calls(self, samples: Sequence[Numbers]) -> bool:
        """Walks blocks in some of the calls: the first few in which they can be walked.

        Returns:
            whether other calls are worth a look: some steps may meet.
        """
        seen: list[bool] = []
        for numbers in samples:
            may_meet = self.check(numbers)
            if may_meet is not None:
                seen.append(may_meet)
                if not may_meet or len(seen) == _MOST_SAMPLES:
                    break
        return not seen or True in seen

    def check(self, numbers: Numbers) -> bool | None:
        """Walks some of the blocks in one call.

        Returns:
            whether steps may meet; None: the call has no such blocks, or they are not known.
        """
        numbers = _with_layouts(numbers)
        try:
            around = self._loops_around(numbers)
            if around is None or not self._is_reached(numbers, around):
                return None
            counts = [numbers.value(loop.extent, self.scope, around) for loop in self.loops]
        except Unknown:
            return None
        if any(count <= 0 for count in counts):
            return None
        corners = {tuple([0] * len(counts)), tuple([count - 1 for count in counts])}
        found: list[bool] = []
        for ids in sorted(corners):
            names = [loop.name for loop in self.loops]
            for taken in (True, False):
                at = {**around, **dict(zip(names, ids, strict=True))}
                run = BlockRun(self.body, self.scope, self.around, numbers, at, taken)
                run.whole()
                if run.suspects is not None:
                    found.append(bool(run.suspects))
                if not run.guessed:
                    break
        return True in found if found else None

    def _is_reached(self, numbers: Numbers, around: dict[str, int]) -> bool:
        """Whether the host's branches around are taken, as far as that is known.

        What a branch needs that is not taken has no bytes, and may seem to lie on anything.
        """
        for condition, scope, wanted in self.tests:
            try:
                if bool(numbers.value(condition, scope, around)) is not wanted:
                    return False
            except Unknown:
                continue
        return True

    def _loops_around(self, numbers: Numbers) -> dict[str, int] | None:
        """The first iteration of the host's loops around the kernel; None where there is none."""
        loops: list[Scope] = []
        scope = self.scope
        while scope is not None:
            if scope.loop is not None and scope.loop.kind is not ForKind.GPUBlock:
                loops.append(scope)
            scope = scope.outer
        values: dict[str, int] = {}
        for loop in reversed(loops):
            assert loop.loop is not None
            values[loop.name] = numbers.value(loop.loop.min, loop.outer, values)
            if numbers.value(loop.loop.extent, loop.outer, values) <= 0:
                return None
        return values


def _with_layouts(numbers: Numbers) -> Numbers:
    """The same call with buffers none of whose elements overlap, whatever their extents."""
    strides: dict[str, int] = {}
    for name in numbers.values:
        buffer, dot, dimension = name.rpartition(".stride.")
        if dot and buffer and dimension.isdigit():
            strides[name] = 1 << (_STRIDE_BITS * int(dimension))
    return Numbers({**numbers.values, **strides}, numbers.workers)
