"""The commands, their flags, and how failures end. The only file that imports click."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bayplan import settings
from bayplan.cli.failure import CommandError
from bayplan.ir.errors import BayplanError

_SPEC = click.argument("program", metavar="FILE.py[:name]")
_ARGUMENTS = click.argument("arguments", nargs=-1, metavar="[name=value]...")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


def _sizes(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags about inputs and sizes that ``run`` and ``storage`` share."""
    for option in reversed(
        (
            click.option(
                "--output_extents",
                "--output-extents",
                metavar="[N,N,...]",
                help="Size of the output, dimension 0 first, or `estimate`. "
                "Default: what the inputs cover.",
            ),
            click.option(
                "--default_input_buffers",
                "--default-input-buffers",
                is_flag=False,
                flag_value="zero:auto",
                metavar="VALUE",
                help="Value of all buffer inputs not given; zero:auto when VALUE is left out.",
            ),
            click.option(
                "--default_input_scalars",
                "--default-input-scalars",
                is_flag=False,
                flag_value="estimate,default",
                metavar="VALUE",
                help="Value of all scalars not given; estimate,default when VALUE is left out.",
            ),
            click.option(
                "--estimate_all",
                "--estimate-all",
                is_flag=True,
                help="Random inputs, scalars and sizes from the estimates.",
            ),
        )
    ):
        function = option(function)
    return function


_JIT_TARGET = click.option(
    "--target",
    metavar="ARCH-BITS-OS-...",
    help="What the program is for, as `host-opencl` or `host-cuda-emulated`. "
    "Default: HL_JIT_TARGET, else this machine.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bayplan", prog_name="bayplan")
def bayplan() -> None:
    """Compiles array programs and says where every temporary lives.

    FILE.py has a function build(hl) that returns a pipeline, or a Func or Pipeline at its top
    level; write FILE.py:name where it has several.
    """


@bayplan.command()
@_SPEC
@_ARGUMENTS
@_sizes
@click.option("--describe", is_flag=True, help="Print names and types of all arguments and stop.")
@click.option(
    "--benchmarks",
    is_flag=False,
    flag_value="all",
    type=click.Choice(["all"]),
    help="Run many times and print the time of the fastest sample.",
)
@click.option(
    "--benchmark_min_time",
    "--benchmark-min-time",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    show_default=True,
    metavar="SECONDS",
)
@click.option(
    "--track_memory",
    "--track-memory",
    is_flag=True,
    help="Print the most bytes of temporaries that were allocated at one time.",
)
@click.option(
    "--parsable_output", "--parsable-output", is_flag=True, help="Benchmark as one value a line."
)
@_JIT_TARGET
@click.option("-v", "--verbose", is_flag=True, help="Say on stderr what happens.")
@click.option("--quiet", is_flag=True, help="No notes on stderr about conversions and sizes.")
@_JSON
def run(program: str, arguments: tuple[str, ...], **flags: Any) -> None:
    """Runs a pipeline on files, as Halide's RunGen does.

    \b
    bayplan run FILE.py input=photo.png strength=3.5 output=out.png
    bayplan run FILE.py input=random:0:[640,480] --output_extents=[640,480] --benchmarks=all

    A scalar is a number, true or false, `default` or `estimate`. An input buffer is a file (png,
    jpg, npy, ...) or zero:SHAPE, constant:VALUE:SHAPE, identity:SHAPE, random:SEED:SHAPE, where
    SHAPE is [N,N,...] (dimension 0 first), auto, estimate or estimate_then_auto.
    """
    from bayplan.cli.run import run_program

    run_program(program, arguments, flags)


@bayplan.command()
@_SPEC
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; with several kinds, their suffixes are put in place of this one. "
    "Default: stdout.",
)
@click.option(
    "--emit",
    default="c",
    show_default=True,
    metavar="KIND,...",
    help="c (source), h (header), o (object), a (static library), s (assembly), kernels (source "
    "for the target's device), runtime (source that every program may be linked with), stmt (the "
    "lowered program), loops (the loop nest).",
)
@click.option("--name", "function_name", help="Name of the C function. Default: the program's.")
@click.option(
    "--arguments",
    "order",
    metavar="NAME,...",
    help="Order of the inputs in the C function. Default: by name. Outputs follow.",
)
@click.option(
    "--target",
    metavar="ARCH-BITS-OS-...",
    help="What to make it for, as Halide writes it. Default: HL_TARGET, else this machine.",
)
@click.option(
    "--depfile",
    type=click.Path(path_type=Path),
    help="Also write the Python files that it was made from, as a rule of make.",
)
@_JSON
def compile(program: str, output: Path | None, emit: str, **flags: Any) -> None:
    """Writes C source, headers and libraries for C and C++ programs, or a stage before them."""
    from bayplan.cli.emit import emit_program

    emit_program(program, output, emit, flags)


