"""RDom and RVar: the domain of a reduction and its variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.ir.build import is_one, logical_and, true
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Expr, Let, Variable
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32, Type
from bayplan.ir.walk import iterate
from bayplan.language.expr import Expr as UserExpr
from bayplan.language.expr import Operators, as_node
from bayplan.language.naming import unique_letter_name
from bayplan.language.parameter import ReductionDomain
from bayplan.language.promotion import lossless_cast
from bayplan.language.schedule import ReductionVariable

_LETTERS = "xyzw"


class RVar(Operators):
    """A variable of a reduction domain, or the name of a loop made from one by a split."""

    __slots__ = ("_name", "_domain", "_index")

    def __init__(self, name: str | RDom | RVar | None = None) -> None:
        self._domain: ReductionDomain | None = None
        self._index = 0
        if isinstance(name, RDom):
            name = name._only("an RVar")
        if isinstance(name, RVar):
            self._name: str = name._name
            self._domain = name._domain
            self._index = name._index
            return
        self._name = unique_letter_name("r") if name is None else name

    @staticmethod
    def of(domain: ReductionDomain, index: int) -> RVar:
        """The variable of a domain with this index."""
        rvar = RVar(domain.variables[index].var)
        rvar._domain = domain
        rvar._index = index
        return rvar

    @property
    def node(self) -> Variable:
        """The int32 variable that expressions hold."""
        if self._domain is None:
            raise DefinitionError(
                f"{self._name} has no domain: only RVars of an RDom can be used in expressions, "
                "others only name loops"
            )
        return Variable(INT32, self._name, self._domain)

    def name(self) -> str:
        """The full name, such as "r4$x"."""
        return self._name

    def type(self) -> Type:
        """The type of a coordinate, int32."""
        return INT32

    def _variable(self) -> ReductionVariable:
        if self._domain is None:
            raise DefinitionError(f"{self._name} has no domain, so it has no min and no extent")
        found: ReductionVariable = self._domain.variables[self._index]
        return found

    def min(self) -> UserExpr:
        """The first value of the variable."""
        return UserExpr(self._variable().min)

    def extent(self) -> UserExpr:
        """The number of values of the variable."""
        return UserExpr(self._variable().extent)

    def __repr__(self) -> str:
        if self._domain is None:
            return f"<bayplan.RVar {self._name}>"
        found = self._variable()
        return f"<bayplan.RVar {self._name}({found.min}, {found.extent})>"

    def __str__(self) -> str:
        return self._name


class Range:
    """The integers from `min` on, `extent` of them; None for a bound that is left open."""

    __slots__ = ("min", "extent")

    def __init__(self, min: Any = None, extent: Any = None) -> None:
        if isinstance(min, tuple) and extent is None:
            min, extent = min
        self.min = min
        self.extent = extent


def as_range(bounds: Any) -> tuple[Any, Any]:
    """(min, extent) of a Range, a pair, or an open bound."""
    if isinstance(bounds, Range):
        return bounds.min, bounds.extent
    if isinstance(bounds, tuple | list) and len(bounds) == 2:
        return bounds[0], bounds[1]
    raise TypeMismatchError(f"a range is a pair (min, extent), not {bounds!r}")


def region_of(buffer: Any) -> list[tuple[Expr, Expr]]:
    """(min, extent) of each dimension of a Buffer or ImageParam, as nodes."""
    found = []
    for i in range(buffer.dimensions()):
        dim = buffer.dim(i)
        found.append((as_node(dim.min()), as_node(dim.extent())))
    return found


def _checked_bound(value: Any, what: str, dim: int, name: str) -> Expr:
    if value is None or (isinstance(value, UserExpr) and not value.defined()):
        raise DefinitionError(f"the {what} of dimension {dim} of the RDom {name} is not defined")
    node = as_node(value)
    fitting = lossless_cast(INT32, node)
    if fitting is None:
        raise TypeMismatchError(
            f"the {what} of dimension {dim} of the RDom {name} is a {node.type}, "
            "which does not fit an int32"
        )
    bound = {n.name for n in iterate(node) if type(n) is Let}
    for n in iterate(node):
        if type(n) is Call and n.kind is CallKind.FUNC:
            raise DefinitionError(
                f"the {what} of dimension {dim} of the RDom {name} calls the Func {n.name}; "
                "the bounds of an RDom may depend only on parameters"
            )
        if type(n) is Variable and n.name not in bound:
            if n.source is None or isinstance(n.source, ReductionDomain):
                raise DefinitionError(
                    f"the {what} of dimension {dim} of the RDom {name} depends on the variable "
                    f"{n.name}; the bounds of an RDom may depend only on parameters"
                )
    return fitting


def _letter(i: int) -> str:
    return _LETTERS[i] if i < 4 else str(i)


class RDom(Operators):
    """A box over which an update definition is repeated, first dimension innermost.

    Args:
        region: a list of (min, extent), or a Buffer or ImageParam whose domain it becomes.
        name: its name; without one it gets a name of its own.

    A one-dimensional RDom can be used wherever its only RVar can.
    """

    __slots__ = ("_reduction", "_name", "x", "y", "z", "w")

    _reduction: ReductionDomain | None

    def __init__(self, region: Any = None, name: str = "", **named: Any) -> None:
        for word in ("buffer", "image_param"):
            region = named.pop(word, region)
        if named:
            raise TypeError(f"RDom() got an unexpected keyword argument {next(iter(named))!r}")
        self._reduction = None
        if region is None:
            self._name = name
            self._name_variables()
            return
        if hasattr(region, "dimensions") and hasattr(region, "dim"):
            # Halide names the domain of an ImageParam after it.
            own = region.name() if not _is_buffer(region) else ""
            self._name = name or own or unique_letter_name("r")
            pairs: list[tuple[Any, Any]] = list(region_of(region))
        else:
            self._name = name or unique_letter_name("r")
            pairs = _pairs(region)
        variables = [
            ReductionVariable(
                f"{self._name}${_letter(i)}",
                _checked_bound(low, "min", i, self._name),
                _checked_bound(extent, "extent", i, self._name),
            )
            for i, (low, extent) in enumerate(pairs)
        ]
        self._reduction = ReductionDomain(self._name, variables, user_line())
        self._reduction.predicate = true()
        self._name_variables()

    @staticmethod
    def of(domain: ReductionDomain) -> RDom:
        """The handle on an existing domain."""
        rdom = RDom()
        rdom._name = domain.name
        rdom._reduction = domain
        rdom._name_variables()
        return rdom

    def _name_variables(self) -> None:
        for i, letter in enumerate(_LETTERS):
            if self._reduction is not None and i < len(self._reduction.variables):
                rvar = RVar.of(self._reduction, i)
            else:
                rvar = RVar(f"{self._name}${letter}")
            setattr(self, letter, rvar)

    def _only(self, what: str) -> RVar:
        if self.dimensions() != 1:
            raise DefinitionError(
                f"the RDom {self._name} has {self.dimensions()} dimensions; only one with a single "
                f"dimension can be used as {what}"
            )
        return RVar.of(self._domain(), 0)

    def _domain(self) -> ReductionDomain:
        if self._reduction is None:
            raise DefinitionError("this RDom is not defined")
        return self._reduction

    @property
    def node(self) -> Variable:
        """The variable of a one-dimensional RDom."""
        return self._only("an expression").node

    def reduction(self) -> ReductionDomain:
        """The data of the domain."""
        return self._domain()

    def domain(self) -> ReductionDomain:
        """The data of the domain, under Halide's name."""
        return self._domain()

    def defined(self) -> bool:
        """Whether it was given a region."""
        return self._reduction is not None

    def same_as(self, other: RDom) -> bool:
        """Whether both are the same domain."""
        return self._reduction is other._reduction

    def dimensions(self) -> int:
        """Number of dimensions."""
        return 0 if self._reduction is None else len(self._reduction.variables)

    def type(self) -> Type:
        """The type of a coordinate, int32."""
        return INT32

    def where(self, predicate: Any) -> None:
        """Leave out the points at which the predicate is false; several calls join by "and"."""
        domain = self._domain()
        if domain.frozen:
            raise DefinitionError(
                f"the RDom {self._name} can be given no predicate any more: an update uses it"
            )
        node = as_node(predicate)
        if not node.type.is_bool():
            raise TypeMismatchError(
                f"the predicate of the RDom {self._name} is a {node.type}, not a bool"
            )
        assert domain.predicate is not None
        domain.predicate = logical_and(domain.predicate, node)

    def __len__(self) -> int:
        return self.dimensions()

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> RVar:
        if not 0 <= index < self.dimensions():
            raise KeyError(index)
        return RVar.of(self._domain(), index)

    def __iter__(self) -> Iterator[RVar]:
        return iter([self[i] for i in range(self.dimensions())])

    def __repr__(self) -> str:
        if self._reduction is None:
            return "<bayplan.RDom RDom()>"
        lines = [f"  {v.var}({v.min}, {v.extent})" for v in self._reduction.variables]
        text = "RDom(\n" + "\n".join(lines) + "\n)"
        predicate = self._reduction.predicate
        if predicate is not None and not is_one(predicate):
            text += f" where ({predicate})"
        return f"<bayplan.RDom {text}>"


def _is_buffer(region: Any) -> bool:
    return type(region).__name__ == "Buffer"


def _pairs(region: Any) -> list[tuple[Any, Any]]:
    if not isinstance(region, Sequence) or isinstance(region, str):
        raise TypeMismatchError(
            f"an RDom is made from a list of (min, extent), a Buffer or an ImageParam, not from "
            f"{type(region).__name__}"
        )
    return [as_range(bounds) for bounds in region]
