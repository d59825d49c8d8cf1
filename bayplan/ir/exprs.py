"""Expression nodes: immutable values computed from other values.

Arithmetic on nodes (`a + b`, `a // b`, ...) builds nodes through `ir.build`, which folds
constants. `==` stays identity: comparisons are the functions `eq`, `lt`, `le` ... of `ir.build`.
Semantics of Div and Mod on integers: floor division and non-negative remainder; x / 0 == 0 and
x % 0 == 0. Integers narrower than 32 bits wrap, unsigned ones too; int32 and int64 must not
overflow. Operands of a binary node have the same type, lanes included.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, Final

from bayplan.ir.node import Node
from bayplan.ir.types import BOOL, Type


class Expr(Node):
    """Base of expressions; `type` is the element type of the value, with its lanes."""

    __slots__ = ("_free", "type")

    type: Type
    _free: frozenset[str] | None

    def __add__(self, other: Expr | int | float) -> Expr:
        return _build().add(self, other)

    def __radd__(self, other: Expr | int | float) -> Expr:
        return _build().add(_build().like(self, other), self)

    def __sub__(self, other: Expr | int | float) -> Expr:
        return _build().sub(self, other)

    def __rsub__(self, other: Expr | int | float) -> Expr:
        return _build().sub(_build().like(self, other), self)

    def __mul__(self, other: Expr | int | float) -> Expr:
        return _build().mul(self, other)

    def __rmul__(self, other: Expr | int | float) -> Expr:
        return _build().mul(_build().like(self, other), self)

    def __floordiv__(self, other: Expr | int | float) -> Expr:
        return _build().div(self, other)

    def __mod__(self, other: Expr | int | float) -> Expr:
        return _build().mod(self, other)

    def __neg__(self) -> Expr:
        return _build().sub(_build().like(self, 0), self)

    def __bool__(self) -> bool:
        raise TypeError("an expression node has no truth value; compare with `is`")


_build_module: Any = None


def _build() -> Any:
    # ir.build imports this module; looked up once, at the first arithmetic.
    global _build_module
    if _build_module is None:
        from bayplan.ir import build

        _build_module = build
    return _build_module


_NONE: Final = frozenset[str]()


class Const(Expr):
    """A scalar constant. `value` is an int for integers and bools, a float for floats.

    The value is already wrapped or rounded to the type (`Type.wrap`).
    """

    __slots__ = ("value",)

    value: int | float

    def __new__(cls, type: Type, value: int | float) -> Const:
        # -0.0 == 0.0 and nan != nan, so floats are told apart by their sign and as text.
        if type.kind == "float":
            key: Any = (cls, type, repr(float(value)))
        else:
            key = (cls, type, value)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = type
            node.value = value
            node._free = _NONE
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: list[Any]) -> Const:
        return Const(self.type, self.value)

    def is_nan(self) -> bool:
        """Whether this is a float constant that is not a number."""
        return self.type.kind == "float" and math.isnan(self.value)


class StringImm(Expr):
    """A string constant, an argument of print and require."""

    __slots__ = ("value",)

    value: str

    def __new__(cls, value: str) -> StringImm:
        key = (cls, value)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = Type("handle", 64)
            node.value = value
            node._free = _NONE
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: list[Any]) -> StringImm:
        return StringImm(self.value)


class Variable(Expr):
    """A named value: a loop variable, a let, a Var, an RVar, a parameter, a buffer's field.

    Attributes:
        source: None, or the language's object the name comes from: a `Parameter` (scalar
            parameter, or field such as "in.min.0" of a buffer), or a `ReductionDomain`.
    """

    __slots__ = ("name", "source")

    name: str
    source: Any

    def __new__(cls, type: Type, name: str, source: Any = None) -> Variable:
        key = (cls, type, name, source)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = type
            node.name = name
            node.source = source
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: list[Any]) -> Variable:
        return Variable(self.type, self.name, self.source)


class Cast(Expr):
    """The value converted to another element type, lanes kept (floats truncate toward zero)."""

    __slots__ = ("value",)

    value: Expr

    def __new__(cls, type: Type, value: Expr) -> Cast:
        key = (cls, type, value)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = type
            node.value = value
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.value,)

    def with_children(self, children: list[Any]) -> Cast:
        return Cast(self.type, children[0])


class Binary(Expr):
    """Base of operations on two operands of the same type."""

    __slots__ = ("a", "b")

    a: Expr
    b: Expr

    def __new__(cls, a: Expr, b: Expr) -> Binary:
        key = (cls, a, b)
        node = Node.table.get(key)
        if node is None:
            assert a.type is b.type, (cls.__name__, a, a.type, b, b.type)
            node = object.__new__(cls)
            node.type = a.type
            node.a = a
            node.b = b
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.a, self.b)

    def with_children(self, children: list[Any]) -> Binary:
        return type(self)(children[0], children[1])


class Add(Binary):
    """a + b."""

    __slots__ = ()


class Sub(Binary):
    """a - b."""

    __slots__ = ()


class Mul(Binary):
    """a * b."""

    __slots__ = ()


class Div(Binary):
    """a / b: floor division on integers, 0 where b is 0."""

    __slots__ = ()


class Mod(Binary):
    """a % b: in [0, |b|) on integers, 0 where b is 0."""

    __slots__ = ()


class Min(Binary):
    """The lesser of a and b."""

    __slots__ = ()


class Max(Binary):
    """The greater of a and b."""

    __slots__ = ()


class Compare(Binary):
    """Base of comparisons: bools with the operands' lanes."""

    __slots__ = ()

    def __new__(cls, a: Expr, b: Expr) -> Compare:
        key = (cls, a, b)
        node = Node.table.get(key)
        if node is None:
            assert a.type is b.type, (cls.__name__, a, a.type, b, b.type)
            node = object.__new__(cls)
            lanes = a.type.lane_count
            node.type = BOOL if lanes == 1 else Type("uint", 1, lanes)
            node.a = a
            node.b = b
            node._free = None
            Node.table[key] = node
        return node


