"""What the generator knows of the Funcs it has drawn: types, loads, loops of their updates."""

from __future__ import annotations

from tests.differential.values import Value

COORDINATES = ("x", "y", "z")


class Index:
    """One index of a load as a function of one coordinate: (a * v + b) / c, or a fixed range."""

    __slots__ = ("a", "b", "c", "high", "low", "text", "variable")

    def __init__(
        self, text: str, variable: int | None, a: int, b: int, c: int, low: int = 0, high: int = 0
    ) -> None:
        self.text = text
        self.variable = variable
        self.a, self.b, self.c = a, b, c
        self.low, self.high = low, high

    def interval(self, box: list[tuple[int, int]]) -> tuple[int, int]:
        """The values it takes when the coordinates run over `box` (inclusive)."""
        if self.variable is None:
            return self.low, self.high
        ends = [(self.a * v + self.b) // self.c for v in box[self.variable]]
        # A fixed range beside the variable: an RVar's offset.
        return min(ends) + self.low, max(ends) + self.high


class Stage:
    """A Func as the generator knows it.

    Attributes:
        name: Its name in the program.
        dims: Number of dimensions.
        values: Type and interval of each of its values.
        uses: (definition, callee, indices) of every load; definition 0 is the pure one.
        rvars: For each update, the number of its RDom's dimensions.
        update_args: For each update, the pure Vars (positions) that its left side keeps.
        rfactorable: Updates that reduce associatively with no other access to the Func.
        is_input: Whether it is an input array.
        touched: Region that updates touch, for each dimension, whatever is asked for.
    """

    def __init__(self, name: str, dims: int, values: list[Value], is_input: bool = False) -> None:
        self.name = name
        self.dims = dims
        self.values = values
        self.is_input = is_input
        self.uses: list[tuple[int, Stage, list[Index]]] = []
        self.rvars: list[list[str]] = []
        self.update_args: list[list[int]] = []
        self.rfactorable: list[int] = []
        self.touched: list[tuple[int, int] | None] = [None] * dims
        self.box: list[tuple[int, int]] | None = None
        # The Vars of the pure definition, by the names they have in the program.
        self.vars = list(COORDINATES[:dims])
