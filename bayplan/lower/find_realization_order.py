"""Orders Funcs producers first, and groups those whose loops are computed together."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.ir.errors import InternalError, ScheduleError
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import FusedPair
from bayplan.lower.find_calls import direct_calls

Graph = dict[str, list[str]]


def find_realization_order(
    outputs: Sequence[str], env: dict[str, Function]
) -> tuple[list[str], list[list[str]]]:
    """Orders the Funcs of a pipeline for scheduling.

    Fills `fused_pairs` of the stages that others are computed with.

    Returns:
        The names, producers first, and the same names cut into groups that share loops
        (`compute_with`); within a group the Func whose loops are kept comes last.

    Raises:
        ScheduleError: A `compute_with` that cannot be.
    """
    callees = {name: list(direct_calls(f)) for name, f in env.items()}
    for function in env.values():
        _check_stages_in_order(function)
        _fill_fused_pairs(function, env)

    reached = _transitive(callees)
    graph: Graph = {name: [] for name in env}
    neighbours: dict[str, set[str]] = {name: set() for name in env}
    pairs: list[FusedPair] = []
    for function in env.values():
        for definition in function.stages():
            for pair in definition.schedule.fused_pairs:
                _check_pair(pair, reached, env)
                pairs.append(pair)
                neighbours[pair.func_1].add(pair.func_2)
                neighbours[pair.func_2].add(pair.func_1)
                graph[pair.func_1].append(pair.func_2)
    _check_acyclic(pairs, env)

    groups, group_of = _find_groups(sorted(env), neighbours)
    for name in env:
        own = group_of[name]
        graph[name].append(own)
        inputs = graph.setdefault(own, [])
        inputs.extend([c for c in callees[name] if c != name and c not in inputs])
    visited_at = {name: i for i, name in enumerate(env)}
    for inputs in graph.values():
        inputs.sort(key=lambda n: (_stem(n), visited_at.get(n, 0), n))

    order = _depth_first(outputs, graph)
    place = {name: i for i, name in enumerate(order)}
    group_order = [
        sorted([n for n in groups[name] if n in place], key=lambda n: place[n])
        for name in order
        if name in groups
    ]
    return [name for group in group_order for name in group], group_order


def _stem(name: str) -> str:
    """The name without what makes it unique, so that the order does not depend on counters."""
    return name.split("$", 1)[0].rstrip("0123456789")


def _fused_parent(definition: Definition) -> tuple[str, int] | None:
    level = definition.schedule.fuse_level
    if level.is_inlined() or level.is_root():
        return None
    return str(level.func), max(level.stage, 0)


def _check_stages_in_order(function: Function) -> None:
    """Refuse stages fused with another Func's stages in crossing order."""
    latest: dict[str, tuple[int, int]] = {}
    consecutive = False
    for i, definition in enumerate(function.stages()):
        parent = _fused_parent(definition)
        if parent is None:
            consecutive = False
            continue
        name, stage = parent
        before = latest.get(name, (-1, -1))
        if not (stage > before[1] or (stage == before[1] and consecutive)):
            raise ScheduleError(
                f"compute_with asks stage {before[0]} of {function.name} to run with stage "
                f"{before[1]} of {name}, and stage {i} with stage {stage}: the stages of a Func "
                "must keep their order",
                definition.where or function.where,
            )
        latest[name] = (i, stage)
        consecutive = True


def _fill_fused_pairs(function: Function, env: dict[str, Function]) -> None:
    for stage, definition in enumerate(function.stages()):
        level = definition.schedule.fuse_level
        parent = _fused_parent(definition)
        if parent is None:
            continue
        parent_name, parent_stage = parent
        if parent_name not in env:
            raise ScheduleError(
                f"{function.name} cannot be computed with {parent_name}, which the pipeline does "
                "not use",
                definition.where or function.where,
            )
        pair = FusedPair(parent_name, parent_stage, function.name, stage, level.var)
        target = env[parent_name].definition(parent_stage)
        target.schedule.fused_pairs.append(pair)
        for special in target.specializations:
            special.definition.schedule.fused_pairs.append(pair)


def _transitive(callees: Graph) -> dict[str, set[str]]:
    """For each Func all that it calls, directly or not, itself left out unless it is reached."""
    reached: dict[str, set[str]] = {}
    for start in callees:
        seen: set[str] = set()
        pending = [c for c in callees[start] if c != start]
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            known = reached.get(name)
            if known is not None:
                seen |= known
            else:
                pending.extend(callees.get(name, ()))
        reached[start] = seen
    return reached


def _check_pair(pair: FusedPair, reached: dict[str, set[str]], env: dict[str, Function]) -> None:
    one, two = pair.func_1, pair.func_2
    if two in reached[one] or one in reached[two]:
        raise ScheduleError(
            f"{two} cannot be computed with {one}: one of them needs the other",
            env[two].where,
        )


def _check_acyclic(pairs: list[FusedPair], env: dict[str, Function]) -> None:
    known = {(p.func_1, p.func_2) for p in pairs}
    for one, two in known:
        if (two, one) in known:
            raise ScheduleError(
                f"{one} is to be computed with {two} and {two} with {one}; one direction is enough",
                env[one].where,
            )


def _find_groups(
    names: list[str], neighbours: dict[str, set[str]]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Connected components of the compute_with relation, under names no Func can have."""
    groups: dict[str, list[str]] = {}
    group_of: dict[str, str] = {}
    for start in names:
        if start in group_of:
            continue
        label = f"_fg{len(groups)}"
        members: list[str] = []
        pending = [start]
        while pending:
            name = pending.pop()
            if name in group_of:
                continue
            group_of[name] = label
            members.append(name)
            pending.extend(sorted(neighbours[name], reverse=True))
        groups[label] = members
    return groups, group_of


def _depth_first(roots: Sequence[str], graph: Graph) -> list[str]:
    """Names below the roots, each after those it needs."""
    order: list[str] = []
    done: set[str] = set()
    active: set[str] = set()

    def visit(name: str) -> None:
        active.add(name)
        for needed in graph[name]:
            if needed in done:
                continue
            if needed in active:
                raise InternalError(
                    f"no order to compute the Funcs in: {name} needs {needed}, which waits for it"
                )
            visit(needed)
        active.discard(name)
        done.add(name)
        order.append(name)

    for root in roots:
        if root not in done:
            visit(root)
    return order
