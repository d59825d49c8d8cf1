"""Walkers: visit or rebuild a DAG of nodes, each node once.

`Rewriter` rebuilds bottom-up, returns the same object where nothing changed, and remembers the
result for each node. A subclass gives methods named after node classes (`rewrite_Add`); the table
from class to method is made once per subclass. A rewriter whose answer depends on where a node
stands (scopes, enclosing loops) sets `memoise = False`, or forgets at the border (`forget()`).

`Visitor` walks without rebuilding, in the same way (`visit_Add`).

Recursion is plain Python calls, which cost no C stack; no walker recurses through C code. That is
why the walkers here say `self.__call__(child)`: `self(child)` would go through C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar, cast

from bayplan.ir.exprs import Call, Expr, Let, StringImm, Variable
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, LetStmt, Stmt

N = TypeVar("N", bound=Node)


def _methods(cls: type, prefix: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for name in vars(base):
            if name.startswith(prefix):
                names[name[len(prefix) :]] = name
    return names


class Rewriter:
    """Rebuilds a DAG bottom-up; subclasses give `rewrite_<NodeClass>(self, node) -> Node`."""

    memoise: ClassVar[bool] = True
    _method_names: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls._method_names = _methods(cls, "rewrite_")

    def __init__(self) -> None:
        self._memo: dict[Node, Node] = {}
        self._bound: dict[type, Callable[[Any], Node]] = {}

    def __call__(self, node: N) -> N:
        """The rewritten node."""
        memo = self._memo
        found = memo.get(node)
        if found is not None:
            return cast(N, found)
        cls = type(node)
        method = self._bound.get(cls)
        if method is None:
            name = self._method_names.get(cls.__name__)
            method = getattr(self, name) if name is not None else self.rebuild
            self._bound[cls] = method
        result = method(node)
        if self.memoise:
            memo[node] = result
        return cast(N, result)

    def rebuild(self, node: Any) -> Any:
        """The node with rewritten children; itself where none changed."""
        children = node.children()
        for i, child in enumerate(children):
            new = self.__call__(child)
            if new is not child:
                rest = [self.__call__(c) for c in children[i + 1 :]]
                return node.with_children([*children[:i], new, *rest])
        return node

    def forget(self) -> None:
        """Drop what is remembered: the meaning of nodes changes from here on."""
        self._memo = {}


class StmtRewriter(Rewriter):
    """A rewriter that leaves expressions as they are, without going into them."""

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)


class Visitor:
    """Walks a DAG; subclasses give `visit_<NodeClass>(self, node)` and call `visit_children`."""

    memoise: ClassVar[bool] = True
    _method_names: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls._method_names = _methods(cls, "visit_")

    def __init__(self) -> None:
        self._seen: set[Node] = set()
        self._bound: dict[type, Callable[[Any], None]] = {}

    def __call__(self, node: Node) -> None:
        """Visit the node, unless it was visited already (when memoising)."""
        if self.memoise:
            if node in self._seen:
                return
            self._seen.add(node)
        cls = type(node)
        method = self._bound.get(cls)
        if method is None:
            name = self._method_names.get(cls.__name__)
            method = getattr(self, name) if name is not None else self.descend
            self._bound[cls] = method
        method(node)

    def descend(self, node: Any) -> None:
        """Visit the children."""
        for child in node.children():
            self.__call__(child)


class Reintern(Rewriter):
    """Copies nodes into the current compilation's table."""

    def rebuild(self, node: Any) -> Any:
        return node.with_children([self.__call__(child) for child in node.children()])


def reintern(node: N) -> N:
    """The same node in the current compilation's table."""
    return Reintern()(node)


def iterate(*roots: Node) -> Iterator[Node]:
    """Each node of the DAG once, parents before children, depth first."""
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(reversed(node.children()))


class Substitute(Rewriter):
    """Replaces free variables by expressions; bindings of the same name shadow."""

    def __init__(self, values: Mapping[str, Expr]) -> None:
        super().__init__()
        self.values = dict(values)

    def __call__(self, node: Any) -> Any:
        # An expression without any of the names is left as it is, at the price of a set test.
        if isinstance(node, Expr) and free_variables(node).isdisjoint(self.values):
            return node
        return super().__call__(node)

    def rewrite_Variable(self, node: Variable) -> Expr:
        return self.values.get(node.name, node)

    def _shadowed(self, node: Any, name: str) -> Any:
        """Rewrite a binding of `name`: its body must not see our value for it."""
        inner = {k: v for k, v in self.values.items() if k != name}
        children = list(node.children())
        rewritten = [self.__call__(child) for child in children[:-1]]
        rewritten.append(Substitute(inner)(children[-1]) if inner else children[-1])
        return node.with_children(rewritten)

    def rewrite_Let(self, node: Let) -> Any:
        return self._shadowed(node, node.name) if node.name in self.values else self.rebuild(node)

    def rewrite_LetStmt(self, node: LetStmt) -> Any:
        return self._shadowed(node, node.name) if node.name in self.values else self.rebuild(node)

    def rewrite_For(self, node: For) -> Any:
        return self._shadowed(node, node.name) if node.name in self.values else self.rebuild(node)


def substitute(values: Mapping[str, Expr], node: N) -> N:
    """`node` with the free variables named in `values` replaced."""
    return cast(N, Substitute(values)(node)) if values else node


class _ReplaceNodes(Rewriter):
    def __init__(self, replacements: Mapping[Node, Node]) -> None:
        super().__init__()
        self._memo.update(replacements)


def replace_nodes(replacements: Mapping[Node, Node], node: N) -> N:
    """`node` with whole sub-nodes replaced, outermost first."""
    return _ReplaceNodes(replacements)(node)


_EMPTY: frozenset[str] = frozenset()


def free_variables(e: Expr) -> frozenset[str]:
    """Names of the free variables of an expression, remembered on the node.

    Buffers and allocations that a Load names are not variables.
    """
    found = e._free
    if found is not None:
        return found
    if type(e) is Variable:
        result: frozenset[str] = frozenset((e.name,))
    elif type(e) is Let:
        result = free_variables(e.value) | (free_variables(e.body) - {e.name})
    else:
        result = _EMPTY
        for child in e.children():
            child_free = free_variables(cast(Expr, child))
            if child_free and not child_free <= result:
                result = result | child_free if result else child_free
        if type(e) is Call and e.name == "largest_over":
            # It binds its loop.
            loop = e.args[0]
            result = result - {loop.value} if isinstance(loop, StringImm) else result
    e._free = result
    return result


def uses_variable(e: Expr, name: str) -> bool:
    """Whether the free variable `name` occurs in the expression."""
    return name in free_variables(e)


class _StmtVariables(Visitor):
    """Collects free variables of statements; each binding is taken away from its body."""

    def __init__(self) -> None:
        super().__init__()
        self.free: dict[Node, frozenset[str]] = {}

    def of(self, s: Node) -> frozenset[str]:
        if isinstance(s, Expr):
            return free_variables(s)
        found = self.free.get(s)
        if found is None:
            parts = [self.of(child) for child in s.children()]
            if isinstance(s, LetStmt | For):
                parts[-1] = parts[-1] - {s.name}
            found = _EMPTY.union(*parts)
            self.free[s] = found
        return found


def free_variables_of_stmt(s: Stmt) -> frozenset[str]:
    """Names of the free variables of a statement (not remembered between calls)."""
    return _StmtVariables().of(s)