class EQ(Compare):
    """a == b."""

    __slots__ = ()


class NE(Compare):
    """a != b."""

    __slots__ = ()


class LT(Compare):
    """a < b."""

    __slots__ = ()


class LE(Compare):
    """a <= b."""

    __slots__ = ()


class GT(Compare):
    """a > b."""

    __slots__ = ()


class GE(Compare):
    """a >= b."""

    __slots__ = ()


class And(Binary):
    """Both bools are true."""

    __slots__ = ()


class Or(Binary):
    """Either bool is true."""

    __slots__ = ()


class Not(Expr):
    """The bool is false."""

    __slots__ = ("value",)

    value: Expr

    def __new__(cls, value: Expr) -> Not:
        key = (cls, value)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = value.type
            node.value = value
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.value,)

    def with_children(self, children: list[Any]) -> Not:
        return Not(children[0])


class Select(Expr):
    """`true_value` where `condition` holds, else `false_value`; both may be evaluated.

    The condition has the values' lanes, or is a scalar.
    """

    __slots__ = ("condition", "false_value", "true_value")

    condition: Expr
    true_value: Expr
    false_value: Expr

    def __new__(cls, condition: Expr, true_value: Expr, false_value: Expr) -> Select:
        key = (cls, condition, true_value, false_value)
        node = Node.table.get(key)
        if node is None:
            assert true_value.type is false_value.type, (true_value.type, false_value.type)
            node = object.__new__(cls)
            node.type = true_value.type
            node.condition = condition
            node.true_value = true_value
            node.false_value = false_value
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.condition, self.true_value, self.false_value)

    def with_children(self, children: list[Any]) -> Select:
        return Select(children[0], children[1], children[2])


class Load(Expr):
    """Element `index` of the flat allocation or buffer `name` (after flattening).

    Attributes:
        index: int32 (or int64) element index, with the lanes of the type.
        predicate: None, or a bool with the lanes of the type; lanes where it is false are not
            read and their value is unspecified.
        source: None, or the language's Parameter or Buffer the name belongs to.
        alignment: (modulus, remainder) known of the first lane's index in elements.
    """

    __slots__ = ("alignment", "index", "name", "predicate", "source")

    name: str
    index: Expr
    predicate: Expr | None
    source: Any
    alignment: tuple[int, int]

    def __new__(
        cls,
        type: Type,
        name: str,
        index: Expr,
        predicate: Expr | None = None,
        source: Any = None,
        alignment: tuple[int, int] = (1, 0),
    ) -> Load:
        key = (cls, type, name, index, predicate, source, alignment)
        node = Node.table.get(key)
        if node is None:
            assert type.lane_count == index.type.lane_count, (type, index.type)
            node = object.__new__(cls)
            node.type = type
            node.name = name
            node.index = index
            node.predicate = predicate
            node.source = source
            node.alignment = alignment
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.index,) if self.predicate is None else (self.index, self.predicate)

    def with_children(self, children: list[Any]) -> Load:
        predicate = children[1] if len(children) > 1 else None
        lanes = children[0].type.lane_count
        return Load(
            self.type.with_lanes(lanes),
            self.name,
            children[0],
            predicate,
            self.source,
            self.alignment,
        )


class Ramp(Expr):
    """The vector base, base + stride, base + 2 stride, ... (base and stride may be vectors)."""

    __slots__ = ("base", "lanes", "stride")

    base: Expr
    stride: Expr
    lanes: int

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> Ramp:
        key = (cls, base, stride, lanes)
        node = Node.table.get(key)
        if node is None:
            assert base.type is stride.type and lanes > 1
            node = object.__new__(cls)
            node.type = base.type.with_lanes(base.type.lane_count * lanes)
            node.base = base
            node.stride = stride
            node.lanes = lanes
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.base, self.stride)

    def with_children(self, children: list[Any]) -> Ramp:
        return Ramp(children[0], children[1], self.lanes)


