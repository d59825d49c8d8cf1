"""The temporaries of a statement, each with its life; those of kernels as they were planned."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.ir.stmts import For
from bayplan.storage.kernels import Kernel, is_kernel
from bayplan.storage.lives import Life, Lives
from bayplan.storage.places import outward
from bayplan.storage.plan import KernelPlan, PlannedTemporary
from bayplan.storage.sizes import SizesOutside


def list_temporaries(
    lives: Lives, kernels: Sequence[KernelPlan], sizes: SizesOutside
) -> dict[Life, PlannedTemporary]:
    """The temporary of each life, in program order; the arenas of blocks are none.

    Args:
        lives: of the statement in which kernels are planned.
        kernels: their plans; their temporaries get lives and sizes in the whole statement.
        sizes: what sizes are for the call.
    """
    plans = {plan.title: plan for plan in kernels}
    for kernel in kernels:
        kernel.steps = lives.kernels.get(kernel.title, (0, 0))
    slabs = {plan.slab.name: plan for plan in kernels if plan.slab is not None}
    found: dict[Life, PlannedTemporary] = {}
    for life in lives.lives:
        plan = plans.get(_kernel_around(life))
        member = None if plan is None else plan.members.get(life.name)
        if member is not None:
            member.life, member.loops = (life.begin, life.end), life.loops
            member.extents = sizes.extents_of(life) or member.extents
            member.condition = sizes.condition_of(life)
            found[life] = member
        elif plan is None or life.name not in _arenas_of(plan):
            found[life] = temporary = _temporary(life)
            if life.name in slabs:
                slabs[life.name].slab = temporary
                temporary.is_slab = True
    return found


def _arenas_of(plan: KernelPlan) -> list[str]:
    return [arena.name for arena in (plan.shared, plan.device) if arena is not None]


def _kernel_around(life: Life) -> str:
    """The title of the kernel that an allocation is in, "" for none."""
    title = ""
    for place in outward(life.place):
        if is_kernel(place.node):
            assert type(place.node) is For
            title = Kernel(place.node).title
    return title


def _temporary(life: Life) -> PlannedTemporary:
    node = life.node
    return PlannedTemporary(
        life.name,
        node.type,
        node.extents,
        node.padding,
        node.condition,
        life.kind,
        (life.begin, life.end),
        life.loops,
    )
