"""The loops of a definition, as the generator of schedules follows them."""

from __future__ import annotations

from tests.differential.stages import COORDINATES, Stage


class Loop:
    """One loop of a definition."""

    __slots__ = ("extent", "final", "kind", "name", "rvar", "scale", "whole")

    def __init__(
        self, name: str, rvar: bool, extent: int | None = None, whole: int | None = None
    ) -> None:
        self.name = name
        self.rvar = rvar
        self.extent = extent
        self.kind = "serial"
        # The dimension of which this is the whole range, for tails of the output.
        self.whole = whole
        # How many coordinates one iteration stands for, which bounds what tails add.
        self.scale = 1
        self.final = False


class Nest:
    """The loops of one definition of a Func, innermost first."""

    def __init__(self, stage: Stage, definition: int) -> None:
        self.stage = stage
        self.definition = definition
        self.text = stage.name if definition == 0 else f"{stage.name}.update({definition - 1})"
        if definition == 0:
            self.loops = [Loop(stage.vars[d], False, whole=d) for d in range(stage.dims)]
        else:
            rvars = stage.rvars[definition - 1]
            pure = stage.update_args[definition - 1]
            self.loops = [Loop(r, True) for r in rvars]
            self.loops += [Loop(COORDINATES[d], False, whole=d) for d in pure]
        self.touched = False

    def find(self, name: str) -> int:
        """Position of a loop by name, -1 if there is none."""
        return next((i for i, loop in enumerate(self.loops) if loop.name == name), -1)