@bayplan.command()
@click.option("--cmakedir", "what", flag_value="cmakedir", help="Folder of BayplanConfig.cmake.")
@click.option("--pkgconfigdir", "what", flag_value="pkgconfigdir", help="Folder of bayplan.pc.")
@click.option("--includedir", "what", flag_value="includedir", help="Folder of bayplan.h.")
@click.option("--cflags", "what", flag_value="cflags", help="Flags for the C compiler.")
@click.option("--libs", "what", flag_value="libs", help="Flags for the linker.")
@_JSON
def config(what: str | None, as_json: bool) -> None:
    """Says what build systems need to know of this installation."""
    from bayplan.cli.config import show_config

    show_config(what, as_json)


@bayplan.command()
@_SPEC
@_ARGUMENTS
@_sizes
@click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path),
    help="Also write the report as a page that needs no network.",
)
@click.option(
    "--svg",
    "svg_path",
    type=click.Path(path_type=Path),
    help="Also draw the arenas, address over steps.",
)
@click.option("--explain", is_flag=True, help="One line for each temporary.")
@_JIT_TARGET
@click.option("--run", "measured", is_flag=True, help="Also make the call and measure it.")
@_JSON
def storage(program: str, arguments: tuple[str, ...], **flags: Any) -> None:
    """Says where each temporary will live, in how many bytes.

    Sizes come from the inputs given, from --output_extents, or from the program's own usual size.
    """
    from bayplan.cli.storage import report_storage

    report_storage(program, arguments, flags)


@bayplan.command()
@click.argument("file", metavar="LIFETIMES.csv")
@click.option(
    "--capacity",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Take the first plan within it. Default: look for the smallest plan.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write the offsets to. Default: stdout.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Ends the search; the best plan found so far is the answer.",
)
@_JSON
def plan(
    file: str, capacity: int | None, output: Path | None, time_limit_s: float, as_json: bool
) -> None:
    """Packs buffers with known lives into one block of memory.

    LIFETIMES.csv (or - for stdin) has the columns id, lower, upper, size and may have alignment
    and offset, as MiniMalloc reads them: one buffer a line, alive in [lower, upper). An offset that
    is given is kept. The answer is the same list with the offset of every buffer.
    """
    from bayplan.cli.plan import plan_lifetimes

    plan_lifetimes(file, capacity, output, as_json, time_limit_s)


@bayplan.command()
@_JSON
@click.option("--target", default="", help="A target whose device is wanted, such as opencl.")
def doctor(as_json: bool, target: str) -> None:
    """Says what this machine has and lacks.

    Ends with exit code 1 when there is no way to run a program, or when a device that was asked
    for is missing: by --target, by HL_TARGET or HL_JIT_TARGET, or by a variable that names a
    folder of OpenCL's drivers.
    """
    from bayplan.cli.doctor import examine

    raise click.exceptions.Exit(examine(as_json, target))


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Runs one command and turns every failure into one clear line and an exit code."""
    try:
        debugging = bool(settings.value("DEBUG"))
    except settings.SettingError as error:
        return _fail(str(error), 2)
    try:
        code = bayplan.main(args=argv, prog_name="bayplan", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except CommandError as error:
        if debugging:
            raise
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of stdout went away (`bayplan ... | head`): nothing to say.
        sys.stdout = None  # type: ignore[assignment]
        return 1
    except Exception as error:
        if debugging:
            raise
        return _fail(describe_error(error), 1)
    return code if isinstance(code, int) else 0


def describe_error(error: BaseException) -> str:
    """Writes an error as the user should read it: what, and the line of the user's file."""
    import traceback

    name = type(error).__name__
    if isinstance(error, BayplanError):
        text = f"{name} {error.code}: {error.message}"
        if error.where is not None and _is_users_file(error.where.file):
            text += f"\n  at {error.where}"
        return text + (f"\n  hint: {error.hint}" if error.hint else "")
    text = str(error) or name
    # A syntax error names its line itself.
    if not isinstance(error, SyntaxError):
        frames = traceback.extract_tb(error.__traceback__)
        users = [frame for frame in frames if _is_users_file(frame.filename)]
        if users:
            text += f"\n  at {users[-1].filename}:{users[-1].lineno}"
    return f"{name}: {text}"


def _is_users_file(file: str) -> bool:
    """Tells a user's file from those of Python, of installed packages and of this one."""
    import sysconfig

    path = Path(file)
    if not path.is_file() or path.name in {"bayplan", "__main__.py"}:
        return False
    paths = sysconfig.get_paths()
    others = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    others.append(str(Path(__file__).resolve().parent.parent))
    return not any(path.resolve().is_relative_to(Path(other).resolve()) for other in others)


def _fail(message: str, code: int) -> int:
    print(f"bayplan: {message}", file=sys.stderr)
    return code
