"""What the passes of one lowering share."""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Call, Expr, Variable
from bayplan.ir.source import SourceLine
from bayplan.ir.walk import iterate
from bayplan.language.function import Function
from bayplan.lower.table import Table
from bayplan.storage.plan import KernelPlan, KindChoice, StoragePlan


class Lowering:
    """The functions being lowered and what earlier passes found about them.

    Attributes:
        outputs: names of the output Funcs, in order.
        env: every Func in use by name, private copies whose nodes are of this compilation.
        order: realization order, producers first, inlined Funcs left out.
        fused_groups: `order` cut into groups that are computed together (compute_with).
        target: the `Target` that code is made for.
        func_bounds: (name, value index) -> analysis Interval of the values of a Func; bounds
            analysis fills and reads it.
        warnings: one line each, shown to the user once.
        kinds: by temporary, the kind that was asked for and why it got another one.
        plan: where each temporary lives; from plan_storage on.
        kernels: the storage of each kernel; from plan_kernels on.
        tables: the constant tables of the program; None: Buffers stay arguments.
        regions: of a pipeline that others call what a call needs of its buffers (see
            `lower.callee`); None: nobody asks.
        read_ahead: elements of inputs that have names in the program (`ReadAhead`), each after
            those that its coordinates name.
    """

    __slots__ = (
        "outputs",
        "env",
        "order",
        "fused_groups",
        "target",
        "func_bounds",
        "warnings",
        "kinds",
        "plan",
        "kernels",
        "tables",
        "regions",
        "read_ahead",
        "_reserved",
        "_used_names",
    )

    def __init__(self, outputs: list[str], env: dict[str, Function], target: Any) -> None:
        self.outputs = outputs
        self.env = env
        self.order: list[str] = []
        self.fused_groups: list[list[str]] = []
        self.target = target
        self.func_bounds: dict[tuple[str, int], Any] = {}
        self.warnings: list[str] = []
        self.kinds: dict[str, KindChoice] = {}
        self.plan: StoragePlan | None = None
        self.kernels: list[KernelPlan] = []
        self.tables: list[Table] | None = None
        self.regions: dict[tuple[str, int], tuple[Expr, Expr]] | None = None
        self.read_ahead: list[Any] = []
        self._used_names: dict[str, int] = {}
        self._reserved: frozenset[str] | None = None

    def unique_name(self, stem: str) -> str:
        """A name that nothing in this lowering has: "stem", "stem$1", ..."""
        if self._reserved is None:
            self._reserved = self._names_in_use()
        while True:
            count = self._used_names.get(stem, 0)
            self._used_names[stem] = count + 1
            name = f"{stem}${count}" if count else stem
            if name not in self._reserved:
                return name

    def _names_in_use(self) -> frozenset[str]:
        """Names of Funcs, parameters and images."""
        roots = [
            e
            for function in self.env.values()
            if function.init is not None
            for definition in function.stages()
            for e in (*definition.values, *definition.args, definition.predicate)
        ]
        names = set(self.env)
        for node in iterate(*roots):
            if type(node) is Variable or (type(node) is Call and node.target is not None):
                names.add(node.name)
        return frozenset(names)

    def where(self, func: str) -> SourceLine | None:
        """The user's line of a Func, None for names that are not Funcs."""
        found = self.env.get(func)
        return found.where if found is not None else None
