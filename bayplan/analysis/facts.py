"""What is known where an expression stands: ranges and alignments of variables, true conditions."""

from __future__ import annotations

from bayplan.ir.exprs import Expr


class Facts:
    """Scope of known things; a child knows what its parent knows and more."""

    __slots__ = ("alignments", "bounds", "parent", "truths")

    def __init__(self, parent: Facts | None = None) -> None:
        self.parent = parent
        self.bounds: dict[str, tuple[int | None, int | None]] = {}
        self.alignments: dict[str, tuple[int, int]] = {}
        self.truths: dict[Expr, bool] = {}

    def child(self) -> Facts:
        """A scope inside this one, to which more can be added."""
        return Facts(self)

    def bound_variable(self, name: str, low: int | None, high: int | None) -> Facts:
        """Know that the variable lies in [low, high]; None: not bounded there."""
        self.bounds[name] = (low, high)
        return self

    def align_variable(self, name: str, modulus: int, remainder: int) -> Facts:
        """Know that the variable leaves `remainder` when divided by `modulus`."""
        self.alignments[name] = (modulus, remainder)
        return self

    def assume(self, condition: Expr) -> Facts:
        """Know that the condition holds."""
        self.truths[condition] = True
        return self

    def loop(self, name: str, minimum: Expr, extent: Expr) -> Facts:
        """The scope of the body of a loop over `name`."""
        return self.child()
