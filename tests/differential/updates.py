"""Draws update definitions: pointwise, reductions, scans, scatters, single points, Tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.expressions import Scope
from tests.differential.stages import COORDINATES, Index, Stage
from tests.differential.values import Value, cast, wrapped

if TYPE_CHECKING:
    from tests.differential.algorithms import Algorithm


def draw_update(algorithm: Algorithm, stage: Stage) -> None:
    """Adds one random update definition to a stage and to the program's lines."""
    choices = algorithm.choices
    forms = [(3, _pointwise), (5, _reduction), (2, _scan), (3, _scatter), (2, _slice)]
    if stage.dims == 0:
        forms = forms[:2]
    before = len(algorithm.program.algorithm)
    uses = len(stage.uses)
    if not choices.weighted(forms)(algorithm, stage):
        # An undefined result: take back what was drawn, RDoms included.
        del algorithm.program.algorithm[before:]
        del stage.uses[uses:]


def _definition(stage: Stage) -> int:
    return len(stage.rvars) + 1


def _commit(
    algorithm: Algorithm, stage: Stage, rvars: list[Value], pure: list[int], values: list[Value]
) -> None:
    """Notes the update's loops and widens what is known about the stage's values."""
    # An RDom that the definition does not mention makes no loops.
    last = algorithm.program.algorithm[-1]
    used = any(r.text in last for r in rvars)
    stage.rvars.append([r.text for r in rvars] if used else [])
    stage.update_args.append(pure)
    stage.values = [_union(a, b) for a, b in zip(stage.values, values, strict=True)]


def _union(a: Value, b: Value) -> Value:
    fraction = None
    if a.fraction is not None and b.fraction is not None:
        fraction = max(a.fraction, b.fraction)
    return Value(a.text, a.kind, min(a.low, b.low), max(a.high, b.high), fraction)


def _reference(stage: Stage, args: list[str]) -> list[str]:
    text = f"{stage.name}[{', '.join(args) or '()'}]"
    if len(stage.values) == 1:
        return [text]
    return [f"{text}[{i}]" for i in range(len(stage.values))]


def _assign(algorithm: Algorithm, stage: Stage, args: list[str], texts: list[str]) -> None:
    right = texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"
    algorithm.program.algorithm.append(f"{stage.name}[{', '.join(args) or '()'}] = {right}")


def combined(old: str, known: Value, new: Value, which: str, count: int) -> Value | None:
    """`old` combined with `new`, `count` times over."""
    kind = known.kind
    if which in ("max", "min"):
        fraction = None
        if known.fraction is not None and new.fraction is not None:
            fraction = max(known.fraction, new.fraction)
        text = f"hl.{which}({old}, {new.text})"
        low, high = min(known.low, new.low), max(known.high, new.high)
        return Value(text, kind, low, high, fraction)
    low, high = known.low + min(0, new.low) * count, known.high + max(0, new.high) * count
    text = f"{old} + {new.text}"
    if kind[0] == "f":
        exact = known.fraction is not None and new.fraction is not None
        fraction = max(known.fraction or 0, new.fraction or 0) if exact else None
        return Value(text, kind, low, high, fraction)
    return wrapped(text, kind, int(low), int(high))


def _pointwise(algorithm: Algorithm, stage: Stage) -> bool:
    """f[x, y] = f[x, y] op e, without an RDom."""
    scope = algorithm._scope(stage, _definition(stage), [])
    args = list(COORDINATES[: stage.dims])
    values = []
    for old, known in zip(_reference(stage, args), stage.values, strict=True):
        new = scope.expression(known.kind, 1)
        value = combined(old, known, new, algorithm.choices.pick(("+", "max", "min")), 1)
        if value is None:
            return False
        values.append(value)
    _assign(algorithm, stage, args, [v.text for v in values])
    _commit(algorithm, stage, [], list(range(stage.dims)), values)
    return True


def _reduction(algorithm: Algorithm, stage: Stage) -> bool:
    """f[x, y] op= e(r), at times only where a condition on the RDom holds."""
    choices = algorithm.choices
    name, rvars = algorithm.domain(choices.weighted([(2, 1), (2, 2)]), may_be_empty=True)
    _where(algorithm, stage, name, rvars)
    scope = algorithm._scope(stage, _definition(stage), rvars)
    args = list(COORDINATES[: stage.dims])
    count = _points(rvars)
    values = []
    which = choices.pick(("+", "max", "min"))
    for old, known in zip(_reference(stage, args), stage.values, strict=True):
        new = scope.expression(known.kind, choices.between(0, 2))
        value = combined(old, known, new, which, count)
        if value is None:
            return False
        values.append(value)
    if len(values) == 1:
        stage.rfactorable.append(len(stage.rvars))
    _assign(algorithm, stage, args, [v.text for v in values])
    _commit(algorithm, stage, rvars, list(range(stage.dims)), values)
    return True


def _points(rvars: list[Value]) -> int:
    count = 1
    for r in rvars:
        count *= int(r.high - r.low) + 1
    return count


def _where(algorithm: Algorithm, stage: Stage, name: str, rvars: list[Value]) -> None:
    """At times restricts an RDom by a condition on its RVars, perhaps one that loads."""
    choices = algorithm.choices
    if not choices.chance(35):
        return
    r = choices.pick(rvars)
    conditions = [f"{r.text} != {choices.near_zero(3)}", f"{r.text} % 2 == {choices.below(2)}"]
    if len(rvars) > 1:
        a, b = rvars[0].text, rvars[1].text
        conditions += [f"{a} + {b} < {choices.between(0, 5)}", f"{a} <= {b}"]
    source = choices.pick(algorithm.sources)
    index = ", ".join(rvars[min(d, len(rvars) - 1)].text for d in range(source.dims))
    if source.values[0].kind[0] != "f":
        conditions.append(f"{source.name}[{index}] > {choices.between(0, 30)}")
    condition = choices.pick(conditions)
    if condition.startswith("in"):
        stage.uses.append((_definition(stage), source, _rdom_indices(source, rvars)))
    algorithm.program.algorithm.append(f"{name}.where({condition})")


