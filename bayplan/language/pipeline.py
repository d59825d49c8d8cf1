"""Pipeline: several Funcs that are computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import ScheduleError, TypeMismatchError
from bayplan.ir.source import user_line
from bayplan.language import changes
from bayplan.language.expr import as_node
from bayplan.language.func import Func
from bayplan.language.function import Function, Requirement
from bayplan.language.runnable import Runnable


class Pipeline(Runnable):
    """The outputs of a program.

    Args:
        outputs: a Func, or a list of Funcs.
    """

    __slots__ = ("_outputs",)

    def __init__(self, outputs: Func | Sequence[Func] = ()) -> None:
        self._outputs = [outputs] if isinstance(outputs, Func) else list(outputs)

    def _functions(self) -> list[Function]:
        return [f.function() for f in self._outputs]

    def defined(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self._outputs)

    def outputs(self) -> list[Func]:
        """The output Funcs."""
        return list(self._outputs)

    def get_func(self, index: int) -> Func:
        """One of all Funcs in use, producers first."""
        from bayplan.language.wrappers import all_functions

        return Func.of(all_functions(self._functions())[index])

    def add_requirement(self, condition: Any, *message: Any) -> None:
        """End each call with the message, unless the condition holds.

        Args:
            condition: a bool Expr of parameters.
            *message: texts and Exprs, printed with spaces between them.
        """
        node = as_node(condition)
        if not node.type.is_bool():
            raise TypeMismatchError(f"a requirement is a bool, not a {node.type}")
        parts = [as_node(part, strings=True) for part in message]
        first = self._functions()[0]
        first.requirements.append(Requirement(node, parts, user_line()))
        changes.bump()

    def apply_autoscheduler(self, *args: Any, **named: Any) -> None:
        """Refused: schedules are written by hand."""
        raise ScheduleError("there is no automatic scheduler: write the schedule's directives")

    def invalidate_cache(self) -> None:
        """Compile anew at the next call."""
        changes.bump()

    def __repr__(self) -> str:
        return f"<bayplan.Pipeline Pipeline({', '.join([f.name() for f in self._outputs])})>"
