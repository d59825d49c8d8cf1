"""The methods that write files: Halide's names and signatures, and what they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from bayplan.build.ahead_of_time import target_flags
from tests.embedding.programs import make_blur, make_fixed, run

METHODS = ("compile_to", "compile_to_file", "compile_to_c", "compile_to_header",
           "compile_to_object", "compile_to_static_library", "compile_to_assembly",
           "compile_to_lowered_stmt", "compile_to_conceptual_stmt")  # fmt: skip


def overloads(method: Any) -> list[list[str]]:
    """The names of the parameters of a method of the wheel, from its docstring."""
    name = method.__name__
    found = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) -> None", method.__doc__, re.MULTILINE)
    return [re.findall(r"(\w+): ", re.sub(r"\[[^\]]*\]|<[^>]*>", "", text)) for text in found]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["Func", "Pipeline"])
def test_parameters_have_halides_names_and_order(kind: str, method: str) -> None:
    halide = pytest.importorskip("halide")
    import inspect

    own = list(inspect.signature(getattr(getattr(hl, kind), method)).parameters)
    theirs = overloads(getattr(getattr(halide, kind), method))
    # Halide writes some overloads without the name of the function.
    assert own in [[p for p in names if p] for names in theirs], theirs


def test_kinds_of_files_are_halides() -> None:
    halide = pytest.importorskip("halide")
    assert {k.name for k in hl.OutputFileType} == set(halide.OutputFileType.__members__)


def test_one_call_writes_many_files(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    kinds = ("c_source", "c_header", "object", "static_library", "assembly", "stmt", "stmt_html")
    outputs = {hl.OutputFileType[kind]: str(tmp_path / kind) for kind in kinds}
    hl.Pipeline(blur).compile_to(outputs, arguments, "smooth")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kinds)
    assert "int smooth(bp_buffer_argument in_buffer" in (tmp_path / "c_header").read_text()
    assert "smooth" in run(["nm", tmp_path / "object"])
    assert ".globl\tsmooth\n" in (tmp_path / "assembly").read_text()
    assert (tmp_path / "stmt_html").read_text().startswith("<!DOCTYPE html>")
    assert "produce" in (tmp_path / "stmt").read_text()


def test_files_of_prefixes(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    blur.compile_to_file(str(tmp_path / "f"), arguments)
    blur.compile_to_static_library(str(tmp_path / "l"), arguments)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.h", "f.o", "l.a", "l.h"]


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        blur.compile_to_static_library(str(tmp_path / folder / "blur"), arguments, "blur")
    for name in ("blur.a", "blur.h"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_order_of_arguments(tmp_path: Path) -> None:
    blur, (image, shift) = make_blur()
    header = tmp_path / "blur.h"
    extra = hl.Param(hl.Float(64), "unused")

    def declared(arguments: Any) -> str:
        blur.compile_to_header(str(header), arguments, "blur")
        found = re.search(r"int blur\(([^;]*)\);", header.read_text())
        assert found is not None
        return " ".join(found[1].split())

    output = f"bp_buffer_argument {re.sub(r'[$]', '_', blur.name())}_buffer"
    first = f"bp_buffer_argument in_buffer, int32_t shift, {output}"
    assert declared([image, shift]) == first
    assert declared(None) == first
    assert declared(blur.infer_arguments()) == first
    assert declared([hl.Argument(shift), extra, hl.Argument(image)]) == (
        f"int32_t shift, double unused, bp_buffer_argument in_buffer, {output}"
    )


def test_an_argument_is_missing(tmp_path: Path) -> None:
    blur, (image, _) = make_blur()
    with pytest.raises(hl.MissingArgument, match="uses shift, which is not among") as caught:
        blur.compile_to_c(str(tmp_path / "blur.c"), [image], "blur")
    assert "listed: in" in caught.value.message
    assert caught.value.where is not None
    assert not (tmp_path / "blur.c").exists()


def test_arguments_that_are_none(tmp_path: Path) -> None:
    blur, (image, shift) = make_blur()
    path = str(tmp_path / "blur.c")
    with pytest.raises(hl.BayplanError, match="in is listed twice"):
        blur.compile_to_c(path, [image, shift, image], "blur")
    with pytest.raises(hl.BayplanError, match="3 is no argument"):
        blur.compile_to_c(path, [image, shift, 3], "blur")
    with pytest.raises(hl.BayplanError, match="outputs follow by themselves"):
        blur.compile_to_c(path, [image, shift, blur.output_buffer()], "blur")


@pytest.mark.parametrize("name", ["9a", "a b", "ns::f", "é", "a-b"])
def test_names_that_are_no_identifiers(tmp_path: Path, name: str) -> None:
    with pytest.raises(hl.BayplanError, match="cannot be the name of a C function"):
        make_fixed().compile_to_c(str(tmp_path / "f.c"), None, name)


@pytest.mark.parametrize("name", ["int", "main", "exp", "bp_fail", "__hidden"])
def test_names_that_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(hl.BayplanError, match="is taken"):
        make_fixed().compile_to_c(str(tmp_path / "f.c"), None, name)


@pytest.mark.parametrize("method", ["compile_to_c", "compile_to_object", "compile_to_header"])
def test_paths_that_cannot_be_written(tmp_path: Path, method: str) -> None:
    for path in (tmp_path / "no" / "such" / "f", tmp_path):
        with pytest.raises(hl.OutputFileError, match="cannot be written"):
            getattr(make_fixed(), method)(str(path), None, "f")


def test_kinds_that_are_not_made(tmp_path: Path) -> None:
    outputs = {hl.OutputFileType.bitcode: str(tmp_path / "f.bc")}
    with pytest.raises(hl.OutputFileError, match=r"bitcode are not made; there are .*c_source"):
        make_fixed().compile_to(outputs, None, "f")


def test_another_machine_needs_a_cross_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    host = hl.get_host_target()
    other = "x86-64-linux" if host.arch is hl.TargetArch.ARM else "arm-64-linux"
    with pytest.raises(hl.CompileError, match="need a cross compiler"):
        make_fixed().compile_to_object(str(tmp_path / "f.o"), None, "f", hl.Target(other))
    # The source is for any machine.
    make_fixed().compile_to_c(str(tmp_path / "f.c"), None, "f", hl.Target(other))


def test_features_become_flags() -> None:
    assert target_flags(hl.Target("x86-64-linux")) == []
    assert target_flags(hl.Target("x86-64-linux-sse41")) == ["-msse4.1"]
    wide = target_flags(hl.Target("x86-64-linux-avx2-fma-f16c"))
    assert {"-mavx2", "-mfma", "-mf16c"} <= set(wide) and "-mavx512f" not in wide
    assert "-ffreestanding" in target_flags(hl.Target("x86-64-noos"))
    assert target_flags(hl.Target("arm-64-linux")) == []


def test_a_header_lists_each_temporary_once(tmp_path: Path) -> None:
    """Also where a loop is cut into pieces, each with its allocation."""
    x, y, yo, yi = hl.vars("x y yo yi")
    image = hl.ImageParam(hl.Float(32), 2, "in")
    row, out = hl.Func("row"), hl.Func("out")
    row[x, y] = image[x, y] * 2
    out[x, y] = row[x, y] + row[x + 3, y]
    row.compute_at(out, yo).store_in(hl.MemoryType.Heap)
    out.split(y, yo, yi, 8, hl.TailStrategy.GuardWithIf).parallel(yo)
    assert len(hl.Pipeline(out).storage([20, 20]).temporaries) > 1
    out.compile_to_header(str(tmp_path / "rows.h"), [image], "rows")
    lines = (tmp_path / "rows.h").read_text().splitlines()
    assert len([line for line in lines if line.startswith(f" *   {row.name()}: 4 * ")]) == 1
