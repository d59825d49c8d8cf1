"""How directives name loops: what the user passes, and which loop of a stage it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import ScheduleError
from bayplan.language.rdom import RDom, RVar
from bayplan.language.schedule import Dim, StorageDim
from bayplan.language.var import Var


class VarOrRVar:
    """A Var or an RVar, where a directive takes either."""

    __slots__ = ("name_", "is_rvar")

    def __init__(self, name: Any, is_rvar: bool | None = None) -> None:
        if isinstance(name, str):
            self.name_ = name
            self.is_rvar = bool(is_rvar)
            return
        found = loop_name(name)
        self.name_ = found.name_
        self.is_rvar = found.is_rvar

    def name(self) -> str:
        """The name: plain for a Var, full for an RVar."""
        return self.name_

    def what(self) -> str:
        """The kind and the name, for messages."""
        return f"{'RVar' if self.is_rvar else 'Var'} {self.name_}"


def loop_name(v: Any) -> VarOrRVar:
    """The name a directive was given."""
    if isinstance(v, VarOrRVar):
        return v
    if isinstance(v, Var):
        return VarOrRVar(v.name(), False)
    if isinstance(v, RDom):
        v = v._only("a loop")
    if isinstance(v, RVar):
        return VarOrRVar(v.name(), True)
    raise TypeError(f"a loop is named by a Var or an RVar, not by {type(v).__name__}: {v!r}")


def loop_names(vs: Sequence[Any]) -> list[VarOrRVar]:
    """The names in a list that a directive was given."""
    return [loop_name(v) for v in vs]


def var_name(v: Any) -> str:
    """The name of a Var where a directive takes nothing else."""
    if not isinstance(v, Var):
        raise TypeError(f"expected a Var, not {type(v).__name__}: {v!r}")
    return v.name()


def name_matches(candidate: str, name: str) -> bool:
    """Whether the loop `candidate` ("x.xi") is called `name` ("xi")."""
    return candidate == name or candidate.endswith("." + name)


def short_name(full: str) -> str:
    """The name the user knows a loop by: "xi" for "x.xi"."""
    return full.rsplit(".", 1)[-1]


def matches(dim: Dim, v: VarOrRVar) -> bool:
    """Whether the loop is the one meant; raise where a Var and an RVar share the name."""
    if not name_matches(dim.var, v.name_):
        return False
    if dim.is_rvar() != v.is_rvar:
        own = "RVar" if dim.is_rvar() else "Var"
        raise ScheduleError(f"{v.what()} in a directive has the same name as the {own} {dim.var}")
    return True


def list_loops(dims: Sequence[Dim] | Sequence[StorageDim]) -> str:
    """The loops of a stage, innermost first, as the end of a message."""
    names = [name for name in [short_name(dim.var) for dim in dims] if name != "__outermost"]
    return "; its loops, innermost first: " + (", ".join(names) if names else "none")
