"""The data of a schedule: what directives record and lowering reads.

Plain records without behaviour beyond copying. The directives that fill them, with their checks,
are in `language/stage.py` and `language/func.py`.
"""

from __future__ import annotations

from enum import Enum

from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.source import SourceLine
from bayplan.language.target_names import DeviceAPI


class TailStrategy(Enum):
    """What a split does where the factor does not divide the extent."""

    RoundUp = "round_up"
    GuardWithIf = "guard_with_if"
    Predicate = "predicate"
    PredicateLoads = "predicate_loads"
    PredicateStores = "predicate_stores"
    ShiftInwards = "shift_inwards"
    ShiftInwardsAndBlend = "shift_inwards_and_blend"
    RoundUpAndBlend = "round_up_and_blend"
    Auto = "auto"


class LoopAlignStrategy(Enum):
    """How the loops of stages that are computed together are aligned."""

    AlignStart = "align_start"
    AlignEnd = "align_end"
    NoAlign = "no_align"
    Auto = "auto"


class PrefetchBoundStrategy(Enum):
    """What a prefetch does at the border of what exists."""

    Clamp = "clamp"
    GuardWithIf = "guard_with_if"
    NonFaulting = "non_faulting"


class DimType(Enum):
    """Whether iterations of a loop may be reordered."""

    PureVar = "pure_var"
    PureRVar = "pure_rvar"
    ImpureRVar = "impure_rvar"


class Dim:
    """One loop of a stage; `StageSchedule.dims` lists them innermost first.

    `var` is the full name: "x", or "x.xi" for the part xi of a split of x, or "r$x" for an RVar.
    The last is always the marker dimension "__outermost" (serial, extent 1). `device` is where a
    loop of a kernel runs, None_ for the loops of the host.
    """

    __slots__ = ("var", "kind", "dim_type", "partition", "where", "device")

    def __init__(
        self,
        var: str,
        kind: ForKind = ForKind.Serial,
        dim_type: DimType = DimType.PureVar,
        partition: Partition = Partition.Auto,
        where: SourceLine | None = None,
        device: DeviceAPI = DeviceAPI.None_,
    ) -> None:
        self.var = var
        self.kind = kind
        self.dim_type = dim_type
        self.partition = partition
        self.where = where
        self.device = device

    def copy(self) -> Dim:
        """An independent record with the same values."""
        return Dim(self.var, self.kind, self.dim_type, self.partition, self.where, self.device)

    def is_rvar(self) -> bool:
        """Whether the loop runs over a reduction variable."""
        return self.dim_type is not DimType.PureVar


OUTERMOST = "__outermost"


class SplitKind(Enum):
    """The four ways in which loop names arise from others."""

    Split = "split"
    Rename = "rename"
    Fuse = "fuse"
    Purify = "purify"


class Split:
    """One directive that makes loops out of loops, in the order written.

    Split: old -> outer, inner by `factor` with `tail`; `exact`: the inner loop may not be moved
    (RVars). Fuse: outer, inner -> old. Rename and Purify (RVar to Var, by rfactor): old -> outer.
    """

    __slots__ = ("old", "outer", "inner", "factor", "exact", "tail", "kind", "where")

    def __init__(
        self,
        old: str,
        outer: str,
        inner: str,
        factor: Expr | None,
        exact: bool,
        tail: TailStrategy,
        kind: SplitKind,
        where: SourceLine | None = None,
    ) -> None:
        self.old = old
        self.outer = outer
        self.inner = inner
        self.factor = factor
        self.exact = exact
        self.tail = tail
        self.kind = kind
        self.where = where

    def copy(self) -> Split:
        """An independent record with the same values."""
        return Split(
            self.old,
            self.outer,
            self.inner,
            self.factor,
            self.exact,
            self.tail,
            self.kind,
            self.where,
        )


class ReductionVariable:
    """One dimension of a reduction domain: var in [min, min + extent)."""

    __slots__ = ("var", "min", "extent")

    def __init__(self, var: str, min: Expr, extent: Expr) -> None:
        self.var = var
        self.min = min
        self.extent = extent


