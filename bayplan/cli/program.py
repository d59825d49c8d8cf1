"""Finds the pipeline that ``FILE.py[:name]`` means, with its inputs and parameters by name.

Two conventions serve the applications of this repository and a user's single file:

- ``build(hl)`` returns an object with ``output`` (a Func or a Pipeline) and, where there are any,
  ``inputs`` and ``params`` (ImageParams and Params by name), ``values`` (usual values by name),
  ``extents`` and ``mins`` (the usual box of the output) and ``multiples`` (what its extents must
  be multiples of). It may also return a bare Func or Pipeline.
- A Func or Pipeline at the top level of the module.

For a bare Func or Pipeline, the ImageParams and Params that it reads are its inputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from bayplan.cli.failure import CommandError


class OutputSlot:
    """One buffer that a run writes: an output Func, or one value of a Tuple.

    Attributes:
        name: The Func's name, followed by ``.0``, ``.1``, ... when the Func has several values.
        element_type: The ``Type`` of its elements.
        dimensions: The number of dimensions.
    """

    __slots__ = ("dimensions", "element_type", "name")

    def __init__(self, name: str, element_type: Any, dimensions: int) -> None:
        self.name = name
        self.element_type = element_type
        self.dimensions = dimensions


class Program:
    """A pipeline found in a file, ready to be given inputs.

    Attributes:
        hl: The module it was built with.
        name: The name for messages and results.
        pipeline: The Pipeline.
        outputs: What a run writes, in order.
        inputs: ImageParams by the name used on the command line.
        params: Params by the name used on the command line.
        values: Usual values by name, from the builder; may be empty.
        extents: Usual extents of the output, or None.
        mins: Usual origin of the output, or None.
        multiples: What the extents of the output must be multiples of, or None.
    """

    __slots__ = (
        "extents",
        "hl",
        "inputs",
        "mins",
        "multiples",
        "name",
        "outputs",
        "params",
        "pipeline",
        "values",
    )

    def __init__(self, hl: Any, name: str, built: Any) -> None:
        self.hl = hl
        self.name = name
        target = built if isinstance(built, (hl.Func, hl.Pipeline)) else built.output
        self.pipeline = target if isinstance(target, hl.Pipeline) else hl.Pipeline(target)
        self.outputs = _list_outputs(self.pipeline)
        if target is built:
            self.inputs, self.params = _find_parameters(self.pipeline)
            built = None  # a Func has methods of its own by some of the names below
        else:
            self.inputs = dict(getattr(built, "inputs", None) or {})
            self.params = dict(getattr(built, "params", None) or {})
        self.values: dict[str, Any] = dict(getattr(built, "values", None) or {})
        self.extents = _as_tuple(getattr(built, "extents", None))
        self.mins = _as_tuple(getattr(built, "mins", None))
        self.multiples = _as_tuple(getattr(built, "multiples", None))

    @property
    def rank(self) -> int:
        """The number of dimensions of the outputs (the largest, where they differ)."""
        return max(slot.dimensions for slot in self.outputs)


def _as_tuple(extents: Any) -> tuple[int, ...] | None:
    return None if extents is None else tuple(int(extent) for extent in extents)


def strip_number(name: str) -> str:
    """Takes the ``$3`` off a Func's name that only keeps it apart from its namesakes."""
    return re.sub(r"\$\d+$", "", name)


def _list_outputs(pipeline: Any) -> list[OutputSlot]:
    slots = []
    for func in pipeline.outputs():
        name = strip_number(func.name())
        types = list(func.types())
        for i, element_type in enumerate(types):
            full = name if len(types) == 1 else f"{name}.{i}"
            slots.append(OutputSlot(full, element_type, func.dimensions()))
    return slots


