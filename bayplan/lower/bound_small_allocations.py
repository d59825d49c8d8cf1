"""Gives temporaries that are to live in registers or on the stack a constant size."""

from __future__ import annotations

from bayplan.analysis.bounds import find_constant_bound
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.stmts import For, Realize, Stmt
from bayplan.ir.walk import iterate
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering
from bayplan.lower.scoped import ScopedRewriter, strip_likely

_SMALL_AUTO_BYTES = 1024
_OF_THREAD_BYTES = 4096
"""The same inside a thread of a GPU, where only an array of constant size is the thread's own."""
_CONSTANT_KINDS = (MemoryType.Register, MemoryType.Stack, MemoryType.GPUShared)


def bound_small_allocations(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which extents of small temporaries are constants where a bound is known.

    Temporaries asked to be in registers, on the stack or in shared memory take any constant
    bound; those of kind Auto only if the whole stays small, as the bound may be more than needed.
    Inside threads of a GPU small is larger.

    Order: before flatten_storage, so that the strides become constants too.
    """
    return _BoundSmall(lowering)(stmt)  # type: ignore[no-any-return]


class _BoundSmall(ScopedRewriter):
    _in_thread = False

    def rewrite_For(self, node: For) -> Stmt:
        saved = self._in_thread
        self._in_thread = saved or node.kind in (ForKind.GPUThread, ForKind.GPULane)
        result = super().rewrite_For(node)
        self._in_thread = saved
        return result

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        bounds = node.bounds
        if node.memory_type in (*_CONSTANT_KINDS, MemoryType.Auto):
            bounds = self._constant_bounds(node)
        if body is node.body and bounds is node.bounds:
            return node
        return Realize(node.name, node.types, node.memory_type, bounds, node.condition, body)

    def _constant_bounds(self, node: Realize) -> tuple[tuple[Expr, Expr], ...]:
        extents: list[Expr] = []
        total = sum([t.bytes() for t in node.types])
        for _, extent in node.bounds:
            found: Expr | None = extent
            if build.constant_value(extent) is None:
                found = self._upper_bound(extent)
            if found is None:
                return node.bounds
            extents.append(found)
            total *= int(build.constant_value(found) or 0)
        most = _OF_THREAD_BYTES if self._in_thread else _SMALL_AUTO_BYTES
        if node.memory_type is MemoryType.Auto and total > most:
            return node.bounds
        if extents == [extent for _, extent in node.bounds]:
            return node.bounds
        return tuple([(low, e) for (low, _), e in zip(node.bounds, extents, strict=True)])

    def _upper_bound(self, extent: Expr) -> Expr | None:
        expanded = simplify(strip_likely(self.expand(extent)), self.facts())
        if build.constant_value(expanded) is not None:
            return expanded
        return find_constant_bound(expanded, "upper", {**_promised_ranges(expanded), **self.loops})


def _promised_ranges(e: Expr) -> dict[str, Interval]:
    """The ranges of the parameters in an expression, which were checked before."""
    ranges: dict[str, Interval] = {}
    for node in iterate(e):
        if type(node) is Variable and isinstance(node.source, Parameter):
            p = node.source
            if not p.is_buffer and (p.min_value is not None or p.max_value is not None):
                ranges[node.name] = Interval(p.min_value, p.max_value)
    return ranges
