"""The kinds of files that a pipeline can be written as."""

from __future__ import annotations

from enum import Enum
from typing import Final


class OutputFileType(Enum):
    """A kind of file; those that are not made are refused by name."""

    assembly = 0
    bitcode = 1
    c_header = 2
    c_source = 3
    compiler_log = 4
    cpp_stub = 5
    featurization = 6
    function_info_header = 7
    hlpipe = 8
    llvm_assembly = 9
    object = 10
    python_extension = 11
    pytorch_wrapper = 12
    registration = 13
    schedule = 14
    static_library = 15
    stmt = 16
    conceptual_stmt = 17
    stmt_html = 18
    conceptual_stmt_html = 19
    device_code = 20


SUFFIXES: Final = {
    OutputFileType.assembly: ".s",
    OutputFileType.c_header: ".h",
    OutputFileType.c_source: ".c",
    OutputFileType.object: ".o",
    OutputFileType.static_library: ".a",
    OutputFileType.stmt: ".stmt",
    OutputFileType.conceptual_stmt: ".conceptual.stmt",
    OutputFileType.stmt_html: ".stmt.html",
    OutputFileType.conceptual_stmt_html: ".conceptual.stmt.html",
}
"""The kinds that are made, with the usual ends of their names."""