class _Handle:
    """An input found in a pipeline, with the methods of ImageParam and Param used here."""

    __slots__ = ("_parameter",)

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def parameter(self) -> Any:
        return self._parameter

    def name(self) -> str:
        return str(self._parameter.name)

    def type(self) -> Any:
        return self._parameter.type

    def dimensions(self) -> int:
        return int(self._parameter.dimensions)

    def set(self, value: Any) -> None:
        if self._parameter.is_buffer:
            self._parameter.buffer = value
        else:
            self._parameter.value = value

    def get(self) -> Any:
        return self._parameter.buffer if self._parameter.is_buffer else self._parameter.value

    def reset(self) -> None:
        self.set(None)


def _find_parameters(pipeline: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gathers the ImageParams and the Params that a pipeline reads, by name."""
    inputs: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for argument in pipeline.infer_arguments():
        source = argument.source
        # A Buffer that stands in the algorithm itself is no input.
        if hasattr(source, "is_buffer"):
            found = inputs if source.is_buffer else params
            found[strip_number(source.name)] = _Handle(source)
    return inputs, params


def split_spec(spec: str) -> tuple[Path, str | None]:
    """Splits ``FILE.py:name`` into the path and the name, or None where no name is given."""
    head, colon, tail = spec.rpartition(":")
    if colon and (head.endswith(".py") or Path(head).is_file()):
        if not tail.isidentifier():
            raise CommandError(f"{spec}: {tail!r} is not a name")
        return Path(head), tail
    return Path(spec), None


def load_program(spec: str, hl: Any = None) -> Program:
    """Imports the file and builds its pipeline.

    Args:
        spec: ``FILE.py`` or ``FILE.py:name``.
        hl: The module to build with; ``bayplan`` when None.

    Raises:
        CommandError: No such file or name, or nothing in the file that can be run.
    """
    path, name = split_spec(spec)
    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    if hl is None:
        hl = importlib.import_module("bayplan")
    module = _import_file(path)
    built, found = _find_pipeline(hl, module, path, name)
    title = getattr(built, "name", None)
    if not isinstance(title, str):
        title = path.stem if found == "build" else found
    if not isinstance(built, (hl.Func, hl.Pipeline)) and not isinstance(
        getattr(built, "output", None), (hl.Func, hl.Pipeline)
    ):
        raise CommandError(
            f"{path}: {found}(hl) returned {type(built).__name__}; expected a Func, a Pipeline or "
            "an object whose .output is one"
        )
    return Program(hl, title, built)


def _import_file(path: Path) -> Any:
    """Imports a file by its path; a file inside a package is imported as part of it."""
    path = path.resolve()
    top, parts = path.parent, [path.stem]
    while (top / "__init__.py").is_file():
        parts.insert(0, top.name)
        top = top.parent
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    # A name of its own, so that a user's `random.py` does not become the module `random`.
    spec = importlib.util.spec_from_file_location(f"bayplan_program_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _find_pipeline(hl: Any, module: Any, path: Path, name: str | None) -> tuple[Any, str]:
    """Returns what was built or found, and under which name."""
    runnable = {
        key: thing
        for key, thing in vars(module).items()
        if isinstance(thing, (hl.Func, hl.Pipeline)) and not key.startswith("_")
    }
    if name is not None:
        if name in runnable:
            return runnable[name], name
        thing = getattr(module, name, None)
        if callable(thing):
            return thing(hl), name
        raise CommandError(f"{path}: no Func, Pipeline or builder named {name!r}{_offer(runnable)}")
    if callable(getattr(module, "build", None)) and "build" not in runnable:
        return module.build(hl), "build"
    pipelines = [key for key, thing in runnable.items() if isinstance(thing, hl.Pipeline)]
    for candidates in (pipelines, [key for key in ("output", "out") if key in runnable], runnable):
        if len(candidates) == 1:
            key = next(iter(candidates))
            return runnable[key], key
    if runnable:
        raise CommandError(f"{path}: which one is meant?{_offer(runnable)}")
    raise CommandError(f"{path}: neither build(hl) nor a Func or Pipeline at the top level")


def _offer(runnable: dict[str, Any]) -> str:
    return f"; it has {', '.join(sorted(runnable))} (write FILE.py:name)" if runnable else ""
