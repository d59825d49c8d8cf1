"""Keeps iterations before the original start of a loop from doing more than warm up windows."""

from __future__ import annotations

from typing import Any, Protocol

from bayplan.ir import build
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute


class Needs(Protocol):
    """Answers what the production of a Func uses."""

    def depends(self, func: str, on: str) -> bool: ...


def guard_rewound_loop(
    loop: For,
    body: Stmt,
    needs: Needs,
    rewound: list[str],
    slid: set[str],
    whole_at_start: list[tuple[str, Expr]],
) -> Stmt:
    """The body of a loop that now begins before its `min`.

    Args:
        loop: the loop as it was.
        body: its new body.
        needs: of the body.
        rewound: Funcs for whose windows it begins earlier.
        slid: Funcs that slide along it.
        whole_at_start: Funcs that compute a whole window in the iteration that is given.
    """
    return _Guard(loop, needs, rewound, slid, dict(whole_at_start))(body)  # type: ignore[no-any-return]


class _Guard(Rewriter):
    memoise = False

    def __init__(
        self,
        loop: For,
        needs: Needs,
        rewound: list[str],
        slid: set[str],
        whole_at_start: dict[str, Expr],
    ) -> None:
        super().__init__()
        self.loop = loop
        self.variable = build.var(loop.name)
        self.needs = needs
        self.rewound = rewound
        self.slid = slid
        self.whole_at_start = whole_at_start
        # Lets that hold a value as of the first original iteration in the iterations before it.
        self.steady: dict[str, Expr] = {loop.name: build.maximum(self.variable, loop.min)}

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def _is_for_warm_up(self, func: str) -> bool:
        return any(self.needs.depends(name, func) for name in self.rewound)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if not node.is_producer:
            return self.rebuild(node)  # type: ignore[no-any-return]
        start: Expr | None = None
        if node.name in self.whole_at_start:
            start = self.whole_at_start[node.name]
        elif not self._is_for_warm_up(node.name):
            start = self.loop.min
        if start is None:
            return self.rebuild(node)  # type: ignore[no-any-return]
        body = self(node.body)
        guarded = IfThenElse(build.le(start, self.variable), body)
        return ProducerConsumer(node.name, True, guarded)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        """Regions that do not slide are those of the first iteration until that is reached."""
        name = node.name
        changes = not free_variables(node.value).isdisjoint(self.steady)
        func = name.split(".", 1)[0]
        region = name.endswith((".min", ".max")) and ".s" in name
        saved = self.steady.pop(name, None)
        if not changes or not region or func in self.slid:
            body = self(node.body)
            result: Stmt = node if body is node.body else LetStmt(name, node.value, body)
        elif self._owns_loop(func):
            value = substitute(self.steady | ({name: saved} if saved else {}), node.value)
            self.steady[name] = build.var(f"{name}.steady")
            body = self(node.body)
            del self.steady[name]
            result = LetStmt(f"{name}.steady", value, LetStmt(name, node.value, body))
        else:
            value = substitute(self.steady | ({name: saved} if saved else {}), node.value)
            result = LetStmt(name, value, self(node.body))
        if saved is not None:
            self.steady[name] = saved
        return result

    def _owns_loop(self, func: str) -> bool:
        """Whether the loop computes the Func: its region moves with the loop."""
        return self.loop.name.startswith(f"{func}.s")
