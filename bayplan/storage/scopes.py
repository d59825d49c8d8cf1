"""Groups temporaries by the scope whose arena they are in: the call, or a worker of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.storage.lives import Life
from bayplan.storage.places import Place, parallel_loop_of


class Scope:
    """The call, or one parallel loop, each of whose workers has an arena.

    Attributes:
        loop: the parallel loop; None for the call.
        lives: the temporaries allocated in it, not in a scope further in, in program order.
        inner: the scopes of parallel loops directly inside, in program order.
    """

    __slots__ = ("inner", "lives", "loop")

    def __init__(self, loop: Place | None) -> None:
        self.loop = loop
        self.lives: list[Life] = []
        self.inner: list[Scope] = []


def find_scopes(lives: Sequence[Life]) -> Scope:
    """The scope of the call with all temporaries in it and in the scopes inside."""
    call = Scope(None)
    scopes: dict[Place | None, Scope] = {None: call}

    def scope_of(loop: Place | None) -> Scope:
        found = scopes.get(loop)
        if found is None:
            assert loop is not None
            found = scopes[loop] = Scope(loop)
            scope_of(parallel_loop_of(loop.outer)).inner.append(found)
        return found

    for life in lives:
        scope_of(parallel_loop_of(life.place)).lives.append(life)
    return call