def _rdom_indices(source: Stage, rvars: list[Value]) -> list[Index]:
    """The indices of a load that only RVars index."""
    chosen = [rvars[min(d, len(rvars) - 1)] for d in range(source.dims)]
    return [Index(r.text, None, 0, 0, 1, int(r.low), int(r.high)) for r in chosen]


def _scan(algorithm: Algorithm, stage: Stage) -> bool:
    """f[x, r] = f[x, r - 1] op e: each step needs the one before."""
    choices = algorithm.choices
    axis = choices.below(stage.dims)
    start, count = choices.between(1, 2), choices.between(1, 6)
    name = f"r{algorithm.counter}"
    algorithm.counter += 1
    algorithm.program.algorithm.append(f'{name} = hl.RDom([({start}, {count})], "{name}")')
    r = Value(f"{name}.x", "i32", start, start + count - 1)
    scope = algorithm._scope(stage, _definition(stage), [r])
    here, before = list(COORDINATES[: stage.dims]), list(COORDINATES[: stage.dims])
    here[axis], before[axis] = r.text, f"{r.text} - 1"
    # The coordinate that r replaces does not exist here.
    scope.coordinates = [v for v in scope.coordinates if v.text != COORDINATES[axis]]
    scope = _without_loads_by(algorithm, stage, scope, axis)
    values = []
    for old, known in zip(_reference(stage, before), stage.values, strict=True):
        new = scope.expression(known.kind, 1)
        value = combined(old, known, new, choices.pick(("+", "max")), count)
        if value is None:
            return False
        values.append(value)
    _assign(algorithm, stage, here, [v.text for v in values])
    _touch(stage, axis, start - 1, start + count - 1)
    _commit(algorithm, stage, [r], [d for d in range(stage.dims) if d != axis], values)
    return True


def _without_loads_by(algorithm: Algorithm, stage: Stage, scope: Scope, axis: int) -> Scope:
    """The same scope, where loads that need the missing coordinate are not drawn."""
    plain = scope.load

    def load(inner: Scope, kind: str) -> Value | None:
        size = len(stage.uses)
        value = plain(inner, kind)
        if value is None:
            return None
        for _, _, indices in stage.uses[size:]:
            if any(i.variable == axis or COORDINATES[axis] in _words(i.text) for i in indices):
                del stage.uses[size:]
                return None
        return value

    return Scope(algorithm.choices, scope.coordinates, load, scope.params, None)


def _words(text: str) -> set[str]:
    for c in "()[],+-*/%<>=!&|^~":
        text = text.replace(c, " ")
    return set(text.split())


def _touch(stage: Stage, axis: int, low: int, high: int) -> None:
    old = stage.touched[axis]
    if old is not None:
        low, high = min(low, old[0]), max(high, old[1])
    stage.touched[axis] = (low, high)


def _scatter(algorithm: Algorithm, stage: Stage) -> bool:
    """f[clamp(data(r))] += e: a histogram."""
    choices = algorithm.choices
    if len(stage.values) != 1:
        return False
    _, rvars = algorithm.domain(choices.weighted([(2, 2), (1, 1)]), may_be_empty=True)
    axis = choices.below(stage.dims)
    scope = algorithm._scope(stage, _definition(stage), rvars)
    scope.coordinates = [v for v in scope.coordinates if v.text != COORDINATES[axis]]
    scope = _without_loads_by(algorithm, stage, scope, axis)
    low = choices.near_zero(2)
    high = low + choices.between(1, 7)
    index = cast(scope.expression(choices.pick(("i32", "u8", "i16")), 1), "i32")
    if index is None:
        return False
    args = list(COORDINATES[: stage.dims])
    args[axis] = f"hl.clamp({index.text}, {low}, {high})"
    known = stage.values[0]
    new = scope.expression(known.kind, choices.between(0, 1))
    if new.fraction is None:
        return False
    old = _reference(stage, args)[0]
    value = combined(old, known, new, choices.pick(("+", "max")), _points(rvars))
    if value is None:
        return False
    _assign(algorithm, stage, args, [value.text])
    _touch(stage, axis, low, high)
    _commit(algorithm, stage, rvars, [d for d in range(stage.dims) if d != axis], [value])
    return True


def _slice(algorithm: Algorithm, stage: Stage) -> bool:
    """f[x, 3] = e: one row or column is overwritten."""
    choices = algorithm.choices
    axis = choices.below(stage.dims)
    scope = algorithm._scope(stage, _definition(stage), [])
    scope.coordinates = [v for v in scope.coordinates if v.text != COORDINATES[axis]]
    scope = _without_loads_by(algorithm, stage, scope, axis)
    at = choices.between(0, 4)
    args = list(COORDINATES[: stage.dims])
    args[axis] = str(at)
    values = [scope.expression(v.kind, 1) for v in stage.values]
    _assign(algorithm, stage, args, [v.text for v in values])
    _touch(stage, axis, at, at)
    _commit(algorithm, stage, [], [d for d in range(stage.dims) if d != axis], values)
    return True
