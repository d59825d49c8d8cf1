"""Checks the buffers of a call before anything runs, and answers how large they must be.

The statement gets a prologue, in this order of execution:
1. required regions, found from what the program touches of each buffer;
2. proposed regions: the required ones passed through the user's constraints;
3. if a buffer came without memory (a bounds query): write the proposed regions and return;
4. constraints, regions, extents, overlaps, null pointers: each with an error of its own.
Type and rank of a buffer are checked by the entry point itself, which must know them to read the
buffer at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bayplan.analysis.bounds import boxes_required, boxes_touched
from bayplan.analysis.box import Box, merge_boxes
from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    block,
    conjunction,
    const,
    eq,
    ge,
    int32,
    is_const,
    le,
    logical_not,
    logical_or,
    ne,
    select,
    true,
    var,
)
from bayplan.ir.errors import (
    AliasError,
    BoundsError,
    BufferError,
    ConstraintError,
    DefinitionError,
    ErrorSite,
)
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm, Variable
from bayplan.ir.node import Node
from bayplan.ir.stmts import AssertStmt, Evaluate, IfThenElse, LetStmt, Stmt
from bayplan.ir.types import BOOL, INT32, UINT64
from bayplan.ir.walk import free_variables, iterate, substitute
from bayplan.language.parameter import Parameter
from bayplan.lower.collect_arguments import collect_arguments
from bayplan.lower.context import Lowering
from bayplan.lower.program import Argument
from bayplan.lower.wide import Widen, fits


def add_image_checks(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Puts the prologue of checks under the outermost lets of the statement.

    Order: after bounds inference, whose outermost lets the required regions may speak of; before
    flattening, because constraints such as "stride of dimension 0 is 1" replace the buffer's
    fields in the rest of the program.
    """
    lets: list[tuple[str, Expr]] = []
    body = stmt
    while type(body) is LetStmt:
        lets.append((body.name, body.value))
        body = body.body
    buffers = [a for a in collect_arguments(stmt, lowering) if a.is_buffer()]
    boxes = boxes_touched(body, {}, lowering.func_bounds)
    if lowering.read_ahead:
        boxes = merge_boxes(boxes, boxes_required([one.call for one in lowering.read_ahead]))
        # Before all else, as anything may depend on them.
        lets = [*[(one.name, one.value()) for one in lowering.read_ahead], *lets]
    checks = _Checks(lowering, buffers, boxes, dict(lets))
    body = checks.wrap(body)
    if lowering.regions is not None:
        _note_regions(lowering, checks, lets)
    ahead = {one.name for one in lowering.read_ahead}
    for name, value in reversed(lets):
        # The guard of an element asks what the buffer really is.
        kept = value if name in ahead else substitute(checks.replaced, value)
        body = LetStmt(name, kept, body)
    return body


def _note_regions(
    lowering: Lowering, checks: _Checks, lets: list[tuple[str, Expr]]
) -> None:
    """Notes what a call needs of each buffer, where that can be said by its arguments alone."""
    found: dict[tuple[str, int], tuple[Expr, Expr]] = {}
    required = dict(checks.required)
    for argument in checks.buffers:
        for d in range(argument.dimensions):
            ends = []
            for field in ("min", "extent"):
                e = required[f"{argument.name}.{field}.{d}.required"]
                for name, value in reversed(lets):
                    e = substitute({name: value}, e)
                    if sum([1 for _ in iterate(e)]) > _MOST_NODES:
                        return
                if not is_pure(e) or reads_memory(e):
                    return
                ends.append(simplify(e))
            found[argument.name, d] = (ends[0], ends[1])
    assert lowering.regions is not None
    lowering.regions.update(found)


_MOST_NODES: Final = 400
"""Beyond so many nodes a region is found at run time rather than by one expression."""

_HOST_TYPES: Final = {
    "buffers_overlap": BOOL,
    "buffers_coincide": BOOL,
    "buffer_is_bounds_query": BOOL,
    "buffer_host_is_null": BOOL,
    "buffer_host_address": UINT64,
}


def _host_call(name: str, *args: Expr) -> Call:
    return Call(_HOST_TYPES.get(name, INT32), name, args, CallKind.INTRINSIC)


def _title(argument: Argument, inside: bool = False) -> str:
    kind = "Output" if argument.kind == "output_buffer" else "Input"
    return f"{kind.lower() if inside else kind} buffer {argument.name}"


