"""LoopLevel: a place in a loop nest, as the user names it."""

from __future__ import annotations

from typing import Any

from bayplan.ir.errors import ScheduleError
from bayplan.language import changes
from bayplan.language.function import Function
from bayplan.language.loop_names import loop_name
from bayplan.language.schedule import LoopLevel as Level


def level_of(func: Function, var: Any, stage: int = -1) -> Level:
    """The level inside the loop `var` of a Func (of one of its stages, or of any)."""
    v = loop_name(var)
    return Level.at(func.name, v.name_, stage, v.is_rvar)


class LoopLevel(Level):
    """A place in a loop nest that can be given to directives and set later.

    Args:
        func: the Func whose loop it is; none for a level to be set later.
        var: the loop, a Var or RVar.
        stage_index: 0 for the pure definition, n for update n - 1, -1 for whichever has the loop.
    """

    __slots__ = ()

    def __init__(self, func: Any = None, var: Any = None, stage_index: int = -1) -> None:
        if func is None:
            super().__init__(None)
            return
        v = loop_name(var)
        super().__init__(func.name(), v.name_, stage_index, v.is_rvar)

    @staticmethod
    def _of(level: Level) -> LoopLevel:
        result = LoopLevel()
        result.func, result.var = level.func, level.var
        result.stage, result.is_rvar = level.stage, level.is_rvar
        return result

    @staticmethod
    def inlined() -> LoopLevel:
        """The level of a Func that is computed wherever it is used."""
        return LoopLevel._of(Level.inlined())

    @staticmethod
    def root() -> LoopLevel:
        """The level outside of all loops."""
        return LoopLevel._of(Level.root())

    def stage_index(self) -> int:
        """The stage, -1 where it was not said."""
        return self.stage

    def copy(self) -> Level:
        """An independent level with the same place."""
        return Level(self.func, self.var, self.stage, self.is_rvar)

    def set(self, other: Level) -> None:
        """Take over another level, for every directive that was given this one."""
        if self.locked:
            raise ScheduleError("a LoopLevel cannot be set once its pipeline was compiled")
        super().set(other)
        changes.bump()

    def __repr__(self) -> str:
        return f"<bayplan.LoopLevel {self}>"
