"""Lowers multi-dimensional storage of Funcs to flat allocations, for all passes that follow.

`Realize`, `Provide` and calls of Funcs and images become `Allocate`, `Store` and `Load` with one
element index.

The index of an element is the sum of (coordinate - min) * stride over the dimensions. It is
int32 in temporaries, which hold fewer than 2**31 elements each (more is an error before anything
is allocated). In buffers from outside every coordinate is widened to int64 before it meets a
stride, so that no flat index can overflow, unless constraints say that the buffer is small; and
their mins are gathered in one term that no loop changes: `sum(coordinate * stride) - sum(min *
stride)`.
"""

from __future__ import annotations

from bayplan.analysis.linear import constant_difference
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import ErrorSite, FoldError, InternalError
from bayplan.ir.exprs import Add, Call, CallKind, Const, Expr, Load, Mul, Sub, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Evaluate,
    LetStmt,
    Prefetch,
    Provide,
    Realize,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32, INT64, Handle, UInt
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.lower.callee import LINE_BYTES
from bayplan.lower.context import Lowering
from bayplan.lower.flatten_prefetch import flatten_prefetch
from bayplan.lower.names import func_of_storage, value_index_of_storage
from bayplan.lower.table import Table

_INT32_MAX = 2**31 - 1
# Elements of a temporary that may come to live in registers; nodes of an expanded coordinate.
_SMALL = 1024
_LONG = 200


