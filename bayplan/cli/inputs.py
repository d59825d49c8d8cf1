"""Gives a program its inputs and outputs: scalars, buffers, and sizes where none were given."""

from __future__ import annotations

from typing import Any

from bayplan.cli.failure import CommandError
from bayplan.cli.program import OutputSlot, Program
from bayplan.cli.values import (
    Shape,
    numpy_type,
    parse_buffer,
    parse_extents,
    parse_scalar,
)

# Extents to try for what nothing else decides: a picture of a usual size with three channels.
_USUAL_EXTENTS = (1000, 1000, 3)


class Options:
    """What the flags of ``run`` and ``storage`` say about inputs and sizes.

    Attributes:
        output_extents: ``[NUM,...]``, ``estimate``, or None to choose.
        default_buffers: The value of all buffer inputs not given, or None.
        default_scalars: The value of all scalars not given, or None.
        outputs_wanted: True when every output must be given a file.
    """

    __slots__ = ("default_buffers", "default_scalars", "output_extents", "outputs_wanted")

    def __init__(
        self,
        output_extents: str | None = None,
        default_buffers: str | None = None,
        default_scalars: str | None = None,
        *,
        outputs_wanted: bool = False,
    ) -> None:
        self.output_extents = output_extents
        self.default_buffers = default_buffers
        self.default_scalars = default_scalars
        self.outputs_wanted = outputs_wanted


class Box:
    """A region: the first index and the extent in each dimension, dimension 0 first."""

    __slots__ = ("extents", "mins")

    def __init__(self, mins: Shape, extents: Shape) -> None:
        self.mins = tuple(mins)
        self.extents = tuple(extents)

    def __str__(self) -> str:
        text = " × ".join(str(extent) for extent in self.extents) or "scalar"
        return text if not any(self.mins) else f"{text} at {self.mins}"


class Prepared:
    """A program with all its inputs set and its outputs allocated.

    Attributes:
        program: The program.
        buffers: The output Buffers, in order.
        arrays: The numpy arrays behind them.
        boxes: Their boxes.
        files: File to write by output name; outputs without one are not saved.
        inputs: What each input was given: name -> Box of a buffer or the scalar.
        origins: First index of each buffer input that does not start at 0.
        notes: Lines for the user: conversions, chosen sizes.
        target: What it runs on; None for HL_JIT_TARGET or this machine.
    """

    __slots__ = (
        "arrays", "boxes", "buffers", "files", "inputs", "notes", "origins", "program", "target",
    )  # fmt: skip

    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers: list[Any] = []
        self.arrays: list[Any] = []
        self.boxes: list[Box] = []
        self.files: dict[str, str] = {}
        self.inputs: dict[str, Any] = {}
        self.origins: dict[str, Shape] = {}
        self.notes: list[str] = []
        self.target: Any = None

    def run(self) -> None:
        """Calls the pipeline once."""
        given = () if self.target is None else (self.target,)
        self.program.pipeline.realize(self.buffers, *given)


def split_arguments(program: Program, arguments: tuple[str, ...]) -> dict[str, str]:
    """Splits ``name=value`` words and checks the names.

    ``output`` stands for the only output, as RunGen's examples have it.
    """
    given: dict[str, str] = {}
    slots = [slot.name for slot in program.outputs]
    for word in arguments:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise CommandError(f"{word!r}: expected name=value")
        if name == "output" and len(slots) == 1:
            name = slots[0]
        if name in given:
            raise CommandError(f"{name} is given twice")
        given[name] = value
    known = [*program.inputs, *program.params, *slots]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise CommandError(
            f"unknown argument {', '.join(unknown)}; {program.name} has {', '.join(known)}"
        )
    return given


def prepare(program: Program, given: dict[str, str], options: Options) -> Prepared:
    """Sets all scalars and buffers of the program and allocates its outputs.

    Raises:
        CommandError: Something is missing or malformed.
    """
    prepared = Prepared(program)
    _check_missing(program, given, options)
    _set_scalars(prepared, given, options)
    box = _given_box(program, options)
    arrays, box = _load_inputs(prepared, given, options, box)
    if box is None:
        box = _choose_box(prepared, arrays)
    _bind_inputs(prepared, arrays)
    _allocate_outputs(prepared, box)
    prepared.files = {s.name: given[s.name] for s in program.outputs if s.name in given}
    return prepared


