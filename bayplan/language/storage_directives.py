"""Directives on a whole Func: where it is computed and stored, its bounds and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from bayplan.ir.build import is_const, mod
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import MemoryType
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32
from bayplan.language import changes
from bayplan.language.expr import Expr as UserExpr
from bayplan.language.expr import as_node
from bayplan.language.function import Function
from bayplan.language.loop_level import level_of
from bayplan.language.loop_names import list_loops, name_matches, var_name
from bayplan.language.promotion import lossless_cast
from bayplan.language.rdom import as_range
from bayplan.language.schedule import Bound, FuncSchedule, LoopLevel, StorageDim


def _level(first: Any, var: Any) -> LoopLevel:
    """The level of (LoopLevel) or (Func, Var or RVar)."""
    if isinstance(first, LoopLevel):
        if var is not None:
            raise TypeError("a LoopLevel already says which loop: leave the second argument out")
        return first
    if var is None or not hasattr(first, "function"):
        raise TypeError("expected a LoopLevel, or a Func and one of its loops")
    return level_of(first.function(), var)


class StorageDirectives:
    """The directives that belong to a Func as a whole; each returns the Func."""

    __slots__ = ()

    def function(self) -> Function:
        """The data of the Func."""
        raise NotImplementedError

    def _schedule(self) -> FuncSchedule:
        changes.bump()
        schedule = self.function().schedule
        schedule.where = user_line()
        return schedule

    def _int32(self, value: Any, what: str) -> Expr:
        node = as_node(value)
        fitting = lossless_cast(INT32, node)
        if fitting is None:
            raise ScheduleError(
                f"in the schedule of {self.function().name}: the {what} is a {node.type}, which "
                "does not fit an int32"
            )
        return fitting

    def _maybe_int32(self, value: Any, what: str) -> Expr | None:
        if value is None or (isinstance(value, UserExpr) and not value.defined()):
            return None
        return self._int32(value, what)

    # Where.

    def compute_at(self, f: Any = None, var: Any = None, **named: Any) -> Self:
        """Compute it inside the loop `var` of `f` (or at a LoopLevel), as much as is used there."""
        first, var = _loop_arguments(f, var, named)
        self._schedule().compute_level = _level(first, var)
        return self

    def compute_root(self) -> Self:
        """Compute it before everything that uses it, all that is used."""
        self._schedule().compute_level = LoopLevel.root()
        return self

    def compute_inline(self) -> Self:
        """Compute it wherever it is used, the default."""
        self._schedule().compute_level = LoopLevel.inlined()
        return self

    def store_at(self, f: Any = None, var: Any = None, **named: Any) -> Self:
        """Keep its storage for a whole iteration of the loop `var` of `f` (or a LoopLevel)."""
        first, var = _loop_arguments(f, var, named)
        self._schedule().store_level = _level(first, var)
        return self

    def store_root(self) -> Self:
        """Keep its storage for the whole call."""
        self._schedule().store_level = LoopLevel.root()
        return self

    def hoist_storage(self, f: Any = None, var: Any = None, **named: Any) -> Self:
        """Allocate outside of the loop `var` of `f`, keeping no values between its iterations."""
        first, var = _loop_arguments(f, var, named)
        self._schedule().hoist_storage_level = _level(first, var)
        return self

    def hoist_storage_root(self) -> Self:
        """Allocate once for the whole call."""
        self._schedule().hoist_storage_level = LoopLevel.root()
        return self

    def store_in(self, memory_type: MemoryType) -> Self:
        """Ask for a kind of storage."""
        if not isinstance(memory_type, MemoryType):
            raise TypeError(f"expected a MemoryType, not {memory_type!r}")
        self._schedule().memory_type = memory_type
        return self

    def async_(self) -> Self:
        """Accepted; the Func is produced in the thread of its user, with the same values."""
        self._schedule()
        return self

    def ring_buffer(self, extent: Any) -> Self:
        """Accepted; without threads for `async_` one copy of the storage is enough."""
        self._int32(extent, "extent of the ring buffer")
        self._schedule()
        return self

    def memoize(self, eviction_key: Any = None) -> Self:
        """Accepted; the values are computed anew in each call."""
        self._schedule()
        return self

    # Bounds.

    def _pure_var(self, var: Any, purpose: str) -> str:
        name = var_name(var)
        func = self.function()
        if name not in func.args:
            raise ScheduleError(
                f"in the schedule of {func.name}: there is no {name} to {purpose}; its pure "
                f"variables: {', '.join(func.args) or 'none'}"
            )
        return name

    def bound(self, var: Any, min: Any, extent: Any) -> Self:
        """Promise the range of a Var, which a call then checks; `min` may be None."""
        low = self._maybe_int32(min, "min")
        size = self._int32(extent, "extent")
        name = self._pure_var(var, "bound")
        self._schedule().bounds.append(Bound(name, low, size, where=user_line()))
        known_low = low if low is not None and is_const(low) else None
        self._estimate(name, known_low, size if is_const(size) else None)
        return self

    def bound_extent(self, var: Any, extent: Any) -> Self:
        """Promise the extent of a Var."""
        return self.bound(var, None, extent)

    def align_bounds(self, var: Any, modulus: Any, remainder: Any = 0) -> Self:
        """Compute a range that starts at a multiple of `modulus` (plus remainder), and is one."""
        factor = self._int32(modulus, "modulus")
        rest = mod(self._int32(remainder, "remainder"), factor)
        name = self._pure_var(var, "align")
        self._schedule().bounds.append(Bound(name, None, None, factor, rest, user_line()))
        return self

    def align_extent(self, var: Any, modulus: Any) -> Self:
        """Compute a range whose extent is a multiple of `modulus`."""
        factor = self._int32(modulus, "modulus")
        name = self._pure_var(var, "align")
        self._schedule().bounds.append(Bound(name, None, None, factor, None, user_line()))
        return self

    def _estimate(self, name: str, low: Expr | None, size: Expr | None) -> None:
        func = self.function()
        func.schedule.estimates.append(Bound(name, low, size, where=user_line()))
        dim = func.args.index(name)
        for parameter in func.output_buffers:
            constraint = parameter.constraints[dim]
            if low is not None:
                constraint.min_estimate = low
            if size is not None:
                constraint.extent_estimate = size

    def set_estimate(self, var: Any, min: Any, extent: Any) -> Self:
        """Say what range a Var usually has."""
        self._estimate(
            self._pure_var(var, "estimate"),
            self._maybe_int32(min, "min"),
            self._maybe_int32(extent, "extent"),
        )
        return self

    def set_estimates(self, estimates: Sequence[Any]) -> Self:
        """Say what range each dimension usually has: a list of (min, extent)."""
        func = self.function()
        if len(estimates) != len(func.args):
            raise ScheduleError(
                f"{len(estimates)} estimates were given for {func.name}, which has "
                f"{len(func.args)} dimensions"
            )
        for name, bounds in zip(func.args, estimates, strict=True):
            low, size = as_range(bounds)
            self._estimate(name, self._maybe_int32(low, "min"), self._maybe_int32(size, "extent"))
        return self

    # Layout.

    def _storage_dim(self, var: Any, purpose: str) -> StorageDim:
        name = var_name(var)
        schedule = self._schedule()
        for dim in schedule.storage_dims:
            if name_matches(dim.var, name):
                dim.where = user_line()
                return dim
        raise ScheduleError(
            f"in the schedule of {self.function().name}: there is no {name} to {purpose}"
            + list_loops(schedule.storage_dims).replace("loops", "dimensions")
        )

    def reorder_storage(self, *dims: Any) -> Self:
        """Lay the dimensions out in this order, innermost first."""
        vs = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], list | tuple) else list(dims)
        if len(vs) < 2:
            raise ScheduleError("reorder_storage needs at least two dimensions")
        found = [self._storage_dim(v, "reorder") for v in vs]
        for i, dim in enumerate(found):
            if any(dim is other for other in found[:i]):
                raise ScheduleError(
                    f"in the schedule of {self.function().name}: reorder_storage names "
                    f"{dim.var} twice"
                )
        order = self._schedule().storage_dims
        places = sorted([order.index(dim) for dim in found])
        for place, dim in zip(places, found, strict=True):
            order[place] = dim
        return self

    def align_storage(self, dim: Any, alignment: Any) -> Self:
        """Pad the extent of a dimension in storage to a multiple."""
        self._storage_dim(dim, "align").alignment = self._int32(alignment, "alignment")
        return self

    def bound_storage(self, dim: Any, bound: Any) -> Self:
        """Promise that storage of a dimension never needs a larger extent."""
        self._storage_dim(dim, "bound").bound = self._int32(bound, "bound")
        return self

    def fold_storage(self, dim: Any, extent: Any, fold_forward: bool = True) -> Self:
        """Keep `extent` elements of a dimension, coordinates modulo `extent` sharing one."""
        found = self._storage_dim(dim, "fold")
        found.fold_factor = self._int32(extent, "factor")
        found.fold_forward = fold_forward
        return self


def _loop_arguments(f: Any, var: Any, named: dict[str, Any]) -> tuple[Any, Any]:
    f = named.pop("loop_level", f)
    var = named.pop("rvar", var)
    if named:
        raise TypeError(f"unexpected keyword argument {next(iter(named))!r}")
    return f, var
