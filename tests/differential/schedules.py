"""Draws random legal schedules: where each Func is computed and stored, and how its loops run.

Stages are visited from the output backwards, so that the loops of a consumer are settled when
its producers choose a level in them. What is known to be illegal is not drawn; what the wheel
still refuses is counted by the tests and must stay rare.
"""

from __future__ import annotations

from tests.differential.algorithms import Algorithm
from tests.differential.choices import Choices
from tests.differential.loops import Loop, Nest
from tests.differential.stages import COORDINATES, Stage

Level = tuple[str, str]
PURE_TAILS = (
    "Auto",
    "GuardWithIf",
    "RoundUp",
    "ShiftInwards",
    "Predicate",
    "PredicateLoads",
    "PredicateStores",
)
UPDATE_TAILS = ("Auto", "GuardWithIf", "RoundUp", "Predicate", "PredicateLoads", "PredicateStores")
RVAR_TAILS = ("Auto", "GuardWithIf", "Predicate")
FACTORS = (2, 4, 8, 3, 5, 16)
INLINE_LIMIT = 40


class Scheduler:
    """Draws the schedule of one algorithm."""

    # How often a Func is computed at root, and in a loop of its reader.
    ROOT, AT = 3, 4

    def __init__(self, choices: Choices, algorithm: Algorithm) -> None:
        self.choices = choices
        self.algorithm = algorithm
        self.output = algorithm.stages[-1]
        self.nests: dict[Stage, list[Nest]] = {}
        # Where each computed Func's loops stand: the loops around it, outermost first.
        self.paths: dict[Stage, list[Level]] = {}
        self.inlined: set[Stage] = set()
        # Funcs whose loops no producer may be computed in.
        self.closed: set[Stage] = set()
        self.parallel_levels: set[Level] = set()
        self.vector_levels: set[Level] = set()
        self.new_vars: list[str] = []
        self.new_rvars: list[str] = []
        self.lines: list[str] = []
        self.counter = 0
        self.users: dict[Stage, list[tuple[Stage, int]]] = {s: [] for s in algorithm.stages}
        for stage in algorithm.stages:
            for definition, callee, _ in stage.uses:
                if not callee.is_input and (stage, definition) not in self.users[callee]:
                    self.users[callee].append((stage, definition))

    def draw(self) -> None:
        """Draws the schedule of every Func that is used, into the program."""
        program = self.algorithm.program
        for stage in reversed(self.algorithm.stages):
            if stage is self.output or self._call_sites(stage):
                self._schedule(stage)
        self._pair_up()
        declarations = [f'{v} = hl.Var("{v}")' for v in self.new_vars]
        declarations += [f'{v} = hl.RVar("{v}")' for v in self.new_rvars]
        program.schedule = declarations + self.lines

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _call_sites(self, stage: Stage) -> list[tuple[Stage, int]]:
        """The computed definitions that call the stage, directly or through inlined Funcs."""
        sites: list[tuple[Stage, int]] = []
        for user, definition in self.users[stage]:
            found = self._call_sites(user) if user in self.inlined else [(user, definition)]
            sites += [s for s in found if s not in sites]
        return sites

    def _weight(self, stage: Stage) -> int:
        """Size of the expression that inlining the stage puts in place of a call."""
        total = 2
        for _, callee, _ in stage.uses:
            total += self._weight(callee) if callee in self.inlined else 1
        return total

    def _schedule(self, stage: Stage) -> None:
        choices = self.choices
        if stage is not self.output:
            often = 1 if self.algorithm.stored else 3
            where = choices.weighted([(self.ROOT, "root"), (self.AT, "at"), (often, "inline")])
            where = "root" if stage in self.algorithm.siblings else where
            heavy = len(stage.uses) * len(self.users[stage]) > 6 or len(self.inlined) > 2
            if where == "inline" and (heavy or (stage.rvars and choices.chance(70))):
                where = "root"
            if where == "inline":
                self.inlined.add(stage)
                if choices.chance(30):
                    self._line(f"{stage.name}.compute_inline()")
                return
            if where == "root" or not self._compute_at(stage):
                self.paths[stage] = []
                self._line(f"{stage.name}.compute_root()")
        else:
            self.paths[stage] = []
        self.nests[stage] = [Nest(stage, i) for i in range(1 + len(stage.rvars))]
        wrapper = stage is not self.output and choices.chance(6)
        if stage is self.output and choices.chance(15):
            self._bound_output()
        factored = bool(stage.rfactorable) and choices.chance(60) and self._rfactor(stage)
        for nest in self.nests[stage]:
            if stage not in self.algorithm.siblings and not (
                factored and nest.definition == stage.rfactorable[0] + 1
            ):
                self._transform(nest)
        self._storage(stage)
        if stage is not self.output and stage.dims > 0 and choices.chance(5):
            factor = choices.pick((2, 4))
            self._line(f"{stage.name}.align_bounds({stage.vars[0]}, {factor})")
        if wrapper:
            self._wrap(stage)
        if self.algorithm.params and choices.chance(10):
            self._specialize(stage)

    def _compute_at(self, stage: Stage) -> bool:
        """Computes a stage in a loop around all its call sites; False if there is none."""
        choices = self.choices
        sites = self._call_sites(stage)
        levels = self._common_levels(sites)
        usable = []
        for i, level in enumerate(levels):
            if level in self.vector_levels:
                break
            usable.append(i)
        usable = [i for i in usable if not self._is_closed(levels[i])]
        if not usable:
            return False
        at = usable[len(usable) - 1 - choices.below(len(usable))]
        path = levels[: at + 1]
        func, loop = path[-1]
        if choices.chance(45):
            self._store_outside(stage, path)
        self._line(f"{stage.name}.compute_at({func}, {loop})")
        self.paths[stage] = path
        return True

    def _is_closed(self, level: Level) -> bool:
        return any(level[0] == s.name for s in self.closed)

    def _store_outside(self, stage: Stage, path: list[Level]) -> None:
        """Stores a stage further out than it is computed, or hoists its storage."""
        choices = self.choices
        options: list[int] = []
        for i in range(len(path) - 1, -1, -1):
            # A parallel loop must not lie between storage and computation.
            if path[i] in self.parallel_levels:
                break
            options.append(i - 1)
        hoist = choices.chance(15)
        options = [i for i in options if i < 0 or not self._is_closed(path[i])]
        if not options:
            return
        i = options[choices.below(len(options))]
        verb = "hoist_storage" if hoist else "store"
        if i < 0:
            self._line(f"{stage.name}.{verb}_root()")
        else:
            call = "hoist_storage" if hoist else "store_at"
            self._line(f"{stage.name}.{call}({path[i][0]}, {path[i][1]})")

    def _common_levels(self, sites: list[tuple[Stage, int]]) -> list[Level]:
        """The loops around all call sites, outermost first."""
        paths = []
        for user, definition in sites:
            if user not in self.nests:
                return []
            loops = self.nests[user][definition].loops
            inner = [(user.name, loop.name) for loop in reversed(loops)]
            paths.append(self.paths[user] + inner)
        if not paths:
            return []
        common = []
        for levels in zip(*paths, strict=False):
            if any(level != levels[0] for level in levels):
                break
            common.append(levels[0])
        return common

    # Loops of one definition.

    def _fresh(self, base: str, rvar: bool) -> str:
        self.counter += 1
        name = f"{base.replace('.', '')}{self.counter}"
        (self.new_rvars if rvar else self.new_vars).append(name)
        return name

    def _transform(self, nest: Nest) -> None:
        choices = self.choices
        for _ in range(choices.weighted([(3, 0), (4, 1), (3, 2), (1, 3)])):
            choices.weighted([(5, self._split), (3, self._reorder), (2, self._fuse)])(nest)
        if choices.chance(45):
            self._vectorize(nest)
        if choices.chance(25):
            self._unroll(nest)
        if choices.chance(50 if self.algorithm.stored else 30):
            self._parallel(nest)
        if choices.chance(10):
            self._shorthand(nest)
        if nest.definition - 1 in nest.stage.rfactorable and choices.chance(15):
            self._atomic(nest)
        if nest.definition > 0 and not nest.touched:
            self._line(f"{nest.text}.unscheduled()")

    def _emit(self, nest: Nest, call: str) -> None:
        nest.touched = True
        self._line(f"{nest.text}.{call}")

    def _tail(self, nest: Nest, loop: Loop, factor: int) -> str | None:
        """A tail strategy that is legal for splitting a loop, None if none is."""
        choices = self.choices
        if loop.rvar:
            return choices.pick(RVAR_TAILS)
        tail = choices.pick(PURE_TAILS if nest.definition == 0 else UPDATE_TAILS)
        if loop.extent is not None and (nest.definition > 0 or loop.extent % factor != 0):
            # The inner part of a split: other tails may compute beyond it.
            return "GuardWithIf"
        if loop.extent is not None and tail in ("PredicateLoads", "PredicateStores"):
            return "Predicate"
        if nest.stage is self.output and loop.extent is None:
            return self._output_tail(nest, loop, factor, tail)
        return tail

    def _output_tail(self, nest: Nest, loop: Loop, factor: int, tail: str) -> str:
        """Tails of the output must not leave the region that the caller asks for."""
        extents = self.algorithm.program.extents
        if loop.whole is None:
            return "GuardWithIf"
        extent = extents[loop.whole]
        divides = extent % factor == 0
        if tail == "Auto":
            rounds = nest.definition > 0
            return tail if divides or (extent >= factor and not rounds) else "GuardWithIf"
        if tail in ("RoundUp", "PredicateLoads") or (tail == "PredicateStores" and nest.definition):
            return tail if divides else "GuardWithIf"
        if tail == "ShiftInwards":
            return tail if extent >= factor else "GuardWithIf"
        return tail

    def _split(self, nest: Nest) -> None:
        choices = self.choices
        if not nest.loops:
            return
        i = choices.below(len(nest.loops))
        loop = nest.loops[i]
        room = (16 if loop.name.startswith(("x", "r", "hl._0")) else 8) // loop.scale
        factors = [f for f in FACTORS if f <= room]
        if loop.final or not factors:
            return
        factor = choices.pick(factors)
        tail = self._tail(nest, loop, factor)
        if tail is None:
            return
        base = loop.name.replace("hl._0", "x").replace("hl._1", "y").replace("hl._2", "z")
        base = base.rstrip("0123456789")
        outer, inner = self._fresh(base + "o", loop.rvar), self._fresh(base + "i", loop.rvar)
        suffix = "" if tail == "Auto" else f", hl.TailStrategy.{tail}"
        self._emit(nest, f"split({loop.name}, {outer}, {inner}, {factor}{suffix})")
        outer_extent = None if loop.extent is None else -(-loop.extent // factor)
        new = [Loop(inner, loop.rvar, factor), Loop(outer, loop.rvar, outer_extent)]
        new[0].scale, new[1].scale = loop.scale, loop.scale * factor
        if tail in ("PredicateLoads", "PredicateStores"):
            new[0].final = new[1].final = True
        nest.loops[i : i + 1] = new

    def _reorder(self, nest: Nest) -> None:
        if len(nest.loops) < 2:
            return
        order = self.choices.shuffled(nest.loops)
        # RVars keep their order: nothing here proves that they may change it.
        rvars = iter([loop for loop in nest.loops if loop.rvar])
        order = [next(rvars) if loop.rvar else loop for loop in order]
        self._emit(nest, f"reorder({', '.join(loop.name for loop in order)})")
        nest.loops = order

    def _fuse(self, nest: Nest) -> None:
        pairs = [
            i
            for i in range(len(nest.loops) - 1)
            if not nest.loops[i].rvar and not nest.loops[i + 1].rvar
        ]
        if not pairs:
            return
        i = self.choices.pick(pairs)
        inner, outer = nest.loops[i], nest.loops[i + 1]
        name = self._fresh("t", False)
        self._emit(nest, f"fuse({inner.name}, {outer.name}, {name})")
        extent = None
        if inner.extent is not None and outer.extent is not None:
            extent = inner.extent * outer.extent
        nest.loops[i : i + 2] = [Loop(name, False, extent)]
        nest.loops[i].scale = max(inner.scale, outer.scale)
        nest.loops[i].final = inner.final or outer.final

    def _constant(self, nest: Nest, rvars: bool) -> list[Loop]:
        return [
            loop
            for loop in nest.loops
            if loop.kind == "serial"
            and loop.extent is not None
            and 1 < loop.extent <= 16
            and (rvars or not loop.rvar)
        ]

    def _vectorize(self, nest: Nest) -> None:
        loops = self._constant(nest, rvars=False)
        if not loops:
            return
        loop = self.choices.pick(loops)
        # Producers must not be computed inside a vectorized loop: make it the innermost.
        if nest.loops[0] is not loop and self.choices.chance(80):
            order = [loop] + [other for other in nest.loops if other is not loop]
            self._emit(nest, f"reorder({', '.join(other.name for other in order)})")
            nest.loops = order
        self._emit(nest, f"vectorize({loop.name})")
        loop.kind = "vectorized"
        self.vector_levels.add((nest.stage.name, loop.name))

    def _unroll(self, nest: Nest) -> None:
        loops = [loop for loop in self._constant(nest, rvars=True) if (loop.extent or 9) <= 5]
        if not loops:
            return
        loop = self.choices.pick(loops)
        self._emit(nest, f"unroll({loop.name})")
        loop.kind = "unrolled"

    def _parallel(self, nest: Nest) -> None:
        loops = [loop for loop in nest.loops if loop.kind == "serial" and not loop.rvar]
        inside_vector = (
            nest.loops
            and any(
                loop.kind == "vectorized" for loop in nest.loops[nest.loops.index(loops[-1]) + 1 :]
            )
            if loops
            else False
        )
        if not loops or inside_vector:
            return
        loop = loops[-1]
        self._emit(nest, f"parallel({loop.name})")
        loop.kind = "parallel"
        self.parallel_levels.add((nest.stage.name, loop.name))

    def _shorthand(self, nest: Nest) -> None:
        """vectorize(x, n) and the like, which split on the way and keep the name."""
        loops = [
            loop
            for loop in nest.loops
            if loop.kind == "serial" and not loop.rvar and not loop.final and loop.scale == 1
        ]
        if not loops or any(loop.kind == "vectorized" for loop in nest.loops):
            return
        loop = self.choices.pick(loops)
        factor = self.choices.pick((2, 4))
        tail = self._tail(nest, loop, factor)
        verb = self.choices.pick(("vectorize", "unroll"))
        if tail is None or (verb == "vectorize" and nest.loops[0] is not loop):
            return
        suffix = "" if tail == "Auto" else f", hl.TailStrategy.{tail}"
        self._emit(nest, f"{verb}({loop.name}, {factor}{suffix})")
        if loop.extent is not None:
            loop.extent = -(-loop.extent // factor)
        # The inner loop has no name to compute at, so the nest's levels stay as they are.
        loop.whole = None
        if verb == "vectorize":
            hidden = Loop(f"{loop.name}.hidden", False, factor)
            hidden.kind = "vectorized"
            nest.loops.insert(nest.loops.index(loop), hidden)
            self.vector_levels.add((nest.stage.name, hidden.name))

    def _atomic(self, nest: Nest) -> None:
        """Runs a reduction of integers in any order: parallel, or in vectors."""
        if any(v.kind[0] == "f" for v in nest.stage.values) or nest.definition == 0:
            return
        rvars = [loop for loop in nest.loops if loop.kind == "serial" and loop.rvar]
        if not rvars or any(loop.kind != "serial" for loop in nest.loops):
            return
        loop = self.choices.pick(rvars)
        if loop.extent is not None and nest.loops[0] is loop:
            self._emit(nest, f"atomic().vectorize({loop.name})")
            loop.kind = "vectorized"
            self.vector_levels.add((nest.stage.name, loop.name))
        else:
            self._emit(nest, f"atomic().parallel({loop.name})")
            loop.kind = "parallel"
            self.parallel_levels.add((nest.stage.name, loop.name))

    # Directives on whole Funcs.

    def _bound_output(self) -> None:
        program = self.algorithm.program
        d = self.choices.below(len(program.extents))
        name = COORDINATES[d]
        self._line(f"{self.output.name}.bound({name}, {program.mins[d]}, {program.extents[d]})")
        if program.extents[d] <= 16:
            for nest in self.nests[self.output]:
                i = nest.find(name)
                if i >= 0:
                    nest.loops[i].extent = program.extents[d]

    def _storage(self, stage: Stage) -> None:
        choices = self.choices
        if stage is self.output:
            return
        if stage.dims == 0:
            return
        if stage.dims > 1 and choices.chance(15):
            order = choices.shuffled(stage.vars)
            self._line(f"{stage.name}.reorder_storage({', '.join(order)})")
        if choices.chance(6):
            self._line(f"{stage.name}.align_storage({stage.vars[0]}, {choices.pick((8, 16))})")
        if self.algorithm.stored and choices.chance(40):
            self._line(f"{stage.name}.store_in(hl.MemoryType.Heap)")
        elif choices.chance(12):
            kind = choices.pick(("Heap", "Stack"))
            self._line(f"{stage.name}.store_in(hl.MemoryType.{kind})")

    def _rfactor(self, stage: Stage) -> bool:
        """Splits a reduction: partial results by one RVar, then their combination."""
        update = stage.rfactorable[0]
        nest = self.nests[stage][update + 1]
        rvars = stage.rvars[update]
        if len(rvars) < 2 or self._uses_in(stage, update + 1):
            return False
        u = self._fresh("u", False)
        name = f"{stage.name}_part"
        self._line(f"{name} = {nest.text}.rfactor({self.choices.pick(rvars)}, {u})")
        self._line(f"{name}.compute_root()")
        if self.choices.chance(50):
            self._line(f"{name}.update(0).parallel({u})")
        self.closed.add(stage)
        return True

    def _uses_in(self, stage: Stage, definition: int) -> bool:
        return any(d == definition and not c.is_input for d, c, _ in stage.uses)

    def _wrap(self, stage: Stage) -> None:
        """Reads a stage through a copy of it, made at root or where its reader runs."""
        users = [u for u, _ in self.users[stage] if u not in self.inlined and u not in self.closed]
        if not users or stage in self.closed or self.paths[stage]:
            return
        users = list(dict.fromkeys(users))
        choices = self.choices
        name = f"{stage.name}_copy"
        if choices.chance(30):
            self._line(f"{name} = {stage.name}.in_()")
        else:
            user = choices.pick(users)
            # A clone has the schedule of its original so far.
            plain = not any(nest.touched for nest in self.nests[stage])
            verb = "clone_in" if plain and not stage.rvars and choices.chance(40) else "in_"
            self._line(f"{name} = {stage.name}.{verb}({user.name})")
        self._line(f"{name}.compute_root()")
        if stage.dims and choices.chance(40):
            self._line(f"{name}.vectorize({stage.vars[0]}, 4)")
        self.closed.add(stage)

    def _specialize(self, stage: Stage) -> None:
        """A variant for one value of a parameter, its own loops on top of the common ones."""
        choices = self.choices
        nest = self.nests[stage][0]
        condition = f"p0 {choices.pick(('==', '>', '<='))} {choices.between(0, 5)}"
        loops = [loop for loop in nest.loops if loop.kind == "serial" and not loop.rvar]
        line = f"{stage.name}.specialize({condition})"
        if loops and choices.chance(60):
            line += f".unroll({choices.pick(loops).name}, 2, hl.TailStrategy.GuardWithIf)"
        self._line(line)
        self.closed.add(stage)

    def _pair_up(self) -> None:
        """compute_with for two roots that do not depend on each other and have plain loops."""
        pair = [s for s in self.algorithm.siblings if s in self.nests and s not in self.closed]
        if len(pair) < 2:
            return
        a, b = pair
        d = self.choices.below(a.dims)
        align = self.choices.pick(("", ", hl.LoopAlignStrategy.AlignStart"))
        if not all(self._call_sites(s) for s in pair):
            return
        # Producers computed in the loops of either would have to move.
        if all(path[0][0] not in (a.name, b.name) for path in self.paths.values() if path):
            self._line(f"{a.name}.compute_with({b.name}, {a.vars[d]}{align})")