def _check_missing(program: Program, given: dict[str, str], options: Options) -> None:
    missing = []
    for name, param in program.inputs.items():
        if name not in given and name not in program.values and not options.default_buffers:
            missing.append(f"{name} ({param.type()}, {param.dimensions()} dimensions)")
    for name, param in program.params.items():
        if name in given or name in program.values or options.default_scalars:
            continue
        if scalar_default(param) is None:
            missing.append(f"{name} ({param.type()})")
    if options.outputs_wanted:
        missing += [f"{s.name} (output)" for s in program.outputs if s.name not in given]
    if missing:
        raise CommandError(f"{program.name}: no value for {', '.join(missing)}")


def scalar_default(param: Any) -> Any:
    """The value that the Param was made with or set to, or None."""
    data = param.parameter()
    return getattr(data, "value", None)


def _scalar_estimate(program: Program, name: str, param: Any) -> Any:
    estimate = as_number(getattr(param.parameter(), "estimate", None))
    return program.values.get(name) if estimate is None else estimate


def as_number(expr: Any) -> Any:
    """Reads a constant Expr as a Python number; None when it is no constant or not there."""
    if expr is None or isinstance(expr, (bool, int, float)):
        return expr
    number = getattr(expr, "value", None)
    return number if isinstance(number, (bool, int, float)) else None


def _set_scalars(prepared: Prepared, given: dict[str, str], options: Options) -> None:
    program = prepared.program
    for name, param in program.params.items():
        text = given.get(name)
        if text is None and (name in program.values or scalar_default(param) is not None):
            text = "default"
        text = text or options.default_scalars or "default"
        words = text.split(",")
        if set(words) <= {"default", "estimate"}:
            value = None
            for word in words:
                if word == "estimate":
                    found = _scalar_estimate(program, name, param)
                else:
                    found = program.values.get(name, scalar_default(param))
                value = found if value is None else value
            if value is None:
                raise CommandError(f"{name}={text}: the program gives none")
        else:
            value = parse_scalar(name, text, param.type())
        param.set(value)
        prepared.inputs[name] = value


def _given_box(program: Program, options: Options) -> Box | None:
    text = options.output_extents
    if text is None:
        return None
    if text == "estimate":
        return _estimated_output(program)
    extents = parse_extents(text)
    if len(extents) != program.rank:
        raise CommandError(
            f"--output_extents={text}: {len(extents)} extents given, the output has {program.rank}"
        )
    mins = program.mins if program.mins and len(program.mins) == len(extents) else None
    return Box(mins or (0,) * len(extents), extents)


def _estimated_output(program: Program) -> Box:
    if program.extents is not None:
        return Box(program.mins or (0,) * len(program.extents), program.extents)
    box = _estimate_of(program.pipeline.outputs()[0].output_buffers()[0])
    if box is None:
        raise CommandError(f"{program.name}: the output has no estimates")
    return box


def _estimate_of(image: Any) -> Box | None:
    """The box that ``set_estimates`` gave to a buffer parameter, or None."""
    constraints = getattr(image.parameter(), "constraints", None)
    if constraints is None:
        return None
    mins = [as_number(dim.min_estimate) for dim in constraints]
    extents = [as_number(dim.extent_estimate) for dim in constraints]
    if None in mins or None in extents:
        return None
    return Box(tuple(mins), tuple(extents))


def query_inputs(program: Program, box: Box) -> dict[str, Box]:
    """Asks the pipeline which box of each buffer input it reads for a box of the output."""
    for param in program.inputs.values():
        param.reset()
    buffers = [_placeholder(program, slot, box) for slot in program.outputs]
    program.pipeline.infer_input_bounds(buffers if len(buffers) > 1 else buffers[0])
    boxes = {}
    for name, param in program.inputs.items():
        buffer = param.get()
        if buffer is None or not buffer.defined():
            # Not read for this box.
            boxes[name] = Box((0,) * param.dimensions(), (0,) * param.dimensions())
            continue
        dims = [buffer.dim(i) for i in range(param.dimensions())]
        boxes[name] = Box(tuple(d.min() for d in dims), tuple(d.extent() for d in dims))
        param.reset()
    return boxes


def _placeholder(program: Program, slot: OutputSlot, box: Box) -> Any:
    """A Buffer of the box for a query; its pages are never touched."""
    return _allocate(program.hl, slot, box)[1]


def _allocate(hl: Any, slot: OutputSlot, box: Box) -> tuple[Any, Any]:
    import numpy as np

    extents = box.extents[: slot.dimensions]
    array = np.zeros(tuple(reversed(extents)), numpy_type(slot.element_type))
    buffer = hl.Buffer(array)
    if slot.dimensions:
        buffer.set_min(list(box.mins[: slot.dimensions]))
    return array, buffer


