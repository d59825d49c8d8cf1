"""The list of passes, in order: from Funcs and schedules to the program that targets emit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from bayplan import settings
from bayplan.ir.errors import InternalError
from bayplan.ir.stmts import Allocate, Stmt
from bayplan.ir.walk import iterate
from bayplan.language.function import Function
from bayplan.lower.context import Lowering
from bayplan.lower.lower_callees import Callees, lower_callees, unplanned_in_callees
from bayplan.lower.names import func_of_storage
from bayplan.lower.program import Argument, LoweredProgram, Origin
from bayplan.storage.kernels import kernels_in

Pass = Callable[[Stmt, Lowering], Stmt]

# Each line names a module of this package and the function of the same name in it. A name may
# stand more than once.
BEFORE_READABLE: Final = (
    # Order: on the loops as the user wrote them.
    "check_gpu_loops",
    # Order: first, as what is not a parameter nor an element read ahead moves with a loop.
    "read_ahead",
    # Order: before add_parameter_checks, whose ranges hold for the conditions too.
    "add_requirements",
    # Order: ahead of all analyses, so that bounds know the ranges of parameters.
    "add_parameter_checks",
    # Order: on the loops as scheduled, where each use stands at its coordinates.
    "check_aliases",
    "find_func_bounds",
    "clamp_unsafe_accesses",
    # Order: names are defined again further in from here until uniquify_names.
    "infer_bounds",
    # Order: right after infer_bounds, in the scope of the names that it defines.
    "call_extern_stages",
    "add_factor_checks",
    # Order: needs the regions as infer_bounds defines them, loop by loop.
    "slide_windows",
    "uniquify_names",
    "simplify_program",
    # Order: names are unique, equal values are equal nodes.
    "merge_equal_lets",
    # Order: after slide, which shrinks what is touched; before fold_storage, which needs the sizes.
    "infer_allocation_bounds",
    # Order: after all that changes what is touched of inputs and outputs.
    "add_image_checks",
    # Order: after the checks, which prove that indices stay inside.
    "embed_tables",
    # Order: the arguments were collected, by their sources, before add_image_checks.
    "drop_buffer_sources",
    "remove_undef",
    "fold_storage",
    # Order: after fold_storage, so that what is fetched is what is stored.
    "inject_prefetch",
    # Order: promises have served bounds analysis; folding and prefetching were the last to ask.
    "drop_promises",
    "skip_stages",
    "split_tuples",
    # Order: before flatten_storage, so that strides become constants too.
    "bound_small_allocations",
    "flatten_storage",
    # Order: on flat allocations, whose sizes it bounds over the loops that they leave.
    "hoist_storage",
    "simplify_program",
    # Order: bounds are found; as scalars, which vectorize_loops then widens.
    "find_intrinsics",
    "bound_loop_extents",
    "unroll_loops",
    "vectorize_loops",
    # Order: what is left of atomic updates once lanes are reduced.
    "lower_atomics",
    "simplify_program",
    # Order: quotients of ramps are simplified; before parts of vectors get names.
    "rewrite_interleavings",
    # Order: where no pass makes more checks inside of loops.
    "hoist_kernel_checks",
    # Order: on loops over lanes as scheduled, unrolled, simplified; before normalize_kernels, which
    # makes room for all warps.
    "lower_warp_shuffles",
    # Order: all loops that are left run; before partition_loops, which leaves kernels alone.
    "normalize_kernels",
    "partition_loops",
    # Order: sizes are final, so that strides which are equal become one name: cheaper, and seen
    # to be the same by plan_storage; before simplify_program, which then orders terms alike.
    "merge_equal_lets",
    "simplify_program",
    "trim_no_ops",
    # Order: on simplified indices; before all that reads indices of kernels.
    "shorten_kernel_indices",
    "choose_storage",
    # Order: as choose_storage, which leaves kernels alone; before hoist_invariants, which could
    # take lets that sizes follow from to other places.
    "place_kernel_storage",
    "hoist_invariants",
    # Order: after all that may drop a last use.
    "remove_dead_allocations",
    "free_early",
    # Order: after free_early, as a copy must not be longer alive than what it copies.
    "place_device_memory",
    # Order: after free_early; before plan_storage, which shares out what launches ask for.
    "plan_kernels",
    # Order: sizes are decided by, and not yet planned with.
    "guard_temporaries",
    # Order: after free_early; nothing behind it moves or drops an allocation.
    "plan_storage",
    "share_stack",
    # Order: after all plans, as hazards are those of the bytes that temporaries share.
    "insert_barriers",
    # Order: the sizes of temporaries stand outside of loops now, where they are checked.
    "add_size_checks",
)
AFTER_READABLE: Final = (
    "eliminate_common_subexpressions",
    # Order: last, so that nothing is moved across the marks.
    "mark_lives",
)

# Left out, and not imported, where no loop is one over blocks.
FOR_KERNELS: Final = frozenset(
    (
        "hoist_kernel_checks",
        "lower_warp_shuffles",
        "normalize_kernels",
        "shorten_kernel_indices",
        "place_kernel_storage",
        "plan_kernels",
        "insert_barriers",
    )
)

# What ir.verify may demand of the statement after a pass.
_STAGE_AFTER: Final = {
    "flatten_storage": "flattened",
    "unroll_loops": "unrolled",
    "vectorize_loops": "vectorized",
    "normalize_kernels": "kernels",
}


def lower(
    functions: Sequence[Function],
    target: Any,
    name: str,
    *,
    keep_stages: bool = False,
    embed: bool = False,
    callees: Callees | None = None,
) -> LoweredProgram:
    """Lowers a pipeline for the driver; to be called within `ir.node.compilation()`.

    Args:
        functions: the outputs, in order.
        target: the `Target` that code is made for.
        name: of the entry point.
        keep_stages: keep the statement after each pass in `stages`.
        embed: make Buffers of the algorithm constant tables of the program, not arguments.
        callees: those lowered so far, where this pipeline is called by another one.

    Raises:
        BayplanError: The algorithm or its schedule is at fault.
    """
    run = _Run(keep_stages)
    callees = Callees() if callees is None else callees
    callees.enter(functions)
    lowering = run.timed("prepare", lambda: prepare(functions, target, callees, embed))
    stmt = run.timed("schedule_functions", lambda: schedule(lowering))
    run.keep("schedule_functions", stmt)
    left_out = FOR_KERNELS if next(kernels_in(stmt), None) is None else frozenset()
    for pass_name in BEFORE_READABLE:
        if pass_name in left_out:
            continue
        if pass_name == "add_image_checks":
            arguments = collect_arguments(stmt, lowering)
            check_names(stmt, arguments, lowering)
            run.arguments = [a.name for a in arguments]
        stmt = run.one(pass_name, stmt, lowering)
    readable = stmt
    for pass_name in AFTER_READABLE:
        stmt = run.one(pass_name, stmt, lowering)
    tables = lowering.tables or []
    embedded = {id(table.buffer) for table in tables}
    arguments = [a for a in arguments if id(a.source) not in embedded]
    program = LoweredProgram(name, target, arguments, stmt, readable, _find_origins(stmt, lowering))
    program.tables = tables
    program.stages = run.stages
    program.timings = run.timings
    program.warnings = lowering.warnings
    program.plan = lowering.plan
    program.kinds = lowering.kinds
    program.callees = callees.order
    if program.plan is not None:
        program.plan.unplanned += unplanned_in_callees(lowering)
    program.regions = lowering.regions or {}
    program.read_ahead = lowering.read_ahead
    callees.leave()
    return program


def prepare(
    functions: Sequence[Function], target: Any, callees: Callees | None = None, embed: bool = False
) -> Lowering:
    """Copies the Funcs of a pipeline, applies wrappers, orders them, and lowers what they call."""
    from bayplan.lower.apply_wrappers import apply_wrappers
    from bayplan.lower.build_environment import build_environment
    from bayplan.lower.find_realization_order import find_realization_order
    from bayplan.lower.simplify_definitions import simplify_definitions
    from bayplan.lower.simplify_specializations import simplify_specializations

    env = build_environment(functions)
    # Order: before the order is found, as wrappers change who calls whom; before definitions are
    # simplified, which may take away the use that a wrapper was made for.
    apply_wrappers(env)
    simplify_definitions(env)
    lowering = Lowering([f.name for f in functions], env, target)
    lowering.order, lowering.fused_groups = find_realization_order(lowering.outputs, env)
    simplify_specializations(env)
    lowering.tables = [] if embed else None
    callees = Callees() if callees is None else callees
    lowering.regions = {} if callees.is_called() else None
    lower_callees(lowering, callees, embed)
    return lowering


def schedule(lowering: Lowering) -> Stmt:
    """The initial loop nests."""
    from bayplan.lower.schedule_functions import schedule_functions

    return schedule_functions(lowering)


def collect_arguments(stmt: Stmt, lowering: Lowering) -> list[Argument]:
    """The arguments of the entry point."""
    from bayplan.lower.collect_arguments import collect_arguments

    return collect_arguments(stmt, lowering)


def check_names(stmt: Stmt, arguments: list[Argument], lowering: Lowering) -> None:
    """Refuses names that mean two things."""
    from bayplan.lower.check_names import check_names

    check_names(stmt, arguments, lowering)


def load_pass(name: str) -> Pass:
    """The pass of that name; its module is imported at its first use."""
    found: Pass = getattr(import_module(f"bayplan.lower.{name}"), name)
    return found


class _Run:
    """One run of the passes: times them, keeps statements, verifies under the debug setting."""

    def __init__(self, keep_stages: bool) -> None:
        self.stages: list[tuple[str, Stmt]] = []
        self.timings: list[tuple[str, float]] = []
        self._keep_stages = keep_stages
        self._verify = bool(settings.value("VERIFY"))
        self._dump_dir = settings.value("DUMP_DIR")
        self._dumped = 0
        self._stage = "scheduled"
        # Names from outside, once they are known.
        self.arguments: list[str] | None = None

    def timed(self, name: str, action: Callable[[], Any]) -> Any:
        """What the action gives; its time is noted."""
        start = time.perf_counter()
        result = action()
        self.timings.append((name, time.perf_counter() - start))
        return result

    def keep(self, name: str, stmt: Stmt) -> None:
        """Keep the statement after a pass, and write it to the dump folder, if asked to."""
        if self._dump_dir:
            self._dump(name, stmt)
        if self._keep_stages:
            self.stages.append((name, stmt))

    def _dump(self, name: str, stmt: Stmt) -> None:
        from pathlib import Path

        from bayplan.ir.printer import print_node

        folder = Path(self._dump_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._dumped:02}_{name}.stmt"
        path.write_text(print_node(stmt), encoding="utf-8")
        self._dumped += 1

    def one(self, name: str, stmt: Stmt, lowering: Lowering) -> Stmt:
        """The statement after a pass."""
        result: Stmt = self.timed(name, lambda: load_pass(name)(stmt, lowering))
        self.keep(name, result)
        self._stage = _STAGE_AFTER.get(name, self._stage)
        if self._verify:
            self._check(name, result)
        return result

    def _check(self, name: str, stmt: Stmt) -> None:
        from bayplan.ir.verify import verify

        try:
            verify(stmt, self._stage, self.arguments)
        except InternalError as error:
            raise InternalError(f"after {name}: {error.message}") from error
        if name == "share_stack":
            from bayplan.storage.check import check_storage

            check_storage(stmt)
        if name == "insert_barriers":
            from bayplan.storage.check_races import check_races

            check_races(stmt)


def _find_origins(stmt: Stmt, lowering: Lowering) -> dict[str, Origin]:
    """The Func and the user's line of each temporary and output."""
    origins = {name: Origin(name, lowering.where(name)) for name in lowering.outputs}
    for node in iterate(stmt):
        if type(node) is Allocate:
            func = func_of_storage(node.name, lowering)
            origins[node.name] = Origin(func, lowering.where(func))
    return origins