class Broadcast(Expr):
    """The value repeated `lanes` times (a vector value is repeated whole)."""

    __slots__ = ("lanes", "value")

    value: Expr
    lanes: int

    def __new__(cls, value: Expr, lanes: int) -> Broadcast:
        key = (cls, value, lanes)
        node = Node.table.get(key)
        if node is None:
            assert lanes > 1
            node = object.__new__(cls)
            node.type = value.type.with_lanes(value.type.lane_count * lanes)
            node.value = value
            node.lanes = lanes
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.value,)

    def with_children(self, children: list[Any]) -> Broadcast:
        return Broadcast(children[0], self.lanes)


class Shuffle(Expr):
    """Lanes picked by constant `indices` from the vectors laid end to end."""

    __slots__ = ("indices", "vectors")

    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]

    def __new__(cls, vectors: tuple[Expr, ...], indices: tuple[int, ...]) -> Shuffle:
        key = (cls, vectors, indices)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = vectors[0].type.with_lanes(len(indices))
            node.vectors = vectors
            node.indices = indices
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return self.vectors

    def with_children(self, children: list[Any]) -> Shuffle:
        return Shuffle(tuple(children), self.indices)


class ReduceOp(Enum):
    """How the lanes of a VectorReduce are joined."""

    ADD = "add"
    SATURATING_ADD = "saturating_add"
    MUL = "mul"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"


class VectorReduce(Expr):
    """Groups of adjacent lanes joined by `op` into `lanes` results."""

    __slots__ = ("lanes", "op", "value")

    op: ReduceOp
    value: Expr
    lanes: int

    def __new__(cls, op: ReduceOp, value: Expr, lanes: int) -> VectorReduce:
        key = (cls, op, value, lanes)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = value.type.with_lanes(lanes)
            node.op = op
            node.value = value
            node.lanes = lanes
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.value,)

    def with_children(self, children: list[Any]) -> VectorReduce:
        return VectorReduce(self.op, children[0], self.lanes)


class CallKind(Enum):
    """What a Call names.

    FUNC: a Func of the pipeline, `args` its int32 coordinates. IMAGE: an input buffer or
    parameter. EXTERN / PURE_EXTERN: a C function, without side effects when pure.
    INTRINSIC / PURE_INTRINSIC: an operation of `ir.intrinsics`.
    """

    FUNC = "func"
    IMAGE = "image"
    EXTERN = "extern"
    PURE_EXTERN = "pure_extern"
    INTRINSIC = "intrinsic"
    PURE_INTRINSIC = "pure_intrinsic"


class Call(Expr):
    """A use of a Func, an image, a C function or an intrinsic.

    Attributes:
        target: for FUNC the language's Function, for IMAGE its Parameter or Buffer; else None.
        value_index: which value of a Tuple-valued Func.
    """

    __slots__ = ("args", "kind", "name", "target", "value_index")

    name: str
    args: tuple[Expr, ...]
    kind: CallKind
    target: Any
    value_index: int

    def __new__(
        cls,
        type: Type,
        name: str,
        args: tuple[Expr, ...],
        kind: CallKind,
        target: Any = None,
        value_index: int = 0,
    ) -> Call:
        key = (cls, type, name, args, kind, target, value_index)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = type
            node.name = name
            node.args = args
            node.kind = kind
            node.target = target
            node.value_index = value_index
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return self.args

    def with_children(self, children: list[Any]) -> Call:
        return Call(self.type, self.name, tuple(children), self.kind, self.target, self.value_index)

    def is_intrinsic(self, name: str) -> bool:
        """Whether this is the intrinsic `name`."""
        return self.name == name and self.kind in _INTRINSIC_KINDS

    def is_pure(self) -> bool:
        """Whether the call itself has no side effect and depends only on its arguments."""
        return self.kind in _PURE_KINDS


_INTRINSIC_KINDS: Final = frozenset([CallKind.INTRINSIC, CallKind.PURE_INTRINSIC])
_PURE_KINDS: Final = frozenset([CallKind.PURE_EXTERN, CallKind.PURE_INTRINSIC])


class Let(Expr):
    """`body` in which the variable `name` stands for `value`."""

    __slots__ = ("body", "name", "value")

    name: str
    value: Expr
    body: Expr

    def __new__(cls, name: str, value: Expr, body: Expr) -> Let:
        key = (cls, name, value, body)
        node = Node.table.get(key)
        if node is None:
            node = object.__new__(cls)
            node.type = body.type
            node.name = name
            node.value = value
            node.body = body
            node._free = None
            Node.table[key] = node
        return node

    def children(self) -> tuple[Node, ...]:
        return (self.value, self.body)

    def with_children(self, children: list[Any]) -> Let:
        return Let(self.name, children[0], children[1])
