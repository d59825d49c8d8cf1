"""Directives that map the loops of a stage to the blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from bayplan.ir.errors import ScheduleError
from bayplan.ir.memory import ForKind
from bayplan.language.expr import as_node
from bayplan.language.loop_names import VarOrRVar, loop_name
from bayplan.language.loops import reorder_loops, set_loop_kind, split_loop
from bayplan.language.schedule import OUTERMOST, TailStrategy
from bayplan.language.target_names import DeviceAPI
from bayplan.language.var import Var

if TYPE_CHECKING:
    from bayplan.language.stage import Stage

_DEFAULT: Final = DeviceAPI.Default_GPU


class GpuDirectives:
    """Halide's device directives, for Func and Stage.

    Blocks of a kernel run in any order and do not see each other; the threads of a block share its
    memory. `device_api` says which kind of device is meant where a target has several.
    """

    __slots__ = ()

    def _touched(self) -> Stage:
        raise NotImplementedError

    def gpu_blocks(self, *vars: Any, **named: Any) -> Self:
        """Run one, two or three loops as the blocks of a kernel, x first.

        Forms: (block_x), (block_x, block_y), (block_x, block_y, block_z), and `device_api` last.
        """
        loops, api = _loops("gpu_blocks", ("block_x", "block_y", "block_z"), (1, 2, 3), vars, named)
        return self._run_on_device(loops, ForKind.GPUBlock, api)

    def gpu_threads(self, *vars: Any, **named: Any) -> Self:
        """Run one, two or three loops as the threads of a block, x first.

        Forms: (thread_x), (thread_x, thread_y), (thread_x, thread_y, thread_z), and `device_api`
        last.
        """
        names = ("thread_x", "thread_y", "thread_z")
        loops, api = _loops("gpu_threads", names, (1, 2, 3), vars, named)
        return self._run_on_device(loops, ForKind.GPUThread, api)

    def gpu_lanes(self, thread_x: Any, device_api: DeviceAPI = _DEFAULT) -> Self:
        """Run a loop of at most 32 iterations as the lanes of a warp."""
        return self._run_on_device([loop_name(thread_x)], ForKind.GPULane, _api(device_api))

    def gpu_single_thread(self, device_api: DeviceAPI = _DEFAULT) -> Self:
        """Run the whole stage in one thread of one block."""
        api = _api(device_api)
        outermost = loop_name(Var(OUTERMOST))
        block, thread = loop_name(Var()), loop_name(Var())
        for part in (thread, block):
            split_loop(self._touched(), outermost, outermost, part, as_node(1), TailStrategy.Auto)
        self._run_on_device([block], ForKind.GPUBlock, api)
        return self._run_on_device([thread], ForKind.GPUThread, api)

    def gpu(self, *vars: Any, **named: Any) -> Self:
        """Run loops as blocks, and as many others as threads.

        Forms: (block_x, thread_x), (block_x, block_y, thread_x, thread_y), the same with three of
        each, and `device_api` last.
        """
        count = (len(vars) + len(named.keys() - {"device_api"})) // 2
        order = [f"{part}_{d}" for part in ("block", "thread") for d in "xyz"[:count]]
        loops, api = _loops("gpu", order, (2, 4, 6), vars, named)
        half = len(loops) // 2
        self._run_on_device(loops[:half], ForKind.GPUBlock, api)
        return self._run_on_device(loops[half:], ForKind.GPUThread, api)

    def gpu_tile(self, *args: Any, **named: Any) -> Self:
        """Split one, two or three loops; the outer parts are blocks, the inner ones threads.

        Forms: (x, bx, tx, x_size), (x, y, bx, by, tx, ty, x_size, y_size), the same for three
        loops, and each without the names of the outer parts, which keep those of the loops. A tail
        strategy and a `device_api` may follow.
        """
        old, blocks, threads, sizes, tail, api = _tile(args, named)
        for part in zip(old, blocks, threads, sizes, strict=True):
            split_loop(self._touched(), part[0], part[1], part[2], as_node(part[3]), tail)
        reorder_loops(self._touched(), [*threads, *blocks])
        self._run_on_device(blocks, ForKind.GPUBlock, api)
        return self._run_on_device(threads, ForKind.GPUThread, api)

    def _run_on_device(self, loops: Sequence[VarOrRVar], kind: ForKind, api: DeviceAPI) -> Self:
        stage = self._touched()
        for loop in loops:
            set_loop_kind(stage, loop, kind, api)
        return self

    def _refuse_device(self, directive: str) -> NoReturn:
        raise ScheduleError(
            f"{directive} is not there in this version",
            hint="leave the directive out; what is copied to and from a device is found by itself",
        )

    def hexagon(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: run a loop on a Hexagon processor."""
        raise ScheduleError("hexagon asks for a processor that there is no target for")

    def sme_streaming(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: run a loop in the streaming mode of a processor."""
        raise ScheduleError("sme_streaming asks for a mode that there is no target for")


def _api(value: Any) -> DeviceAPI:
    if not isinstance(value, DeviceAPI):
        raise TypeError(f"device_api is a DeviceAPI, not {type(value).__name__}: {value!r}")
    return value


def _values(
    directive: str,
    order: Sequence[str],
    args: Sequence[Any],
    named: dict[str, Any],
) -> list[Any]:
    """Positional and named arguments in the order of their names."""
    values = list(args)
    for name in order[len(values) :]:
        if name not in named:
            break
        values.append(named.pop(name))
    if named:
        raise TypeError(f"{directive}() got an unexpected argument {next(iter(named))!r}")
    return values


def _loops(
    directive: str,
    order: Sequence[str],
    counts: Sequence[int],
    args: Sequence[Any],
    named: dict[str, Any],
) -> tuple[list[VarOrRVar], DeviceAPI]:
    """The loops that a directive names, and the device."""
    values = list(args)
    api = named.pop("device_api", None)
    if api is None:
        api = values.pop() if values and isinstance(values[-1], DeviceAPI) else _DEFAULT
    values = _values(directive, order, values, named)
    if len(values) not in counts:
        allowed = ", ".join([str(c) for c in counts[:-1]]) + f" or {counts[-1]}"
        raise TypeError(f"{directive}() takes {allowed} loops, not {len(values)}")
    return [loop_name(v) for v in values], _api(api)


_Parts = tuple[
    list[VarOrRVar], list[VarOrRVar], list[VarOrRVar], list[Any], TailStrategy, DeviceAPI
]


def _tile(args: Sequence[Any], named: dict[str, Any]) -> _Parts:
    """(loops, blocks, threads, sizes, tail, device) of the forms in which gpu_tile is called."""
    values = list(args)
    api = named.pop("device_api", None)
    if api is None:
        api = values.pop() if values and isinstance(values[-1], DeviceAPI) else _DEFAULT
    tail = named.pop("tail", None)
    if tail is None:
        is_last = values and isinstance(values[-1], TailStrategy)
        tail = values.pop() if is_last else TailStrategy.Auto
    count, has_blocks = _form_of_tile(len(values) + len(named), "bx" in named)
    order = [f"{part}{d}" for part in ("", "b", "t") for d in "xyz"[:count] if part != "b"
             or has_blocks]  # fmt: skip
    order += [f"{d}_size" for d in "xyz"[:count]]
    values = _values("gpu_tile", order, values, named)
    old, rest = [loop_name(v) for v in values[:count]], values[count:]
    blocks = old
    if has_blocks:
        blocks, rest = [loop_name(v) for v in rest[:count]], rest[count:]
    threads, sizes = [loop_name(v) for v in rest[:count]], rest[count:]
    return old, blocks, threads, sizes, tail, _api(api)


def _form_of_tile(given: int, names_blocks: bool) -> tuple[int, bool]:
    """How many loops a call of so many arguments tiles, and whether it names the outer parts."""
    for count in (1, 2, 3):
        if given == 3 * count and not names_blocks:
            return count, False
        if given == 4 * count:
            return count, True
    raise TypeError(f"gpu_tile() takes 3, 4, 6, 8, 9 or 12 arguments and a tail, not {given}")