def _load_inputs(
    prepared: Prepared, given: dict[str, str], options: Options, box: Box | None
) -> tuple[dict[str, Any], Box | None]:
    """Loads or makes the array of each buffer input.

    Returns:
        The arrays by name, and the box of the output when it is known by now: it is given, or
        an ``auto`` input asked for it.
    """
    import numpy as np

    program = prepared.program
    arrays: dict[str, Any] = {}
    required: dict[str, Box] = {}

    def required_box(name: str) -> Box:
        nonlocal box
        if not required:
            box = box or _estimated_output(program)
            required.update(query_inputs(program, box))
        return required[name]

    for name, param in program.inputs.items():
        text = given.get(name)
        if text is None and name in program.values:
            arrays[name] = np.ascontiguousarray(program.values[name], numpy_type(param.type()))
            continue

        def shape_of(word: str, name: str = name, param: Any = param) -> Shape:
            found = None if word == "auto" else _estimate_of(param)
            if found is None and word == "estimate" and program.extents is None:
                raise CommandError(f"{name}: no estimates are set for it")
            found = found or required_box(name)
            prepared.origins[name] = found.mins
            return found.extents

        arrays[name], notes = parse_buffer(
            name,
            text or options.default_buffers or "zero:auto",
            param.type(),
            param.dimensions(),
            shape_of,
        )
        prepared.notes += notes
    return arrays, box


def _choose_box(prepared: Prepared, arrays: dict[str, Any]) -> Box:
    """Chooses the box of the output: that of the first input, less what the inputs lack.

    RunGen gives the output the extents of the first input and lets a too small input grow by
    undefined pixels; here the output shrinks until the inputs cover what it needs.
    """
    program = prepared.program
    images = [name for name in arrays if name not in program.values]
    if not images:
        if program.extents is not None:
            return _estimated_output(program)
        raise CommandError(f"{program.name}: no input tells the size; give --output_extents=[...]")
    first = tuple(reversed(arrays[images[0]].shape))
    extents = [*first[: program.rank], *_guess_extents(program)[len(first) :]]
    mins = [0] * program.rank
    for _ in range(8):
        if program.multiples is not None:
            extents = [e // m * m for e, m in zip(extents, program.multiples)]
        required = query_inputs(program, Box(tuple(mins), tuple(extents)))
        if not _shrink(arrays, images, required, mins, extents):
            break
    if min(extents, default=1) <= 0:
        raise CommandError(f"{program.name}: the input is too small for any output", 1)
    box = Box(tuple(mins), tuple(extents))
    if box.extents[: len(first)] != first[: program.rank] or any(mins):
        prepared.notes.append(f"output size chosen: {box} (the input covers no more)")
    return box


def _guess_extents(program: Program) -> list[int]:
    """Extents for dimensions of the output that no input tells: usual, promised or estimated."""
    if program.extents is not None:
        return list(program.extents)
    guess = [*_USUAL_EXTENTS, *[1] * program.rank][: program.rank]
    buffer = program.pipeline.outputs()[0].output_buffers()[0]
    for d, constraint in enumerate(buffer.parameter().constraints):
        promised = as_number(constraint.extent_estimate)
        guess[d] = guess[d] if promised is None else int(promised)
    return guess


def _shrink(
    arrays: dict[str, Any],
    images: list[str],
    required: dict[str, Box],
    mins: list[int],
    extents: list[int],
) -> bool:
    """Takes off the output what the inputs lack, per dimension; False when nothing lacks."""
    changed = False
    for name in images:
        have = tuple(reversed(arrays[name].shape))
        need = required[name]
        for d in range(min(len(extents), len(have))):
            if need.extents[d] <= 0:
                continue
            below = max(0, -need.mins[d])
            above = max(0, need.mins[d] + need.extents[d] - have[d])
            if below or above:
                mins[d] += below
                extents[d] -= below + above
                changed = True
    return changed and min(extents) > 0


def _bind_inputs(prepared: Prepared, arrays: dict[str, Any]) -> None:
    program = prepared.program
    for name, param in program.inputs.items():
        array = arrays[name]
        buffer = program.hl.Buffer(array)
        mins = prepared.origins.get(name, (0,) * array.ndim)
        if any(mins):
            buffer.set_min(list(mins))
        param.set(buffer)
        prepared.inputs[name] = Box(mins, tuple(reversed(array.shape)))


def _allocate_outputs(prepared: Prepared, box: Box) -> None:
    for slot in prepared.program.outputs:
        array, buffer = _allocate(prepared.program.hl, slot, box)
        prepared.arrays.append(array)
        prepared.buffers.append(buffer)
        prepared.boxes.append(Box(box.mins[: slot.dimensions], box.extents[: slot.dimensions]))
