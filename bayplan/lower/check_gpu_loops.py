"""Refuses schedules for a GPU that no kernel can follow, and GPU loops for a target without one."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import For, HoistedStorage, ProducerConsumer, Realize, Stmt
from bayplan.language.function import Function
from bayplan.language.schedule import Dim
from bayplan.language.target_names import DeviceAPI
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_loop, line_of_loop, loop_variable

_MOST_NESTED: Final = 3
_WORDS: Final = {
    ForKind.GPUBlock: "loop over blocks",
    ForKind.GPUThread: "loop over threads",
    ForKind.GPULane: "loop over lanes",
}


def check_gpu_loops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement as it is, if its loops of GPUs can be kernels of the target.

    Order: on the loops as scheduled, which a user recognizes.

    Raises:
        ScheduleError: They cannot; names the Func, the loop and the user's line.
    """
    for function in lowering.env.values():
        _check_devices(function, lowering)
    _Nests(lowering).visit(stmt)
    return stmt


def _check_devices(function: Function, lowering: Lowering) -> None:
    """Checks that the target has the device that the loops of a Func are for."""
    if function.init is None or lowering.target is None:
        return
    for definition in function.stages():
        for dims in (
            definition.schedule.dims,
            *[special.definition.schedule.dims for special in definition.specializations],
        ):
            for dim in dims:
                if dim.kind.is_gpu:
                    _check_device(function, dim, lowering)


def _check_device(function: Function, dim: Dim, lowering: Lowering) -> None:
    target = lowering.target
    found: DeviceAPI = target.device_api()
    where = dim.where or function.where
    name = dim.var.rpartition(".")[2]
    if found is DeviceAPI.None_:
        raise ScheduleError(
            f"the loop over {name} of {function.name} is made {dim.kind.value}, and the target "
            f"{target} has no GPU that programs are made for",
            where,
            hint='take a target with one: hl.Target("opencl"), "cuda", or "cuda-emulated", which '
            "runs kernels on the host",
        )
    if dim.device not in (DeviceAPI.Default_GPU, DeviceAPI.None_, found):
        raise ScheduleError(
            f"the loop over {name} of {function.name} asks for a device of the kind "
            f"{dim.device.name}, and kernels for the target {target} are made for {found.name}",
            where,
            hint=f"leave out device_api, or take a target without {found.value}",
        )


class _Nests:
    """Walks the loops, and refuses those that cannot be where they are."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._blocks: list[For] = []
        self._threads: list[For] = []
        # What stands between the innermost loop over blocks and here, "" for nothing.
        self._between = ""

    def visit(self, s: Any) -> None:
        """Check a statement and what is in it."""
        if isinstance(s, Expr):
            return
        saved = self._between
        if type(s) is For:
            self._loop(s)
        else:
            if self._blocks:
                self._in_kernel(s)
            for child in s.children():
                self.visit(child)
        self._between = saved

    def _in_kernel(self, s: Any) -> None:
        is_producer = type(s) is ProducerConsumer and s.is_producer
        if is_producer or type(s) in (Realize, HoistedStorage):
            what = "computation" if is_producer else "storage"
            self._between = self._between or f"the {what} of {s.name}"
        function = self._lowering.env.get(s.name) if is_producer else None
        if function is not None and function.extern() is not None:
            raise ScheduleError(
                f"{s.name} is computed by a C function, which cannot be called {self._inside()}",
                function.schedule.where or function.where,
                hint=f"{s.name}.compute_root()",
            )

    def _loop(self, s: For) -> None:
        if s.kind is ForKind.GPUBlock:
            self._check_block(s)
            self._blocks.append(s)
            self.visit(s.body)
            self._blocks.pop()
            return
        if s.kind.is_gpu:
            self._check_thread(s)
            self._between = self._between or f"the {self._text(s)}"
            self._threads.append(s)
            self.visit(s.body)
            self._threads.pop()
            return
        if self._blocks:
            if s.kind in (ForKind.Parallel, ForKind.Extern):
                raise self._refusal(
                    s, f"the {s.kind.value} loop {self._inside()} would be the host's"
                )
            self._between = self._between or f"the {self._text(s)}"
        self.visit(s.body)

    def _check_block(self, s: For) -> None:
        if self._threads:
            raise self._refusal(s, f"a loop over blocks cannot be {self._inside()}")
        if self._between:
            raise self._refusal(
                s,
                f"{self._between} is between it and the {self._text(self._blocks[-1])}: loops over "
                "blocks must be directly inside one another",
            )
        self._check_depth(s, self._blocks)

    def _check_thread(self, s: For) -> None:
        if not self._blocks:
            raise self._refusal(
                s, "it is in no loop over blocks, and threads are always those of a block",
                "gpu_blocks() on a loop outside of it",
            )  # fmt: skip
        if self._threads and self._threads[-1].kind is ForKind.GPULane:
            raise self._refusal(
                s, f"it is inside the {self._text(self._threads[-1])}, and lanes are innermost"
            )
        self._check_depth(s, self._threads)

    def _check_depth(self, s: For, around: list[For]) -> None:
        if len(around) == _MOST_NESTED:
            raise self._refusal(
                s, f"it is inside {_MOST_NESTED} others of its kind, and a grid has no more "
                "dimensions", "fuse() two of the loops",
            )  # fmt: skip

    def _inside(self) -> str:
        loops = self._threads or self._blocks
        return f"inside the {self._text(loops[-1])}"

    def _text(self, s: For) -> str:
        """The loop in words."""
        word = _WORDS.get(s.kind, f"{s.kind.value} loop over")
        name = loop_variable(s.name, self._lowering)
        return f"{word} {name} of {func_of_loop(s.name, self._lowering)}"

    def _refusal(self, s: For, what: str, hint: str = "") -> ScheduleError:
        where: SourceLine | None = line_of_loop(s.name, self._lowering)
        return ScheduleError(f"the {self._text(s)} cannot be there: {what}", where, hint)