class LoopLevel:
    """A place in a loop nest: inlined, root, or inside the loop `var` of a stage of a Func.

    Mutable, as in Halide: a level given to directives may be set later (`set`), until lowering
    locks it.

    Attributes:
        func: name of the Func, "" for inlined, "__root" for root; None while not set.
        stage: 0 for the pure definition, n for update n - 1; -1 when not said.
        var: name of the loop variable as the user named it.
    """

    __slots__ = ("func", "stage", "var", "is_rvar", "locked")

    def __init__(
        self,
        func: str | None = None,
        var: str = "",
        stage: int = -1,
        is_rvar: bool = False,
    ) -> None:
        self.func = func
        self.var = var
        self.stage = stage
        self.is_rvar = is_rvar
        self.locked = False

    @staticmethod
    def inlined() -> LoopLevel:
        """The level of a Func that is computed wherever it is used."""
        return LoopLevel("", "")

    @staticmethod
    def root() -> LoopLevel:
        """The level outside of all loops."""
        return LoopLevel("__root", "__root")

    @staticmethod
    def at(func: str, var: str, stage: int = -1, is_rvar: bool = False) -> LoopLevel:
        """The level inside the loop `var` of `func`."""
        return LoopLevel(func, var, stage, is_rvar)

    def defined(self) -> bool:
        """Whether the level was set."""
        return self.func is not None

    def is_inlined(self) -> bool:
        """Whether this means inlined."""
        return self.func == ""

    def is_root(self) -> bool:
        """Whether this means outside of all loops."""
        return self.func == "__root"

    def set(self, other: LoopLevel) -> None:
        """Take over another level, for every directive that was given this one."""
        if self.locked:
            raise AssertionError("a LoopLevel cannot be set once the pipeline was lowered")
        self.func = other.func
        self.var = other.var
        self.stage = other.stage
        self.is_rvar = other.is_rvar

    def copy(self) -> LoopLevel:
        """An independent level with the same place."""
        return LoopLevel(self.func, self.var, self.stage, self.is_rvar)

    def match(self, loop: str) -> bool:
        """Whether the lowered loop name ("f.s0.x.xi") is this level's loop."""
        if not self.func:
            return False
        if self.is_root():
            return loop.endswith("." + "__root") or loop == "__root"
        prefix = f"{self.func}.s{self.stage}." if self.stage >= 0 else f"{self.func}.s"
        return loop.startswith(prefix) and loop.endswith("." + self.var)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LoopLevel)
            and self.func == other.func
            and self.var == other.var
            and (self.stage == other.stage or -1 in (self.stage, other.stage))
        )

    def __hash__(self) -> int:
        return hash((self.func, self.var))

    def __str__(self) -> str:
        if self.func is None:
            return "(not set)"
        if self.is_inlined():
            return "inlined"
        if self.is_root():
            return "root"
        return f"{self.func}.{self.var}"


class StorageDim:
    """One dimension of a Func's storage; `FuncSchedule.storage_dims` lists them innermost first."""

    __slots__ = ("var", "alignment", "bound", "fold_factor", "fold_forward", "where")

    def __init__(self, var: str) -> None:
        self.var = var
        self.alignment: Expr | None = None
        self.bound: Expr | None = None
        self.fold_factor: Expr | None = None
        self.fold_forward = True
        self.where: SourceLine | None = None

    def copy(self) -> StorageDim:
        """An independent record with the same values."""
        other = StorageDim(self.var)
        other.alignment = self.alignment
        other.bound = self.bound
        other.fold_factor = self.fold_factor
        other.fold_forward = self.fold_forward
        other.where = self.where
        return other


class Bound:
    """A promise or wish about the range of a Var of a Func.

    `bound` and `bound_extent` give min (or None) and extent; `align_bounds` gives modulus and
    remainder; `align_extent` gives modulus alone.
    """

    __slots__ = ("var", "min", "extent", "modulus", "remainder", "where")

    def __init__(
        self,
        var: str,
        min: Expr | None,
        extent: Expr | None,
        modulus: Expr | None = None,
        remainder: Expr | None = None,
        where: SourceLine | None = None,
    ) -> None:
        self.var = var
        self.min = min
        self.extent = extent
        self.modulus = modulus
        self.remainder = remainder
        self.where = where


