"""Draws random schedules for a GPU: kernels, what is computed in their blocks and threads, and
stages on the host between and around them.

What is drawn beyond the host's directives: grids of blocks and threads for Funcs at root or in
loops of the host; producers in a block, with threads of their own or in one thread; producers in a
thread; storage in shared or global memory; atomic counts in shared memory.
"""

from __future__ import annotations

from typing import Final

from tests.differential.loops import Loop, Nest
from tests.differential.schedules import Level, Scheduler
from tests.differential.stages import Stage

MOST_THREADS: Final = 256
BLOCK, THREAD, HOST = "block", "thread", "host"


class GpuScheduler(Scheduler):
    """Draws the schedule of one algorithm for a target with a GPU."""

    ROOT, AT = 1, 7

    # Block loops in which nothing can be computed, as another block loop is right inside.
    outer_blocks: set[Level]
    # Where the inside of each loop is, in the definitions of its Func that have it.
    kinds: dict[Level, set[str]]
    # Whether the definition at hand runs in a kernel of one thread.
    single: bool

    def draw(self) -> None:
        """Draws the schedule of every Func that is used, into the program."""
        self.outer_blocks, self.kinds = set(), {}
        super().draw()

    def _place(self, stage: Stage) -> str:
        """Whether a stage's loops stand on the host, in a block or in a thread."""
        path = self.paths[stage]
        # A loop that is around in one definition of the consumer need not be in another.
        kinds = self.kinds.get(path[-1], {HOST}) if path else {HOST}
        return THREAD if THREAD in kinds else BLOCK if BLOCK in kinds else HOST

    def _is_closed(self, level: Level) -> bool:
        kinds = self.kinds.get(level, set())
        # What is computed in a loop is so in all definitions of the Func.
        return len(kinds) > 1 or level in self.outer_blocks or super()._is_closed(level)

    def _transform(self, nest: Nest) -> None:
        self.single = False
        self._map(nest)
        place = THREAD if self.single else self._place(nest.stage)
        for loop in reversed(nest.loops):
            place = loop.kind if loop.kind in (BLOCK, THREAD) else place
            self.kinds.setdefault((nest.stage.name, loop.name), set()).add(place)

    def _map(self, nest: Nest) -> None:
        place, choices = self._place(nest.stage), self.choices
        if place == HOST and choices.chance(80 if not self.paths[nest.stage] else 25):
            self._make_kernel(nest)
        elif place == BLOCK and choices.chance(80):
            self._make_threads(nest)
        else:
            super()._transform(nest)

    def _parallel(self, nest: Nest) -> None:
        if self._place(nest.stage) == HOST:
            super()._parallel(nest)

    def _atomic(self, nest: Nest) -> None:
        if self._place(nest.stage) == HOST:
            super()._atomic(nest)

    def _pair_up(self) -> None:
        """Loops of two Funcs in one kernel are not drawn."""

    def _inner_transforms(self, nest: Nest) -> None:
        """Vectors and unrolled loops within a thread, then the mark of an untouched update."""
        if self.choices.chance(25):
            self._vectorize(nest)
        if self.choices.chance(25):
            self._unroll(nest)
        if nest.definition > 0 and not nest.touched:
            self._line(f"{nest.text}.unscheduled()")

    def _draw_loops(self, nest: Nest) -> list[Loop]:
        """One or two of the nest's pure loops, innermost first."""
        pure = [loop for loop in nest.loops if loop.kind == "serial" and not loop.rvar]
        pure = [loop for loop in pure if not loop.final]
        count = min(len(pure), self.choices.weighted([(2, 1), (3, 2)]))
        picked = self.choices.shuffled(pure)[:count]
        return [loop for loop in nest.loops if loop in picked]

    def _make_kernel(self, nest: Nest) -> None:
        choices = self.choices
        if choices.chance(25):
            choices.weighted([(2, self._split), (1, self._fuse)])(nest)
        loops = self._draw_loops(nest)
        if not loops:
            if nest.definition == 0 or not nest.loops:
                self.single = True
                self._emit(nest, "gpu_single_thread()")
                if nest.loops:
                    # Storage in the kernel is in its outermost loop at the most.
                    self.parallel_levels.add((nest.stage.name, nest.loops[-1].name))
            self._inner_transforms(nest)
            return
        blocks: list[Loop] = []
        threads: list[Loop] = []
        room = MOST_THREADS
        for loop in loops:
            parts = self._cut(nest, loop, room)
            if parts is None:
                blocks.append(loop)
                continue
            threads.append(parts[0])
            blocks.append(parts[1])
            room //= parts[0].extent or 1
        rest = [loop for loop in nest.loops if loop not in blocks and loop not in threads]
        # Serial loops run in each thread, or around the threads of a block.
        around = rest if threads and choices.chance(25) else []
        within = [] if around else rest
        order = [*within, *threads, *around, *blocks]
        if len(order) > 1:
            self._emit(nest, f"reorder({', '.join(loop.name for loop in order)})")
        nest.loops = order
        self._emit(nest, f"gpu_blocks({', '.join(loop.name for loop in blocks)})")
        if threads:
            self._emit(nest, f"gpu_threads({', '.join(loop.name for loop in threads)})")
        self._mark(nest, blocks, BLOCK)
        self._mark(nest, threads, THREAD)
        self.outer_blocks |= {(nest.stage.name, loop.name) for loop in blocks[1:]}
        self._inner_transforms(nest)

    def _cut(self, nest: Nest, loop: Loop, room: int) -> tuple[Loop, Loop] | None:
        """Splits a loop into threads and blocks; None where it stays whole, as blocks."""
        choices = self.choices
        factors = [f for f in (2, 3, 4, 5, 8, 16) if f <= room and f * loop.scale <= 16]
        if not factors or choices.chance(10):
            return None
        factor = choices.pick(factors)
        tail = self._tail(nest, loop, factor)
        if tail in ("PredicateLoads", "PredicateStores", "Predicate", None):
            tail = "GuardWithIf"
        outer, inner = self._fresh("b", False), self._fresh("t", False)
        suffix = "" if tail == "Auto" else f", hl.TailStrategy.{tail}"
        self._emit(nest, f"split({loop.name}, {outer}, {inner}, {factor}{suffix})")
        outer_extent = None if loop.extent is None else -(-loop.extent // factor)
        parts = Loop(inner, False, factor), Loop(outer, False, outer_extent)
        parts[0].scale, parts[1].scale = loop.scale, loop.scale * factor
        i = nest.loops.index(loop)
        nest.loops[i : i + 1] = list(parts)
        return parts

    def _mark(self, nest: Nest, loops: list[Loop], kind: str) -> None:
        for loop in loops:
            loop.kind = kind
            self.parallel_levels.add((nest.stage.name, loop.name))

    def _make_threads(self, nest: Nest) -> None:
        """Threads for the loops of a stage that is computed in a block."""
        choices = self.choices
        if choices.chance(30):
            self._split(nest)
        loops = self._draw_loops(nest)
        if not loops:
            self._inner_transforms(nest)
            return
        if self._can_be_atomic(nest) and choices.chance(50):
            self._make_atomic_threads(nest)
            return
        rest = [loop for loop in nest.loops if loop not in loops]
        around = rest if choices.chance(35) else []
        within = [] if around else rest
        order = [*within, *loops, *around]
        if len(order) > 1 and order != nest.loops:
            self._emit(nest, f"reorder({', '.join(loop.name for loop in order)})")
        nest.loops = order
        self._emit(nest, f"gpu_threads({', '.join(loop.name for loop in loops)})")
        self._mark(nest, loops, THREAD)
        self._inner_transforms(nest)

    def _can_be_atomic(self, nest: Nest) -> bool:
        """Whether a reduction of integers may run in any order."""
        return nest.definition - 1 in nest.stage.rfactorable and not any(
            v.kind[0] == "f" for v in nest.stage.values
        )

    def _make_atomic_threads(self, nest: Nest) -> None:
        rvars = [loop for loop in nest.loops if loop.kind == "serial" and loop.rvar]
        if not rvars:
            return
        loop = self.choices.pick(rvars)
        self._emit(nest, f"atomic().gpu_threads({loop.name})")
        self._mark(nest, [loop], THREAD)
        self._inner_transforms(nest)

    def _storage(self, stage: Stage) -> None:
        choices, place = self.choices, self._place(stage)
        if place == BLOCK and stage is not self.output and choices.chance(40):
            kind = choices.pick(("Heap", "GPUShared", "GPUShared"))
            self._line(f"{stage.name}.store_in(hl.MemoryType.{kind})")
        elif place == HOST:
            super()._storage(stage)
