"""Masked loads and stores touch the elements they name only: the pages around are closed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import bayplan.targets
from bayplan.targets.c_helpers import Helpers, VectorType
from bayplan.targets.c_masked import leading, load_first, masked, store_first

TYPES = [
    *[("int", w) for w in (8, 16, 32, 64)], ("uint", 8), ("uint", 16), ("float", 32), ("float", 64),
]  # fmt: skip
LANES = (2, 4, 8, 16, 32)

_HEAD = """
#define _DEFAULT_SOURCE 1
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define BP_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wpsabi"
#define BP_SHUFFLEVECTOR 1
#else
#pragma GCC diagnostic ignored "-Wpsabi"
#define BP_SHUFFLEVECTOR (__GNUC__ >= 12)
#endif
"""

# Before and after `page` nothing can be read or written. A mask has a bit for each lane.
_CHECKS = """
enum { PAGE = 4096 };
static uint8_t *page;
static uint64_t state = 88172645463325252u;
static uint64_t any(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}
static void fill(void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)at)[i] = (uint8_t)(any() >> 20 | 1);
}
static void same(const void *a, const void *b, size_t bytes, const char *what) {
    if (memcmp(a, b, bytes)) { printf("wrong: %s\\n", what); exit(1); }
}
#define CHECK(T, M, E, I, L) \\
    static void try_##T(uint64_t set, int n, bool at_end) { \\
        E given[L], want[L], got[L]; \\
        I bits[L]; \\
        uint8_t whole[PAGE]; \\
        T v; \\
        M m; \\
        int low = L, high = 0; \\
        for (int k = 0; k < L; k++) { \\
            bits[k] = set >> k & 1 ? -1 : 0; \\
            if (bits[k]) low = k < low ? k : low, high = k + 1; \\
        } \\
        if (!high) low = 0; \\
        E *p = (E *)(void *)(at_end ? page + PAGE - high * sizeof(E) : page - low * sizeof(E)); \\
        memcpy(&m, bits, sizeof m); \\
        fill(page, PAGE), fill(given, sizeof given), memset(want, 0, sizeof want); \\
        for (int k = 0; k < L; k++) if (bits[k]) want[k] = p[k]; \\
        v = n < 0 ? masked_load_##T(p, m) : load_first_##T(p, n); \\
        memcpy(got, &v, sizeof got); \\
        same(got, want, sizeof got, "load " #T); \\
        memcpy(whole, page, PAGE), memcpy(&v, given, sizeof v); \\
        if (n < 0) masked_store_##T(p, v, m); \\
        else if (n == L / 2 + 1) store_first_##T(p, v, L / 2 + 1); \\
        else store_first_##T(p, v, n); \\
        for (int k = 0; k < L; k++) \\
            if (bits[k]) memcpy(whole + ((uint8_t *)(p + k) - page), given + k, sizeof(E)); \\
        same(page, whole, PAGE, "store " #T); \\
        M found = leading_##M(n < 0 ? 0 : n); \\
        if (n >= 0) same(&found, bits, sizeof bits, "leading " #M); \\
    } \\
    static void check_##T(void) { \\
        for (int n = 0; n <= L; n++) { \\
            const uint64_t set = n < 64 ? ((uint64_t)1 << n) - 1 : ~0ull; \\
            try_##T(set, n, false), try_##T(set, n, true); \\
        } \\
        for (int i = 0; i < 300; i++) \\
            try_##T((any() & (i % 3 ? any() : ~0ull) << any() % 64) >> any() % 64, -1, i & 1); \\
    }
"""

_MAIN = """
int main(void) {
    uint8_t *all = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = all + PAGE;
    if (all == MAP_FAILED || mprotect(page, PAGE, PROT_READ | PROT_WRITE)) return 77;
    %s
    return 0;
}
"""


def make_program(types: list[tuple[str, int]]) -> str:
    """A C program that tries every function on every number of lanes."""
    h = Helpers()
    checks, calls = [], []
    for kind, width in types:
        for lanes in (*LANES, 64) if width == 8 else LANES:
            t = VectorType(kind, width, lanes)
            for make in (load_first, store_first):
                make(h, t)
            for what in ("load", "store"):
                masked(h, what, t, None)
            leading(h, t.mask())
            checks.append(f"CHECK({t.name}, {t.mask().name}, {t.element}, int{width}_t, {lanes})")
            calls.append(f"check_{t.name}();")
    prelude = (Path(bayplan.targets.__file__).parent / "prelude_masks.c").read_text()
    parts = [_HEAD, prelude, h.text(), _CHECKS, *checks, _MAIN % "\n    ".join(calls)]
    return "\n".join(parts)


def machine_has(flag: str) -> bool:
    """Whether this machine runs the instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return f" {flag} " in text.replace("\n", " ")


@pytest.mark.parametrize("machine", [(), ("avx2",), ("avx512bw", "avx512vl", "avx512dq")])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_nothing_else_is_touched(compiler: str, machine: tuple[str, ...], tmp_path: Path) -> None:
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"no {compiler}")
    if not all(machine_has(flag) for flag in machine):
        pytest.skip(f"this machine has no {machine}")
    source, program = tmp_path / "masked.c", tmp_path / "masked"
    source.write_text(make_program(TYPES))
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", *[f"-m{flag}" for flag in machine]]
    built = subprocess.run([path, *flags, str(source), "-o", str(program)],
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("no pages can be closed here")
    assert done.returncode == 0, (done.returncode, done.stdout)


def test_the_builtins_are_used_where_they_are() -> None:
    h = Helpers()
    load_first(h, VectorType("float", 32, 8)), store_first(h, VectorType("int", 16, 4))
    text = h.text()
    assert "__builtin_ia32_loadups256_mask" in text
    assert "__builtin_ia32_maskloadps256" in text
    assert "__builtin_ia32_storedquhi128_mask" in text
    assert "immintrin" not in text