class _Checks:
    """Builds the prologue; `replaced` are the fields that constraints make something simpler."""

    def __init__(
        self,
        lowering: Lowering,
        buffers: list[Argument],
        boxes: dict[str, Box],
        lets: Mapping[str, Expr],
    ) -> None:
        self.lowering = lowering
        self.lets = lets
        self.widen = Widen()
        self.grown = {one.name for one in lowering.read_ahead}
        self.buffers = buffers
        self.boxes = boxes
        self.replaced: dict[str, Expr] = {}
        self.required: list[tuple[str, Expr]] = []
        self.proposed: list[tuple[str, Expr]] = []
        self.asserts_unknown: list[Stmt] = []
        self.asserts_proposed: list[Stmt] = []
        self.asserts_constrained: list[Stmt] = []
        self.asserts_required: list[Stmt] = []
        self.asserts_memory: list[Stmt] = []
        self.rewrites: list[Stmt] = []
        self.queries: list[Expr] = []

    def wrap(self, body: Stmt) -> Stmt:
        """The statement with the prologue before it."""
        for argument in self.buffers:
            self._replace_fields(argument)
        body = substitute(self.replaced, body)
        for argument in self.buffers:
            self._check_buffer(argument)
        self._check_overlaps()
        query = logical_or_all(self.queries)
        leave = Evaluate(_host_call("return_from_call"))
        asserts = [*self.asserts_unknown, *self.asserts_proposed]
        answer = IfThenElse(query, block([*asserts, *self.rewrites, leave]))
        result = block(
            [
                answer,
                *self.asserts_constrained,
                *self.asserts_required,
                *self.asserts_memory,
                body,
            ]
        )
        for name, value in reversed(self.proposed):
            result = LetStmt(name, value, result)
        for name, value in reversed(self.required):
            result = LetStmt(name, value, result)
        return result

    def _box_name(self, argument: Argument) -> str:
        # The parts of a Tuple-valued output are touched together, under the Func's name.
        for name in self.lowering.outputs:
            function = self.lowering.env[name]
            if any(p is argument.source for p in function.output_buffers):
                return name
        return argument.name

    def _first_part(self, argument: Argument) -> Argument:
        """For a later part of a Tuple-valued output the first part, else the argument itself."""
        func = self._box_name(argument)
        if argument.kind != "output_buffer":
            return argument
        for other in self.buffers:
            if other.kind == "output_buffer" and self._box_name(other) == func:
                return other
        return argument

    def constraint(self, argument: Argument, field: str, dim: int) -> Expr | None:
        """What a field of the buffer is promised to be, None where nothing is promised."""
        first = self._first_part(argument)
        if first is not argument and field != "stride":
            return var(f"{first.name}.{field}.{dim}")
        source = argument.source
        if isinstance(source, Parameter):
            found: Expr | None = getattr(source.constraints[dim], field)
            return found
        # A Buffer used directly in an expression never changes its shape.
        return int32(_buffer_field(source, field, dim))

    def _replace_fields(self, argument: Argument) -> None:
        """Use constant and variable constraints in place of the field, in the program proper."""
        for dim in range(argument.dimensions):
            for field in ("min", "extent", "stride"):
                found = self.constraint(argument, field, dim)
                if found is not None and (is_const(found) or type(found) is Variable):
                    name = f"{argument.name}.{field}.{dim}"
                    self.replaced[name] = substitute(self.replaced, found)

    def _check_buffer(self, argument: Argument) -> None:
        name = argument.name
        title = _title(argument)
        query = _host_call("buffer_is_bounds_query", StringImm(name))
        self.queries.append(query)
        needed = len(self.required)
        box = self.boxes.get(self._box_name(argument))
        for dim in range(argument.dimensions):
            self._require_dimension(argument, box, dim)
            self._constrain_dimension(argument, dim)
        self.rewrites.append(
            IfThenElse(query, block([self._rewrite(name, d) for d in range(argument.dimensions)]))
        )
        self._refuse_query(argument, query, [value for _, value in self.required[needed:]])
        null = logical_not(_host_call("buffer_host_is_null", StringImm(name)))
        if any(one.call.name == name for one in self.lowering.read_ahead):
            # Also where only the bytes of the workspace are asked for.
            null = ne(_host_call("buffer_host_address", StringImm(name)), const(UINT64, 0))
        site = ErrorSite(BufferError, f"{title} has no memory (null pointer)", argument.where)
        self.asserts_memory.append(AssertStmt(null, site))
        self._check_alignment(argument)

    def _refuse_query(self, argument: Argument, query: Expr, required: list[Expr]) -> None:
        """A region that depends on an element of another buffer is not known without that."""
        names = self._names_in(required)
        for one in self.lowering.read_ahead:
            if one.name in names:
                site = ErrorSite(
                    BufferError,
                    f"the region needed of {_title(argument, True)} depends on {one.name}, which "
                    f"input buffer {one.call.name} does not hold",
                    argument.where,
                )
                known = logical_or(logical_not(query), one.is_held())
                self.asserts_unknown.append(AssertStmt(known, site))

    def _names_in(self, expressions: list[Expr]) -> set[str]:
        """The names that expressions use, directly or through lets around the program."""
        found: set[str] = set()
        pending = [name for e in expressions for name in free_variables(e)]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                if name in self.lets:
                    pending += free_variables(self.lets[name])
        return found

    def _check_alignment(self, argument: Argument) -> None:
        source = argument.source
        if not isinstance(source, Parameter) or source.host_alignment <= source.type.bytes():
            return
        address = _host_call("buffer_host_address", StringImm(argument.name))
        site = ErrorSite(
            ConstraintError,
            f"{_title(argument)} must be aligned to {source.host_alignment} bytes and is not",
            argument.where,
        )
        self.asserts_memory.append(AssertStmt(eq(address % source.host_alignment, 0), site))

    def _rewrite(self, name: str, dim: int) -> Stmt:
        fields = [var(f"{name}.{f}.{dim}.proposed") for f in ("min", "extent", "stride")]
        return Evaluate(_host_call("buffer_set_bounds", StringImm(name), int32(dim), *fields))

    def _require_dimension(self, argument: Argument, box: Box | None, dim: int) -> None:
        name, where = argument.name, argument.where
        low, extent = var(f"{name}.min.{dim}"), var(f"{name}.extent.{dim}")
        need_low: Expr = low
        need_extent: Expr = extent
        if box is not None and box.bounds:
            interval = box.bounds[dim]
            if interval.min is None or interval.max is None:
                raise DefinitionError(
                    f"{_title(argument)} may be accessed without bounds in dimension {dim}",
                    where,
                    "clamp the index",
                )
            self._check_overflow(argument, dim, interval.min, interval.max)
            need_low = interval.min
            need_extent = interval.max - interval.min + 1
            if box.used is not None and not is_const(box.used, 1):
                need_low = select(box.used, need_low, low)
                need_extent = select(box.used, need_extent, extent)
        self.required.append((f"{name}.extent.{dim}.required", simplify(need_extent)))
        self.required.append((f"{name}.min.{dim}.required", simplify(need_low)))
        stride: Expr = int32(1)
        if dim:
            previous = f"{dim - 1}.required"
            stride = var(f"{name}.stride.{previous}") * var(f"{name}.extent.{previous}")
        self.required.append((f"{name}.stride.{dim}.required", stride))
        if self._first_part(argument) is not argument:
            return
        need_low = var(f"{name}.min.{dim}.required")
        need_high = need_low + var(f"{name}.extent.{dim}.required") - 1
        high = low + extent - 1
        title = _title(argument)
        negative = ErrorSite(
            BufferError, f"{title} has the negative extent {{0}} in dimension {dim}", where
        )
        self.asserts_required.append(AssertStmt(ge(extent, 0), negative, (extent,)))
        self._assert_covers(argument, dim, (need_low, need_high), (low, high))

    def _check_overflow(self, argument: Argument, dim: int, low: Expr, high: Expr) -> None:
        """Ends that grow with numbers given to the call must be computed without overflow.

        Else they could come to lie inside the buffer again, where the elements that are touched
        do not.
        """
        for e in (low, high):
            if e.type is not INT32 or not any(self._is_given(n) for n in iterate(e)):
                continue
            wide = self.widen(e)
            site = ErrorSite(
                BoundsError,
                f"{_title(argument)} is needed at {{0}} in dimension {dim}, which 32-bit indices "
                "do not reach",
                argument.where,
            )
            self.asserts_required.append(AssertStmt(fits(wide), site, (wide,)))

    def _is_given(self, node: Node) -> bool:
        """Whether a node is a scalar parameter, or an element of an input that is read ahead."""
        if type(node) is not Variable:
            return False
        if isinstance(node.source, Parameter):
            return not node.source.is_buffer
        return node.name in self.grown or node.name.endswith(".constrained")

    def _assert_covers(
        self,
        argument: Argument,
        dim: int,
        need: tuple[Expr, Expr],
        given: tuple[Expr, Expr],
    ) -> None:
        """The buffer must cover what is needed; an error for each end says by how much."""
        title = _title(argument)
        below = ErrorSite(
            BoundsError,
            f"{title} begins {{2}} too late in dimension {dim}: needed {{0}}..{{3}}, "
            f"given {{1}}..{{4}}",
            argument.where,
        )
        args = (need[0], given[0], given[0] - need[0], need[1], given[1])
        self.asserts_required.append(AssertStmt(le(given[0], need[0]), below, args))
        above = ErrorSite(
            BoundsError,
            f"{title} is {{2}} too short in dimension {dim}: needed {{3}}..{{0}}, "
            f"given {{4}}..{{1}}",
            argument.where,
        )
        args = (need[1], given[1], need[1] - given[1], need[0], given[0])
        self.asserts_required.append(AssertStmt(ge(given[1], need[1]), above, args))

    def _constrain_dimension(self, argument: Argument, dim: int) -> None:
        name, title = argument.name, _title(argument)
        to_required = {
            f"{b.name}.{f}.{d}": var(f"{b.name}.{f}.{d}.required")
            for b in self.buffers
            for d in range(b.dimensions)
            for f in ("min", "extent", "stride")
        }
        for field in ("min", "extent", "stride"):
            full = f"{name}.{field}.{dim}"
            found = self.constraint(argument, field, dim)
            value: Expr = var(f"{full}.required")
            if found is not None:
                value = substitute(to_required, found)
                self._assert_constraint(argument, field, dim, found)
            self.proposed.append((f"{full}.proposed", value))
        low, extent = var(f"{name}.min.{dim}.proposed"), var(f"{name}.extent.{dim}.proposed")
        need_low = var(f"{name}.min.{dim}.required")
        need_high = need_low + var(f"{name}.extent.{dim}.required") - 1
        high = low + extent - 1
        fits = conjunction([le(low, need_low), ge(high, need_high)])
        site = ErrorSite(
            ConstraintError,
            f"the constraints on {title} make it smaller than needed in dimension {dim}: "
            "constrained {0}..{1}, needed {2}..{3}",
            argument.where,
        )
        self.asserts_proposed.append(AssertStmt(fits, site, (low, high, need_low, need_high)))

    def _assert_constraint(self, argument: Argument, field: str, dim: int, value: Expr) -> None:
        if not isinstance(argument.source, Parameter):
            return
        given = var(f"{argument.name}.{field}.{dim}")
        site = ErrorSite(
            ConstraintError,
            f"{_title(argument)}: {field} of dimension {dim} must be {{1}} "
            f"({argument.name}.{field}.{dim} == {value}), but is {{0}}",
            argument.where,
        )
        self.asserts_constrained.append(AssertStmt(eq(given, value), site, (given, value)))

    def _check_overlaps(self) -> None:
        """An output that shares bytes with another buffer is an error unless it may."""
        outputs = [a for a in self.buffers if a.kind == "output_buffer"]
        for i, output in enumerate(outputs):
            inputs = [a for a in self.buffers if a.kind != "output_buffer"]
            for other in [*inputs, *outputs[i + 1 :]]:
                names = (StringImm(output.name), StringImm(other.name))
                fine = logical_not(_host_call("buffers_overlap", *names))
                title = _title(other)
                title = title[0].lower() + title[1:]
                what = f"{_title(output)} shares bytes with {title}"
                hint = f"; declare {output.name}.may_alias({other.name}) if that is meant"
                if may_alias(output, other):
                    # What was proven holds for equal coordinates at equal addresses.
                    fine = logical_or(fine, _host_call("buffers_coincide", *names))
                    hint = ", but not at equal coordinates"
                site = ErrorSite(AliasError, what + hint, output.where)
                self.asserts_memory.append(AssertStmt(fine, site))


def may_alias(output: Argument, other: Argument) -> bool:
    """Whether the user allowed the two buffers to share bytes."""
    if not isinstance(output.source, Parameter):
        return False
    return any(other.source is p for p in output.source.aliases)


def logical_or_all(conditions: list[Expr]) -> Expr:
    """Some condition holds."""
    result = conditions[0] if conditions else logical_not(true())
    for condition in conditions[1:]:
        result = logical_or(result, condition)
    return result


_FIELDS: dict[str, Callable[[object], int]] = {
    "min": lambda d: int(d.min()),  # type: ignore[attr-defined]
    "extent": lambda d: int(d.extent()),  # type: ignore[attr-defined]
    "stride": lambda d: int(d.stride()),  # type: ignore[attr-defined]
}


def _buffer_field(buffer: object, field: str, dim: int) -> int:
    return _FIELDS[field](buffer.dim(dim))  # type: ignore[attr-defined]
