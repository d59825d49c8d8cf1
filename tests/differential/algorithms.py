"""Draws random algorithms: Funcs of one to three dimensions that read each other and inputs."""

from __future__ import annotations

from tests.differential.choices import Choices
from tests.differential.expressions import Scope
from tests.differential.program import Input, Program
from tests.differential.stages import COORDINATES, Index, Stage
from tests.differential.updates import combined, draw_update
from tests.differential.values import (
    CONSTRUCTORS,
    FLOAT_TYPES,
    TYPES,
    Value,
    cast,
    type_range,
    wrapped,
)

# Every coordinate of every Func stays in here: what the loads below can reach in five stages.
REACH = 2000
OUTPUT_TYPES = tuple(kind for kind in TYPES if kind != "u64")
BOUNDARIES = ("repeat_edge", "constant_exterior", "repeat_image", "mirror_image", "mirror_interior")


class Algorithm:
    """Draws the stages of one program; `stored` ones have many temporaries."""

    def __init__(self, choices: Choices, stored: bool = False) -> None:
        self.choices = choices
        self.stored = stored
        # Chains of pointwise stages, which can be computed in place.
        self.pointwise = stored and choices.chance(35)
        self.program = Program()
        self.sources: list[Stage] = []
        self.stages: list[Stage] = []
        self.upscales = 2
        # Two stages that do not depend on each other, for compute_with.
        self.siblings: list[Stage] = []
        self.hidden: Stage | None = None
        self.counter = 0
        self.params: list[Value] = []

    def draw(self) -> None:
        """Draws everything; the last stage is the output."""
        choices, program = self.choices, self.program
        program.algorithm.append('x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")')
        for i in range(choices.between(1, 2)):
            kind = choices.pick(("u8", "i32", "u16", "i16", "f32", "i8", "u32", "i64", "f64"))
            dims = choices.weighted([(6, 2), (2, 1), (2, 3)])
            spec = Input(f"in{i}", kind, [0] * dims, [1] * dims)
            program.inputs.append(spec)
            self.sources.append(_input_stage(spec))
        if choices.chance(40):
            program.params.append(("p0", "i32", choices.between(0, 6)))
            self.params.append(Value("p0", "i32", 0, 6))
        counts = [(1, 1), (4, 2), (5, 3), (4, 4), (2, 5)]
        count = choices.weighted([(1, 3), (4, 4), (5, 5), (3, 6)] if self.stored else counts)
        pair_at = choices.below(count - 2) if count > 2 and choices.chance(15) else count
        for i in range(count):
            paired = i - pair_at in (0, 1)
            self.hidden = self.stages[-1] if i == pair_at + 1 else None
            self._draw_stage(f"f{i}", is_output=i == count - 1, paired=paired)
        self._finish()

    def _draw_stage(self, name: str, is_output: bool, paired: bool) -> None:
        choices = self.choices
        if not is_output and not paired and choices.chance(12):
            self._draw_boundary(name)
            return
        dims = 2 if paired else choices.weighted([(12, 2), (6, 1), (4, 3), (1, 0)])
        dims = 1 if is_output and dims == 0 else dims
        if self.pointwise or (self.stored and choices.chance(70)):
            dims = 2
        # The wheel takes no numpy array of uint64.
        allowed = OUTPUT_TYPES if is_output else TYPES
        kinds = [choices.pick(allowed)]
        if self.stored and self.stages and self.stages[-1].values[0].kind in allowed:
            if self.pointwise or choices.chance(60):
                kinds = [self.stages[-1].values[0].kind]
        if choices.chance(12):
            kinds.append(choices.pick(allowed))
        stage = Stage(name, dims, [])
        scope = self._scope(stage, 0, [])
        stage.values = [self._value(scope, kind) for kind in kinds]
        args = ", ".join(COORDINATES[:dims]) or "()"
        self._line(f'{name} = hl.Func("{name}")')
        self._line(f"{name}[{args}] = {_tuple([v.text for v in stage.values])}")
        if paired:
            self.siblings.append(stage)
        elif choices.chance(10 if self.pointwise else 35):
            for _ in range(choices.between(1, 2)):
                draw_update(self, stage)
        self.stages.append(stage)

    def _value(self, scope: Scope, kind: str) -> Value:
        """Draws a value of a definition; it nearly always depends on an earlier stage."""
        value = scope.expression(kind, self.choices.between(1, 3))
        loaded = cast(scope.leaf(kind), kind) if self.choices.chance(85) else None
        if loaded is None:
            return value
        total = combined(loaded.text, loaded, value, self.choices.pick(("+", "max", "min")), 1)
        return value if total is None else total

    def _line(self, text: str) -> None:
        self.program.algorithm.append(text)

    def _draw_boundary(self, name: str) -> None:
        """A boundary condition around an input or a stage, as a Func of its own."""
        choices = self.choices
        stages = [s for s in self.stages if len(s.values) == 1 and s.dims > 0]
        source = choices.pick([*self.sources, *stages])
        which = choices.pick(BOUNDARIES)
        value = source.values[0]
        arguments = [source.name]
        if which == "constant_exterior":
            number = choices.between(0, 5)
            arguments.append(f"hl.cast({CONSTRUCTORS[value.kind]}, {number})")
            low, high = min(value.low, number), max(value.high, number)
            value = Value(name, value.kind, low, high, value.fraction)
        stage = Stage(name, source.dims, [value])
        sizes = [choices.between(3, 9) for _ in range(source.dims)]
        indices = [Index("", None, 0, 0, 1, 0, n - 1) for n in sizes]
        stage.uses.append((0, source, indices))
        if source.is_input:
            stage.vars = [f"hl._{d}" for d in range(source.dims)]
        else:
            stage.vars = list(source.vars)
            arguments.append("[" + ", ".join(f"(0, {n})" for n in sizes) + "]")
        self._line(f"{name} = hl.BoundaryConditions.{which}({', '.join(arguments)})")
        self.stages.append(stage)

    def _scope(self, stage: Stage, definition: int, rvars: list[Value]) -> Scope:
        """What the expressions of one definition may mention."""
        coordinates = [Value(v, "i32", -REACH, REACH) for v in COORDINATES[: stage.dims]]

        def load(scope: Scope, kind: str) -> Value | None:
            return self._load(scope, stage, definition, rvars)

        def reduction(scope: Scope, kind: str) -> Value | None:
            return self._reduction(scope, stage, definition, kind)

        return Scope(self.choices, coordinates + rvars, load, self.params, reduction)

    def _load(
        self, scope: Scope, stage: Stage, definition: int, rvars: list[Value]
    ) -> Value | None:
        choices = self.choices
        candidates = [*reversed(self.stages), *self.sources]
        if self.hidden is not None:
            candidates.remove(self.hidden)
        callee = choices.pick(candidates)
        if self.stored and choices.chance(90 if self.pointwise else 50):
            callee = candidates[0]
        inside = [v for v in scope.coordinates if v.text not in COORDINATES]
        same = 98 if self.pointwise else 60
        if self.stored and callee.dims == stage.dims and choices.chance(same):
            indices = [Index(name, d, 1, 0, 1) for d, name in enumerate(COORDINATES[: stage.dims])]
        else:
            indices = [self._index(scope, stage, inside, d) for d in range(callee.dims)]
        stage.uses.append((definition, callee, indices))
        component = choices.below(len(callee.values))
        text = f"{callee.name}[{', '.join(i.text for i in indices) or '()'}]"
        if len(callee.values) > 1:
            text += f"[{component}]"
        known = callee.values[component]
        return Value(text, known.kind, known.low, known.high, known.fraction)

    def _index(self, scope: Scope, stage: Stage, rvars: list[Value], d: int) -> Index:
        choices = self.choices
        if d >= stage.dims or choices.chance(6):  # always so in a Func without dimensions
            n = choices.between(0, 2)
            return Index(str(n), None, 0, 0, 1, n, n)
        variable = d
        if choices.chance(8):
            variable = choices.below(stage.dims)
        name = COORDINATES[variable]
        if rvars and choices.chance(50):
            r = choices.pick(rvars)
            return Index(f"{name} + {r.text}", variable, 1, 0, 1, int(r.low), int(r.high))
        form = choices.weighted(
            [(12, "offset"), (2, "half"), (2, "double"), (1, "mirrored"), (2, "data"), (1, "mod")]
        )
        if form == "double" and (self.upscales == 0 or stage.dims > 2):
            form = "offset"
        if form == "half":
            k = choices.between(0, 2)
            return Index(f"{name} / 2 + {k}", variable, 1, 2 * k, 2)
        if form == "double":
            self.upscales -= 1
            k = choices.between(0, 1)
            return Index(f"2 * {name} + {k}", variable, 2, k, 1)
        if form == "mirrored":
            k = choices.between(0, 10)
            return Index(f"{k} - {name}", variable, -1, k, 1)
        if form == "mod":
            k = choices.between(2, 5)
            return Index(f"{name} % {k}", None, 0, 0, 1, 0, k - 1)
        if form == "data":
            return self._data_index(scope)
        k = choices.near_zero(3)
        return Index(f"{name} + {k}" if k else name, variable, 1, k, 1)

    def _data_index(self, scope: Scope) -> Index:
        """An index that is itself loaded, bounded by a clamp."""
        low = self.choices.near_zero(3)
        high = low + self.choices.between(0, 9)
        inner = Scope(self.choices, scope.coordinates, scope.load, [], None)
        value = cast(inner.leaf("i32"), "i32")
        assert value is not None
        return Index(f"hl.clamp({value.text}, {low}, {high})", None, 0, 0, 1, low, high)

    def domain(self, count: int, may_be_empty: bool = False) -> tuple[str, list[Value]]:
        """Draws an RDom line; returns its name and its RVars as values.

        Args:
            count: Number of dimensions.
            may_be_empty: Whether an extent may be a parameter, whose value can be 0.
        """
        choices = self.choices
        name = f"r{self.counter}"
        self.counter += 1
        ranges = [(choices.near_zero(2), choices.between(1, 5)) for _ in range(count)]
        extents = [str(n) for _, n in ranges]
        if may_be_empty and self.params and choices.chance(25):
            ranges[0] = (ranges[0][0], int(self.params[0].high))
            extents[0] = self.params[0].text
        texts = ", ".join(f"({low}, {n})" for (low, _), n in zip(ranges, extents, strict=True))
        self._line(f'{name} = hl.RDom([{texts}], "{name}")')
        rvars = [
            Value(f"{name}.{COORDINATES[i]}", "i32", low, low + n - 1)
            for i, (low, n) in enumerate(ranges)
        ]
        return name, rvars

    def _reduction(self, scope: Scope, stage: Stage, definition: int, kind: str) -> Value | None:
        """An inline sum, product, minimum, maximum, argmin or argmax."""
        choices = self.choices
        name, rvars = self.domain(choices.weighted([(3, 1), (1, 2)]))
        inner = Scope(choices, scope.coordinates + rvars, scope.load, self.params, None)
        body = inner.expression(kind, choices.between(0, 1))
        if not any(r.text in body.text for r in rvars):
            # What a reduction of something that does not vary means is not agreed upon.
            return None
        count = 1
        for r in rvars:
            count *= int(r.high - r.low) + 1
        which = choices.weighted(
            [(4, "sum"), (2, "maximum"), (2, "minimum"), (1, "argmin"), (1, "argmax")]
        )
        if which in ("argmin", "argmax"):
            if not body.exact or kind in FLOAT_TYPES:
                return None
            component = choices.below(len(rvars) + 1)
            text = f"hl.{which}({name}, {body.text})[{component}]"
            if component == len(rvars):
                return Value(text, kind, body.low, body.high, body.fraction)
            r = rvars[component]
            # With an empty or untouched domain the index would be 0.
            return cast(Value(text, "i32", min(r.low, 0), max(r.high, 0)), kind)
        text = f"hl.{which}({name}, {body.text})"
        if which != "sum":
            return Value(text, kind, body.low, body.high, body.fraction)
        low, high = min(0, body.low * count), max(0, body.high * count)
        if kind in FLOAT_TYPES:
            return Value(text, kind, low, high, body.fraction)
        return wrapped(text, kind, int(low), int(high))

    def _finish(self) -> None:
        """Sizes the output, then every input by what is needed of it."""
        choices, program = self.choices, self.program
        output = self.stages[-1]
        program.output = output.name
        program.kinds = [v.kind for v in output.values]
        program.exact = [v.kind not in FLOAT_TYPES or v.exact for v in output.values]
        limits = (41, 13, 4)
        program.mins = [choices.near_zero(4) for _ in range(output.dims)]
        program.extents = [choices.between(1, limits[d]) for d in range(output.dims)]
        for d, touched in enumerate(output.touched):
            if touched is not None:
                low = min(program.mins[d], touched[0])
                high = max(program.mins[d] + program.extents[d], touched[1] + 1)
                program.mins[d], program.extents[d] = low, high - low

    def size_inputs(self) -> None:
        """Gives every input the region that the output needs, and some more for tails."""
        program = self.program
        output = self.stages[-1]
        boxes: dict[Stage, list[tuple[int, int]]] = {
            output: [(m, m + e - 1) for m, e in zip(program.mins, program.extents, strict=True)]
        }
        for stage in reversed(self.stages):
            if stage not in boxes:
                continue
            box = [
                (low - 32, high + 32) if d == 0 else (low - 24, high + 24)
                for d, (low, high) in enumerate(boxes[stage])
            ]
            for d, touched in enumerate(stage.touched):
                if touched is not None:
                    box[d] = min(box[d][0], touched[0]), max(box[d][1], touched[1])
            for _, callee, indices in stage.uses:
                need = [i.interval(box) for i in indices]
                old = boxes.get(callee)
                if old is not None:
                    pairs = zip(need, old, strict=True)
                    need = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs]
                boxes[callee] = need
        for spec, source in zip(program.inputs, self.sources, strict=True):
            box = boxes.get(source, [(0, 0)] * source.dims)
            spec.mins = [low for low, _ in box]
            spec.extents = [high - low + 1 for low, high in box]


def _input_stage(spec: Input) -> Stage:
    if spec.kind in FLOAT_TYPES:
        value = Value(spec.name, spec.kind, -8, 8, 2)
    else:
        least, greatest = type_range(spec.kind)
        value = Value(spec.name, spec.kind, max(least, -1000), min(greatest, 1000))
    return Stage(spec.name, len(spec.extents), [value], is_input=True)


def _tuple(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"
