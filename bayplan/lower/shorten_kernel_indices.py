"""Writes indices of a block's temporaries in thread ids where that is shorter."""

from __future__ import annotations

from bayplan.analysis.linear import is_index_type
from bayplan.analysis.simplify import simplify
from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import Allocate, For, LetStmt, Stmt, Store
from bayplan.ir.walk import Rewriter, iterate, substitute
from bayplan.lower.context import Lowering


def shorten_kernel_indices(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which a tile is indexed by thread, not by a coordinate minus its base.

    A temporary of a block begins where the block's region does, so the base that coordinates are
    counted from cancels once the lets of coordinates are put in. Fewer operations a load, and
    barriers are proven unneeded from the thread ids.

    Order: after simplify_program, which would not look through lets; before the passes that read
    indices of kernels.
    """
    return _Shorten()(stmt)  # type: ignore[return-value]


class _Shorten(Rewriter):
    # The same node may stand under other lets of the same names.
    memoise = False

    def __init__(self) -> None:
        super().__init__()
        self.in_kernel = False
        self.values: dict[str, Expr] = {}  # of lets around, all others put in
        self.temporaries: set[str] = set()
        self.known: dict[Expr, Expr] = {}

    def __call__(self, node: Node) -> Node:  # type: ignore[override]
        if isinstance(node, Expr):
            return self._in_expression(node) if self.in_kernel else node
        return super().__call__(node)

    def rewrite_For(self, node: For) -> Stmt:
        outer = self.in_kernel
        self.in_kernel = outer or node.kind is ForKind.GPUBlock
        result = self.rebuild(node)
        self.in_kernel = outer
        return result  # type: ignore[return-value]

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        if not self.in_kernel or not _is_arithmetic(node.value):
            return self.rebuild(node)  # type: ignore[return-value]
        before = self.values.get(node.name)
        value = node.value
        self.values[node.name] = substitute(self.values, node.value)
        self.known = {}
        body = self(node.body)
        if before is None:
            del self.values[node.name]
        else:
            self.values[node.name] = before
        self.known = {}
        return node.with_children([value, body])  # type: ignore[return-value]

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        if not self.in_kernel:
            return self.rebuild(node)  # type: ignore[return-value]
        self.temporaries.add(node.name)
        return self.rebuild(node)  # type: ignore[return-value]

    def rewrite_Store(self, node: Store) -> Stmt:
        children = [self(c) for c in node.children()]
        if self.in_kernel and node.name in self.temporaries:
            place = list(node.children()).index(node.index)
            children[place] = self._shorter(children[place])  # type: ignore[arg-type]
        return node.with_children(children)  # type: ignore[return-value]

    def _in_expression(self, e: Expr) -> Expr:
        found = self.known.get(e)
        if found is None:
            inside = [n for n in iterate(e) if type(n) is Load and n.name in self.temporaries]
            found = self.known[e] = _Loads(self)(e) if inside else e
        return found

    def _shorter(self, index: Expr) -> Expr:
        """The index with lets put in, where that makes it smaller."""
        if not self.values:
            return index
        whole = simplify(substitute(self.values, index))
        return whole if _size(whole) < _size(index) else index


class _Loads(Rewriter):
    """Shortens the indices of loads within one expression."""

    def __init__(self, owner: _Shorten) -> None:
        super().__init__()
        self.owner = owner

    def rewrite_Load(self, node: Load) -> Expr:
        result = self.rebuild(node)
        assert isinstance(result, Load)
        if result.name not in self.owner.temporaries:
            return result
        children = list(result.children())
        place = children.index(result.index)
        children[place] = self.owner._shorter(result.index)
        return result.with_children(children)  # type: ignore[return-value]


def _is_arithmetic(value: Expr) -> bool:
    """Whether a let may be put in anywhere: an index that no memory and no effect is part of."""
    if not is_index_type(value.type):
        return False
    return all(type(n) is not Load and (type(n) is not Call or n.is_pure()) for n in iterate(value))


def _size(e: Expr) -> int:
    """How many different nodes the expression has."""
    return sum(1 for _ in iterate(e))