class PrefetchDirective:
    """Fetch what `name` (a Func or a buffer) needs `offset` iterations of `at`/`from_var` ahead."""

    __slots__ = ("name", "at", "from_var", "offset", "strategy", "source", "where")

    def __init__(
        self,
        name: str,
        at: str,
        from_var: str,
        offset: Expr,
        strategy: PrefetchBoundStrategy,
        source: object,
        where: SourceLine | None,
    ) -> None:
        self.name = name
        self.at = at
        self.from_var = from_var
        self.offset = offset
        self.strategy = strategy
        self.source = source
        self.where = where


class FusedPair:
    """Stage (func_2, stage_2) is computed with stage (func_1, stage_1) from the loop `var` out."""

    __slots__ = ("func_1", "func_2", "stage_1", "stage_2", "var")

    def __init__(self, func_1: str, stage_1: int, func_2: str, stage_2: int, var: str) -> None:
        self.func_1 = func_1
        self.func_2 = func_2
        self.stage_1 = stage_1
        self.stage_2 = stage_2
        self.var = var


class StageSchedule:
    """How the loops of one definition (pure or update) run."""

    __slots__ = (
        "rvars",
        "splits",
        "dims",
        "prefetches",
        "fuse_level",
        "fuse_align",
        "fused_pairs",
        "touched",
        "allow_race_conditions",
        "atomic",
        "override_atomic_associativity_test",
    )

    def __init__(self) -> None:
        self.rvars: list[ReductionVariable] = []
        self.splits: list[Split] = []
        self.dims: list[Dim] = []
        self.prefetches: list[PrefetchDirective] = []
        # compute_with: the loop of the other stage, and per variable how the loops align.
        self.fuse_level = LoopLevel.inlined()
        self.fuse_align: dict[str, LoopAlignStrategy] = {}
        self.fused_pairs: list[FusedPair] = []
        self.touched = False
        self.allow_race_conditions = False
        self.atomic = False
        self.override_atomic_associativity_test = False

    def copy(self) -> StageSchedule:
        """An independent record with the same values."""
        other = StageSchedule()
        other.rvars = list(self.rvars)
        other.splits = [s.copy() for s in self.splits]
        other.dims = [d.copy() for d in self.dims]
        other.prefetches = list(self.prefetches)
        other.fuse_level = self.fuse_level.copy()
        other.fuse_align = dict(self.fuse_align)
        other.fused_pairs = list(self.fused_pairs)
        other.touched = self.touched
        other.allow_race_conditions = self.allow_race_conditions
        other.atomic = self.atomic
        other.override_atomic_associativity_test = self.override_atomic_associativity_test
        return other


class FuncSchedule:
    """Where a Func is computed and stored, and how its storage is laid out."""

    __slots__ = (
        "compute_level",
        "store_level",
        "hoist_storage_level",
        "storage_dims",
        "bounds",
        "estimates",
        "wrappers",
        "memory_type",
        "where",
    )

    def __init__(self) -> None:
        self.compute_level = LoopLevel.inlined()
        self.store_level = LoopLevel.inlined()
        self.hoist_storage_level = LoopLevel.inlined()
        self.storage_dims: list[StorageDim] = []
        self.bounds: list[Bound] = []
        self.estimates: list[Bound] = []
        # in_ and clone_in: name of the user Func ("" for all) -> the wrapping Function.
        self.wrappers: dict[str, object] = {}
        self.memory_type = MemoryType.Auto
        # Line of the last compute_/store_ directive, for messages.
        self.where: SourceLine | None = None

    def copy(self) -> FuncSchedule:
        """An independent record with the same values (levels that are unset stay shared)."""
        other = FuncSchedule()
        other.compute_level = self.compute_level.copy()
        other.store_level = self.store_level.copy()
        other.hoist_storage_level = self.hoist_storage_level.copy()
        other.storage_dims = [d.copy() for d in self.storage_dims]
        other.bounds = list(self.bounds)
        other.estimates = list(self.estimates)
        other.wrappers = dict(self.wrappers)
        other.memory_type = self.memory_type
        other.where = self.where
        return other