def flatten_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with flat storage.

    Order: after fold_storage and split_tuples, which speak of coordinates; before unroll_loops and
    vectorize_loops, which speak of element indices.
    """
    return _Flatten(lowering, _Lets(stmt))(stmt)


def widen_index(e: Expr) -> Expr:
    """An int32 coordinate as int64.

    The conversion is pushed down to the leaves, which changes nothing as coordinates do not
    overflow, and lets sums of coordinates and offsets be reassociated.
    """
    if e.type.width == 64:
        return e
    cls = type(e)
    if cls is Add or cls is Sub or cls is Mul:
        a = widen_index(e.a)  # type: ignore[attr-defined]
        b = widen_index(e.b)  # type: ignore[attr-defined]
        if cls is Add:
            return a + b
        return a - b if cls is Sub else a * b
    return build.cast(INT64, e)


class _Lets:
    """The lets of the program, for proofs across them.

    A name that has several values stays a variable: a Func that is realized in several places has
    the bounds of each under the same names.
    """

    def __init__(self, stmt: Stmt) -> None:
        values: dict[str, set[Expr]] = {}
        for node in iterate(stmt):
            if type(node) is LetStmt:
                values.setdefault(node.name, set()).add(node.value)
        self._values = {n: next(iter(v)) for n, v in values.items() if len(v) == 1}
        self._expanded: dict[str, Expr | None] = {}

    def expand(self, e: Expr) -> Expr | None:
        """The expression with the lets put in; None where that would be long."""
        values: dict[str, Expr] = {}
        for name in free_variables(e):
            if name not in self._values:
                continue
            if name not in self._expanded:
                self._expanded[name] = None
                self._expanded[name] = self.expand(self._values[name])
            found = self._expanded[name]
            if found is None:
                return None
            values[name] = found
        if not values:
            return e
        result = simplify(substitute(values, e))
        return result if sum([1 for _ in iterate(result)]) <= _LONG else None

    def distance(self, a: Expr, b: Expr) -> int | None:
        """a - b, where it is a constant."""
        wide_a, wide_b = self.expand(a), self.expand(b)
        if wide_a is None or wide_b is None:
            return None
        return constant_difference(wide_a, wide_b)


class _Layout:
    """Where the elements of one realization lie: strides, mins and the type of its index.

    Attributes:
        origin: of buffers from outside: the sum of min * stride, subtracted once.
        lets: of small temporaries, whose indices are worth a search for constants.
    """

    __slots__ = ("lets", "mins", "origin", "strides", "wide")

    def __init__(
        self,
        mins: list[Expr],
        strides: list[Expr],
        wide: bool,
        origin: Expr | None = None,
        lets: _Lets | None = None,
    ) -> None:
        self.mins = mins
        self.strides = strides
        self.wide = wide
        self.origin = origin
        self.lets = lets

    def index(self, args: list[Expr]) -> Expr:
        """The flat index of the element at the coordinates `args`."""
        t = INT64 if self.wide else INT32
        total: Expr = Const(t, 0)
        # Outermost dimension first, so that the terms of outer loops stand together.
        for arg, low, stride in reversed(list(zip(args, self.mins, self.strides, strict=True))):
            offset = arg if self.origin is not None else self._offset(arg, low)
            total = total + (widen_index(offset) if self.wide else offset) * stride
        return total if self.origin is None else total - self.origin

    def _offset(self, arg: Expr, low: Expr) -> Expr:
        if self.lets is not None:
            distance = self.lets.distance(arg, low)
            if distance is not None:
                return build.int32(distance)
        return arg - low


class _Flatten(Rewriter):
    def __init__(self, lowering: Lowering, lets: _Lets) -> None:
        super().__init__()
        self.lowering = lowering
        self.lets = lets
        self.layouts: dict[str, _Layout] = {}
        self.outside: dict[str, _Layout] = {}
        self.met: set[str] = set()

    # Buffers from outside.

    def _outside_layout(self, name: str, source: object, dimensions: int) -> _Layout:
        found = self.outside.get(name)
        if found is None:
            mins = [_field(name, source, "min", d) for d in range(dimensions)]
            extents = [_field(name, source, "extent", d) for d in range(dimensions)]
            strides = [_field(name, source, "stride", d) for d in range(dimensions)]
            wide = not _fits_int32(mins, extents, strides)
            if wide:
                mins = [widen_index(e) for e in mins]
                strides = [widen_index(e) for e in strides]
            origin: Expr = Const(INT64 if wide else INT32, 0)
            for low, stride in reversed(list(zip(mins, strides, strict=True))):
                origin = origin + low * stride
            found = _Layout(mins, strides, wide, origin)
            self.outside[name] = found
        return found

    def _output_source(self, name: str) -> object:
        function = self.lowering.env.get(func_of_storage(name, self.lowering))
        if function is None:
            raise InternalError(f"storage of {name}, which is no Func, is used outside of it")
        return function.output_buffers[value_index_of_storage(name, self.lowering)]

    # Uses.

    def rewrite_Call(self, node: Call) -> Expr:
        if node.name in ("read_buffer", "written_buffer"):
            return self._buffer(node)
        if node.name == "required_region":
            # It has served bounds analysis.
            return build.int32(0)
        if node.kind is not CallKind.FUNC and node.kind is not CallKind.IMAGE:
            return self.rebuild(node)
        args = [self(arg) for arg in node.args]
        if node.kind is CallKind.IMAGE:
            layout = self._outside_layout(node.name, node.target, len(args))
            return Load(node.type, node.name, layout.index(args), None, node.target)
        inside = self.layouts.get(node.name)
        if inside is not None:
            return Load(node.type, node.name, inside.index(args))
        source = self._output_source(node.name)
        layout = self._outside_layout(node.name, source, len(args))
        return Load(node.type, node.name, layout.index(args), None, source)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        value = node.value
        if type(value) is Call and value.name == "call_extern":
            for i, arg in enumerate(value.args):
                if type(arg) is Call and arg.name == "callee_workspace":
                    return self._with_workspace(value, i, arg.args[0])
        return self.rebuild(node)  # type: ignore[no-any-return]

    def _with_workspace(self, call: Call, position: int, lines: Expr) -> Stmt:
        """A call inside the storage that the temporaries of what it calls lie in."""
        name = f"{call.target.func}.workspace"
        lines = self(lines)
        args = [self(a) for i, a in enumerate(call.args) if i != position]
        word = UInt(64)
        begin = Load(word, name, build.int32(0))
        args.insert(position, Call(Handle(), "callee_workspace", (begin, lines), call.kind))
        body = Evaluate(Call(call.type, call.name, tuple(args), call.kind, call.target))
        extents = (lines, build.int32(LINE_BYTES // word.bytes()))
        return Allocate(name, word, MemoryType.Heap, extents, build.true(), 0, body)

    def _buffer(self, node: Call) -> Expr:
        """A buffer for an external function, with the strides of where its elements are."""
        element, *fields = node.args
        assert type(element) is Call
        load = self(element)
        layout = self.layouts.get(element.name) or self.outside[element.name]
        fields = [self(field) for field in fields]
        for d, stride in enumerate(layout.strides):
            fields[3 * d + 2] = build.cast(INT32, stride) if layout.wide else stride
        return Call(node.type, node.name, (load, *fields), node.kind)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        if len(node.values) != 1:
            raise InternalError(f"a store of the tuple {node.name} was not split")
        value = self(node.values[0])
        args = [self(arg) for arg in node.args]
        predicate = None if node.predicate is None else self(node.predicate)
        if predicate is not None and build.is_one(predicate):
            predicate = None
        inside = self.layouts.get(node.name)
        if inside is not None:
            return Store(node.name, value, inside.index(args), predicate)
        source = self._output_source(node.name)
        layout = self._outside_layout(node.name, source, len(args))
        return Store(node.name, value, layout.index(args), predicate, source)

    def rewrite_Prefetch(self, node: Prefetch) -> Stmt:
        body = self(node.body)
        if len(node.types) != 1 or not node.bounds:
            return body
        bounds = tuple([(self(low), self(extent)) for low, extent in node.bounds])
        flat = Prefetch(
            node.name, node.types, bounds, self(node.condition), node.source, node.body
        )
        layout = self.layouts.get(node.name)
        order = list(range(len(bounds)))
        if layout is not None:
            function = self.lowering.env.get(func_of_storage(node.name, self.lowering))
            order = _storage_order(function, len(bounds))
        elif isinstance(node.source, Parameter):
            layout = self._outside_layout(node.name, node.source, len(bounds))
        else:
            return body
        return build.block([flatten_prefetch(flat, order, layout.index), body])

    # Allocations.

    def rewrite_Realize(self, node: Realize) -> Stmt:
        name = node.name
        if len(node.types) != 1:
            raise InternalError(f"the storage of the tuple {name} was not split")
        mins = [simplify(self(low)) for low, _ in node.bounds]
        extents = [simplify(self(extent)) for _, extent in node.bounds]
        condition = self(node.condition)
        function = self.lowering.env.get(func_of_storage(name, self.lowering))
        order = _storage_order(function, len(mins))
        sizes, checks = _storage_sizes(name, function, order, extents)
        layout, lets = self._inside_layout(name, mins, extents, order, sizes)

        if name in self.met:
            # The same calls mean other strides in another realization of the Func.
            self.forget()
        self.met.add(name)
        saved = self.layouts.get(name)
        self.layouts[name] = layout
        body = self(node.body)
        if saved is None:
            del self.layouts[name]
        else:
            self.layouts[name] = saved
            self.forget()

        result: Stmt = Allocate(
            name, node.types[0], node.memory_type, tuple(sizes), condition, 0, body
        )
        for let_name, value in reversed(lets):
            result = LetStmt(let_name, value, result)
        return build.block([*checks, result]) if checks else result

    def _inside_layout(
        self,
        name: str,
        mins: list[Expr],
        extents: list[Expr],
        order: list[int],
        sizes: list[Expr],
    ) -> tuple[_Layout, list[tuple[str, Expr]]]:
        """The layout of a temporary and the lets that it needs, outermost first."""
        lets: list[tuple[str, Expr]] = []
        named_mins = [_named(f"{name}.min.{d}", low, lets) for d, low in enumerate(mins)]
        for d, extent in enumerate(extents):
            _named(f"{name}.extent.{d}", extent, lets)
        strides: list[Expr] = [build.int32(1)] * len(mins)
        stride: Expr = build.int32(1)
        for d, size in zip(order, sizes, strict=True):
            strides[d] = _named(f"{name}.stride.{d}", stride, lets)
            stride = simplify(strides[d] * size)
        total = build.constant_value(stride)
        small = total is not None and total <= _SMALL
        # The mins themselves, as the lets are not in the program that `self.lets` knows.
        return _Layout(
            mins if small else named_mins, strides, False, None, self.lets if small else None
        ), lets


def _named(name: str, value: Expr, lets: list[tuple[str, Expr]]) -> Expr:
    """The variable that a new let binds to `value`; the value itself where it is constant."""
    if type(value) is Const:
        return value
    lets.append((name, value))
    return Variable(value.type, name)


def _field(name: str, source: object, field: str, d: int) -> Expr:
    """A field of a buffer from outside: the constant it is constrained to, else its variable."""
    if isinstance(source, Table):
        return build.int32(getattr(source.dim(d), field)())
    constraints = getattr(source, "constraints", None)
    if constraints:
        constrained = getattr(constraints[d], field)
        if type(constrained) is Const:
            return build.int32(int(constrained.value))
    if constraints is None and field == "stride" and hasattr(source, "dim"):
        # A buffer that stands in the program itself: how its elements lie does not change.
        return build.int32(int(source.dim(d).stride()))
    return Variable(INT32, f"{name}.{field}.{d}", source)


def _fits_int32(mins: list[Expr], extents: list[Expr], strides: list[Expr]) -> bool:
    """Whether all flat offsets of a buffer with these fields are known to fit int32."""
    reach = 0
    for low, extent, stride in zip(mins, extents, strides, strict=True):
        values = [build.constant_value(e) for e in (low, extent, stride)]
        if None in values:
            return False
        low_value, extent_value, stride_value = [int(v or 0) for v in values]
        reach += (abs(low_value) + abs(extent_value)) * abs(stride_value)
    return reach <= _INT32_MAX


def _storage_order(function: Function | None, dimensions: int) -> list[int]:
    """The dimensions as they lie in memory, innermost first."""
    if function is None or len(function.schedule.storage_dims) != dimensions:
        return list(range(dimensions))
    return [function.args.index(dim.var) for dim in function.schedule.storage_dims]


def _storage_sizes(
    name: str, function: Function | None, order: list[int], extents: list[Expr]
) -> tuple[list[Expr], list[Stmt]]:
    """Sizes of the dimensions in memory order, with alignment and bound_storage, and checks."""
    sizes: list[Expr] = []
    checks: list[Stmt] = []
    for position, d in enumerate(order):
        size = extents[d]
        dim = function.schedule.storage_dims[position] if function is not None else None
        if dim is not None and dim.bound is not None:
            size = dim.bound
            condition = simplify(build.le(extents[d], dim.bound))
            if not build.is_one(condition):
                site = ErrorSite(
                    FoldError,
                    f"the storage of {name} in dimension {dim.var} was bounded by {{0}}, "
                    "but {1} elements are needed",
                    dim.where,
                )
                checks.append(AssertStmt(condition, site, (dim.bound, extents[d])))
        if dim is not None and dim.alignment is not None:
            size = (size + dim.alignment - 1) // dim.alignment * dim.alignment
        sizes.append(simplify(size))
    return sizes, checks
