"""Statement nodes: what the lowered program does, in order.

Two families exist only between some passes. Before flattening, `Provide`, `Realize`, and FUNC or
IMAGE calls speak of Funcs at coordinates; after it, `Store`, `Allocate` and `Load` speak of flat
allocations. `ir.verify` states which nodes are legal when.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir.errors import ErrorSite
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.node import Node
from bayplan.ir.types import Type


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()


def _make(cls: Any, values: tuple[Any, ...]) -> Any:
    key = (cls, *values)
    node = Node.table.get(key)
    if node is None:
        node = object.__new__(cls)
        for slot, value in zip(cls.__slots__, values, strict=True):
            setattr(node, slot, value)
        Node.table[key] = node
    return node


class Evaluate(Stmt):
    """Compute a value for its side effects; Evaluate of the int32 0 is the empty statement."""

    __slots__ = ("value",)

    value: Expr

    def __new__(cls, value: Expr) -> Evaluate:
        return _make(cls, (value,))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.value,)

    def with_children(self, children: list[Any]) -> Evaluate:
        return Evaluate(children[0])


class LetStmt(Stmt):
    """`body` in which the variable `name` stands for `value`."""

    __slots__ = ("name", "value", "body")

    name: str
    value: Expr
    body: Stmt

    def __new__(cls, name: str, value: Expr, body: Stmt) -> LetStmt:
        return _make(cls, (name, value, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.value, self.body)

    def with_children(self, children: list[Any]) -> LetStmt:
        return LetStmt(self.name, children[0], children[1])


class AssertStmt(Stmt):
    """Where `condition` is false, end the call with the error of `site`, filled with `args`."""

    __slots__ = ("condition", "site", "args")

    condition: Expr
    site: ErrorSite
    args: tuple[Expr, ...]

    def __new__(cls, condition: Expr, site: ErrorSite, args: tuple[Expr, ...] = ()) -> AssertStmt:
        return _make(cls, (condition, site, args))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.condition, *self.args)

    def with_children(self, children: list[Any]) -> AssertStmt:
        return AssertStmt(children[0], self.site, tuple(children[1:]))


class ProducerConsumer(Stmt):
    """Marks the code that produces the Func `name`, or the code that uses it."""

    __slots__ = ("name", "is_producer", "body")

    name: str
    is_producer: bool
    body: Stmt

    def __new__(cls, name: str, is_producer: bool, body: Stmt) -> ProducerConsumer:
        return _make(cls, (name, is_producer, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.body,)

    def with_children(self, children: list[Any]) -> ProducerConsumer:
        return ProducerConsumer(self.name, self.is_producer, children[0])


class For(Stmt):
    """Run `body` for `name` = min, ..., min + extent - 1, in the manner of `kind`."""

    __slots__ = ("name", "min", "extent", "kind", "partition", "body")

    name: str
    min: Expr
    extent: Expr
    kind: ForKind
    partition: Partition
    body: Stmt

    def __new__(
        cls,
        name: str,
        min: Expr,
        extent: Expr,
        kind: ForKind,
        partition: Partition,
        body: Stmt,
    ) -> For:
        return _make(cls, (name, min, extent, kind, partition, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.min, self.extent, self.body)

    def with_children(self, children: list[Any]) -> For:
        return For(self.name, children[0], children[1], self.kind, self.partition, children[2])


class Provide(Stmt):
    """Write the values of the Func `name` at the coordinates `args` (before flattening)."""

    __slots__ = ("name", "values", "args", "predicate")

    name: str
    values: tuple[Expr, ...]
    args: tuple[Expr, ...]
    predicate: Expr | None

    def __new__(
        cls,
        name: str,
        values: tuple[Expr, ...],
        args: tuple[Expr, ...],
        predicate: Expr | None = None,
    ) -> Provide:
        return _make(cls, (name, values, args, predicate))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        tail = () if self.predicate is None else (self.predicate,)
        return (*self.values, *self.args, *tail)

    def with_children(self, children: list[Any]) -> Provide:
        n = len(self.values)
        m = n + len(self.args)
        predicate = children[m] if len(children) > m else None
        return Provide(self.name, tuple(children[:n]), tuple(children[n:m]), predicate)


class Store(Stmt):
    """Write `value` to element `index` of the flat allocation or buffer `name`.

    Attributes:
        predicate: None, or a bool with the lanes of the value; other lanes are not written.
        source: None, or the language's Parameter of an output buffer.
        alignment: (modulus, remainder) known of the first lane's index in elements.
    """

    __slots__ = ("name", "value", "index", "predicate", "source", "alignment")

    name: str
    value: Expr
    index: Expr
    predicate: Expr | None
    source: Any
    alignment: tuple[int, int]

    def __new__(
        cls,
        name: str,
        value: Expr,
        index: Expr,
        predicate: Expr | None = None,
        source: Any = None,
        alignment: tuple[int, int] = (1, 0),
    ) -> Store:
        return _make(cls, (name, value, index, predicate, source, alignment))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        tail = () if self.predicate is None else (self.predicate,)
        return (self.value, self.index, *tail)

    def with_children(self, children: list[Any]) -> Store:
        predicate = children[2] if len(children) > 2 else None
        return Store(
            self.name, children[0], children[1], predicate, self.source, self.alignment
        )


class Realize(Stmt):
    """`body` in which the Func `name` has storage over `bounds` (before flattening).

    Attributes:
        types: element type of each value of the Func.
        bounds: (min, extent) of each dimension.
        condition: where false no storage is needed.
    """

    __slots__ = ("name", "types", "memory_type", "bounds", "condition", "body")

    name: str
    types: tuple[Type, ...]
    memory_type: MemoryType
    bounds: tuple[tuple[Expr, Expr], ...]
    condition: Expr
    body: Stmt

    def __new__(
        cls,
        name: str,
        types: tuple[Type, ...],
        memory_type: MemoryType,
        bounds: tuple[tuple[Expr, Expr], ...],
        condition: Expr,
        body: Stmt,
    ) -> Realize:
        return _make(cls, (name, types, memory_type, bounds, condition, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        flat = [e for pair in self.bounds for e in pair]
        return (*flat, self.condition, self.body)

    def with_children(self, children: list[Any]) -> Realize:
        n = len(self.bounds)
        bounds = tuple([(children[2 * i], children[2 * i + 1]) for i in range(n)])
        return Realize(
            self.name, self.types, self.memory_type, bounds, children[2 * n], children[2 * n + 1]
        )


class HoistedStorage(Stmt):
    """Marks the place in which the Realize of `name` further in is to be allocated."""

    __slots__ = ("name", "body")

    name: str
    body: Stmt

    def __new__(cls, name: str, body: Stmt) -> HoistedStorage:
        return _make(cls, (name, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.body,)

    def with_children(self, children: list[Any]) -> HoistedStorage:
        return HoistedStorage(self.name, children[0])


class Allocate(Stmt):
    """`body` in which `name` is a flat allocation of the product of `extents` elements.

    Attributes:
        condition: where false the size is 0 and nothing is allocated.
        padding: elements beyond the product that must be readable too.
        alignment: bytes that the address is a multiple of, where whoever gives the memory can.
        address: None: the bytes are the allocation's own. Else an alias: a call of
            `offset_pointer(arena, offset)`, which says in which other allocation, and how many
            bytes behind its begin, they are.
    """

    __slots__ = (
        "name", "type", "memory_type", "extents", "condition", "padding", "body", "alignment",
        "address",
    )

    name: str
    type: Type
    memory_type: MemoryType
    extents: tuple[Expr, ...]
    condition: Expr
    padding: int
    body: Stmt
    alignment: int
    address: Call | None

    def __new__(
        cls,
        name: str,
        type: Type,
        memory_type: MemoryType,
        extents: tuple[Expr, ...],
        condition: Expr,
        padding: int,
        body: Stmt,
        alignment: int = 64,
        address: Call | None = None,
    ) -> Allocate:
        values = (
            name, type, memory_type, extents, condition, padding, body, alignment, address,
        )
        return _make(cls, values)  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        address = () if self.address is None else (self.address,)
        return (*self.extents, self.condition, *address, self.body)

    def with_children(self, children: list[Any]) -> Allocate:
        n = len(self.extents)
        return Allocate(
            self.name,
            self.type,
            self.memory_type,
            tuple(children[:n]),
            children[n],
            self.padding,
            children[-1],
            self.alignment,
            None if self.address is None else children[n + 1],
        )

    def with_body(self, body: Stmt) -> Allocate:
        """The same allocation around another statement."""
        return self if body is self.body else self.with_children([*self.children()[:-1], body])


class Free(Stmt):
    """The life of the allocation `name` ends here."""

    __slots__ = ("name",)

    name: str

    def __new__(cls, name: str) -> Free:
        return _make(cls, (name,))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: list[Any]) -> Free:
        return self


class Block(Stmt):
    """Statements one after another; flat: no Block is a direct member of a Block."""

    __slots__ = ("stmts",)

    stmts: tuple[Stmt, ...]

    def __new__(cls, stmts: tuple[Stmt, ...]) -> Block:
        return _make(cls, (stmts,))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return self.stmts

    def with_children(self, children: list[Any]) -> Stmt:
        from bayplan.ir.build import block

        return block(children)


class IfThenElse(Stmt):
    """Run `then_case` where `condition` holds, else `else_case` (None: nothing)."""

    __slots__ = ("condition", "then_case", "else_case")

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None

    def __new__(
        cls, condition: Expr, then_case: Stmt, else_case: Stmt | None = None
    ) -> IfThenElse:
        return _make(cls, (condition, then_case, else_case))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        tail = () if self.else_case is None else (self.else_case,)
        return (self.condition, self.then_case, *tail)

    def with_children(self, children: list[Any]) -> IfThenElse:
        return IfThenElse(children[0], children[1], children[2] if len(children) > 2 else None)


class Prefetch(Stmt):
    """Hint that `name` over `bounds` is read soon, then run `body`."""

    __slots__ = ("name", "types", "bounds", "condition", "source", "body")

    name: str
    types: tuple[Type, ...]
    bounds: tuple[tuple[Expr, Expr], ...]
    condition: Expr
    source: Any
    body: Stmt

    def __new__(
        cls,
        name: str,
        types: tuple[Type, ...],
        bounds: tuple[tuple[Expr, Expr], ...],
        condition: Expr,
        source: Any,
        body: Stmt,
    ) -> Prefetch:
        return _make(cls, (name, types, bounds, condition, source, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        flat = [e for pair in self.bounds for e in pair]
        return (*flat, self.condition, self.body)

    def with_children(self, children: list[Any]) -> Prefetch:
        n = len(self.bounds)
        bounds = tuple([(children[2 * i], children[2 * i + 1]) for i in range(n)])
        return Prefetch(
            self.name, self.types, bounds, children[2 * n], self.source, children[2 * n + 1]
        )


class Atomic(Stmt):
    """Run `body` so that its read-modify-write of the Func `name` is atomic."""

    __slots__ = ("name", "body")

    name: str
    body: Stmt

    def __new__(cls, name: str, body: Stmt) -> Atomic:
        return _make(cls, (name, body))  # type: ignore[no-any-return]

    def children(self) -> tuple[Node, ...]:
        return (self.body,)

    def with_children(self, children: list[Any]) -> Atomic:
        return Atomic(self.name, children[0])
