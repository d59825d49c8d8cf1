"""Func: a stage of a program, its values as a function of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from bayplan.ir.errors import DefinitionError, ScheduleError
from bayplan.ir.types import Type
from bayplan.language import changes
from bayplan.language.definition import new_function, output_parameters
from bayplan.language.expr import Expr, Operators
from bayplan.language.func_ref import FuncRef, UnevaluatedFuncRefExpr, value_nodes
from bayplan.language.function import Definition, Function
from bayplan.language.rdom import RVar
from bayplan.language.runnable import Runnable
from bayplan.language.stage import LoopDirectives, Stage
from bayplan.language.storage_directives import StorageDirectives
from bayplan.language.var import PLACEHOLDER, Var


class Func(Runnable, StorageDirectives, LoopDirectives):
    """A function from coordinates to one or several values.

    Args:
        name: its name; without one it gets a name of its own. An Expr, a Buffer or an ImageParam
            in its place makes a Func of its values.
        required_dimensions, func_name: with a Type (or a list of them) first, the number of
            dimensions and the name; the definition must then have these types and dimensions.

    `f[x, y] = e` with Vars on the left defines it; further assignments, and `f[x, y] += e`, are
    updates, whose coordinates may be any expressions.
    """

    __slots__ = ("_function",)

    def __init__(
        self,
        name: Any = None,
        required_dimensions: int | None = None,
        func_name: str | None = None,
        **named: Any,
    ) -> None:
        for word in ("required_type", "required_types"):
            name = named.pop(word, name)
        func_name = named.pop("name", func_name)
        if named:
            raise TypeError(f"Func() got an unexpected keyword argument {next(iter(named))!r}")
        if name is None and func_name is not None:
            name = func_name
        if name is None or isinstance(name, str):
            self._function = new_function(name)
        elif isinstance(name, Type) or _are_types(name):
            types = (name,) if isinstance(name, Type) else tuple(name)
            self._function = new_function(func_name)
            self._function.required_types = types
            if required_dimensions is not None and required_dimensions >= 0:
                self._function.required_dimensions = required_dimensions
        else:
            self._from_value(name)

    def _from_value(self, value: Any) -> None:
        if isinstance(value, Operators):
            self._function = new_function(None)
            self[Var(PLACEHOLDER)] = value
            return
        if hasattr(value, "function"):
            # An ImageParam stands for a Func of its own already.
            self._function = value.function()
            return
        if hasattr(value, "dimensions") and hasattr(value, "name"):
            self._function = new_function(None)
            args = [Var.implicit(i) for i in range(value.dimensions())]
            self[tuple(args)] = value[tuple(args)]
            return
        raise TypeError(f"a Func cannot be made from a {type(value).__name__}")

    @staticmethod
    def of(function: Function) -> Func:
        """The handle on existing data."""
        func = object.__new__(Func)
        func._function = function
        return func

    def function(self) -> Function:
        """The data."""
        return self._function

    def _functions(self) -> list[Function]:
        return [self._function]

    def _pure(self, purpose: str) -> Definition:
        if self._function.init is None:
            raise DefinitionError(f"{self.name()} is not defined yet, so it has no {purpose}")
        return self._function.init

    def _stage(self) -> Stage:
        if self._function.init is None:
            raise ScheduleError(f"{self.name()} is not defined yet, so it cannot be scheduled")
        return Stage(self._function, self._function.init, 0)

    # Definitions.

    def __getitem__(self, key: Any) -> FuncRef:
        return FuncRef(self._function, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        ref = FuncRef(self._function, key)
        if isinstance(value, UnevaluatedFuncRefExpr):
            value.define_at(ref)
        else:
            ref.assign(value_nodes(self._function, value))

    def __iter__(self) -> Any:
        raise TypeError(f"the Func {self.name()} cannot be iterated over")

    # Questions.

    def name(self) -> str:
        """The name, unique in the process."""
        return self._function.name

    def defined(self) -> bool:
        """Whether it has a pure definition."""
        return self._function.init is not None

    def dimensions(self) -> int:
        """Number of dimensions."""
        f = self._function
        if f.init is None and f.required_dimensions is not None:
            return f.required_dimensions
        self._pure("dimensions")
        return f.dimensions()

    def args(self) -> list[Var]:
        """The Vars of the pure definition."""
        return [Var(arg) for arg in self._function.args]

    def values(self) -> tuple[Expr, ...]:
        """The values of the pure definition."""
        return tuple([Expr(v) for v in self._pure("values").values])

    def value(self) -> Expr:
        """The value of the pure definition, where there is only one."""
        return _only(self.values(), self.name())

    def types(self) -> list[Type]:
        """The types of the values."""
        f = self._function
        if f.init is None and f.required_types:
            return list(f.required_types)
        self._pure("type")
        return list(f.output_types)

    def type(self) -> Type:
        """The type of the value, where there is only one."""
        found: Type = _only(self.types(), self.name())
        return found

    def outputs(self) -> int:
        """Number of values."""
        return len(self.types())

    def has_update_definition(self) -> bool:
        """Whether there is an update."""
        return bool(self._function.updates)

    def num_update_definitions(self) -> int:
        """Number of updates."""
        return len(self._function.updates)

    def _update(self, idx: int) -> Definition:
        count = len(self._function.updates)
        if not 0 <= idx < count:
            raise DefinitionError(f"{self.name()} has {count} updates, so there is no update {idx}")
        return self._function.updates[idx]

    def update(self, idx: int = 0) -> Stage:
        """An update, as the object of directives."""
        return Stage(self._function, self._update(idx), idx + 1)

    def update_args(self, idx: int = 0) -> list[Expr]:
        """The left side of an update."""
        return [Expr(arg) for arg in self._update(idx).args]

    def update_values(self, idx: int = 0) -> tuple[Expr, ...]:
        """The right side of an update."""
        return tuple([Expr(v) for v in self._update(idx).values])

    def update_value(self, idx: int = 0) -> Expr:
        """The right side of an update, where there is only one value."""
        return _only(self.update_values(idx), self.name())

    def rvars(self, idx: int = 0) -> list[RVar]:
        """The RVars of an update."""
        return [RVar(r.var) for r in self._update(idx).schedule.rvars]

    def split_vars(self) -> list[Var | RVar]:
        """The loops of the pure definition, innermost first."""
        return self._stage().split_vars()

    def is_extern(self) -> bool:
        """Whether it is computed by an external function."""
        return self._function.extern() is not None

    def extern_function_name(self) -> str:
        """The name of the external function; "" where there is none."""
        call = self._function.extern()
        return "" if call is None else str(call.target.symbol)

    def debug_to_file(self, filename: str) -> None:
        """Refused: look at values with `print`, or realize the Func itself."""
        raise DefinitionError(
            f"the values of {self.name()} cannot be written to {filename} while a pipeline runs",
            hint="realize the Func itself, or wrap its value in print()",
        )

    def define_extern(
        self,
        function_name: Any,
        params: Any = (),
        types: Any = None,
        dimensionality: Any = None,
        mangling: Any = None,
        device_api: Any = None,
        callee: Any = None,
        **named: Any,
    ) -> None:
        """Let a C function compute it, or another pipeline.

        Args:
            function_name: the C function; or a Pipeline or Func, whose program is called.
            params: the arguments of the function: Funcs, Buffers, ImageParams, scalars, or
                ExternFuncArguments of them. The buffers of the values follow. Of a pipeline in
                the order of its inputs' names; or a dict from inputs, or their names, to what
                they are, and inputs left out are inputs of this pipeline too.
            types: the element type, or a list of one for each value; a pipeline knows its own.
            dimensionality: the number of dimensions, or the Vars; a pipeline knows its own.
            mangling: how the name is spelled in the object file; only as in C.
            device_api: where the function runs; only on the host.
            callee: the Pipeline or Func that `function_name` is, where that is a name.
            **named: Halide's other names: `type` for `types`, `arguments` for `dimensionality`.
        """
        from bayplan.language.extern_stage import define_extern

        types = named.pop("type", types)
        shape = named.pop("arguments", dimensionality)
        if named:
            raise TypeError(
                f"define_extern() got an unexpected keyword argument {next(iter(named))!r}"
            )
        define_extern(
            self._function, function_name, params, types, shape, mangling, device_api, callee
        )

    # Outputs.

    def output_buffers(self) -> list[Any]:
        """The buffers that the values are written to, to constrain them."""
        from bayplan.language.image_param import OutputImageParam

        f = self._function
        if not f.output_buffers:
            if not f.required_types or f.required_dimensions is None:
                raise DefinitionError(f"{f.name} is not defined yet, so it has no output buffer")
            f.output_buffers = output_parameters(f.name, f.required_types, f.required_dimensions)
        return [OutputImageParam(p) for p in f.output_buffers]

    def output_buffer(self) -> Any:
        """The buffer that the value is written to, to constrain it."""
        return _only(self.output_buffers(), self.name())

    def may_alias(self, *images: Any) -> Self:
        """Let the output be written into memory that an input is read from.

        Without it, a call whose output shares bytes with an input is refused. With it, whether
        the schedule gives the same values in place is checked when the pipeline is compiled.

        Args:
            images: ImageParams, or the Buffers that are read.
        """
        for output in self.output_buffers():
            aliases = output.parameter().aliases
            for image in images:
                source = image.parameter() if hasattr(image, "parameter") else image
                if not any(known is source for known in aliases):
                    aliases.append(source)
        changes.bump()
        return self

    # Tracing.

    def _traced(self, what: str) -> Self:
        self._function.traced.add(what)
        return self

    def trace_loads(self) -> Self:
        """Ask that each load be traced."""
        return self._traced("loads")

    def trace_stores(self) -> Self:
        """Ask that each store be traced."""
        return self._traced("stores")

    def trace_realizations(self) -> Self:
        """Ask that each realization be traced."""
        return self._traced("realizations")

    def add_trace_tag(self, trace_tag: str) -> Self:
        """Accepted; a tag has no effect."""
        return self

    # Wrappers.

    def in_(self, f: Any = None, **named: Any) -> Func:
        """A Func with the same values that stands between this one and its users.

        Args:
            f: the user, or a list of users, that read the new Func instead; None for all.
            **named: `fs`, another name for `f`.
        """
        from bayplan.language.wrappers import wrap

        return wrap(self, named.get("fs", f))

    def clone_in(self, f: Any = None, **named: Any) -> Func:
        """A copy of this Func that the user `f` (or a list of them) reads instead."""
        from bayplan.language.wrappers import clone

        return clone(self, named.get("fs", f))

    def copy_to_device(self, *args: Any, **named: Any) -> Self:
        """Refused: there are no devices in this version."""
        self._refuse_device("copy_to_device")

    def copy_to_host(self) -> Self:
        """Refused: there are no devices in this version."""
        self._refuse_device("copy_to_host")

    def __repr__(self) -> str:
        return f"<bayplan.Func '{self.name()}'>"

    def _repr_html_(self) -> str:
        import html

        f = self._function
        if f.init is None:
            return f"<code>{html.escape(f.name)}</code> (not defined)"
        lines = []
        for definition in f.stages():
            left = ", ".join([str(a) for a in definition.args])
            right = ", ".join([str(v) for v in definition.values])
            lines.append(html.escape(f"{f.name}({left}) = {right}"))
        return "<pre>" + "\n".join(lines) + "</pre>"


def _are_types(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, Type) for v in value)


def _only(values: Sequence[Any], name: str) -> Any:
    if len(values) != 1:
        raise DefinitionError(f"{name} has {len(values)} values, so it has no single one")
    return values[0]


def funcs(names: str | Sequence[str]) -> tuple[Func, ...]:
    """One Func for each of the names, given as a list or in one str with spaces or commas."""
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    return tuple([Func(name) for name in names])
