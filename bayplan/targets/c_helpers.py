"""The small functions an emitted program needs, written out only when they are used.

gcc turns a loop over the lanes of a vector into the one instruction that does it (`vpavgb`,
`vpminuw`, `vmaxps`, a gather); clang does so for whole-vector expressions. So most helpers have
two bodies.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.targets.c_names import vector_type

_ELEMENT = {
    **{("int", b): f"int{b}_t" for b in (8, 16, 32, 64)},
    **{("uint", b): f"uint{b}_t" for b in (8, 16, 32, 64)},
    ("float", 32): "float",
    ("float", 64): "double",
}


class VectorType:
    """Kind, width and lanes (at least 2) of a C vector."""

    __slots__ = ("kind", "lanes", "name", "width")

    def __init__(self, kind: str, width: int, lanes: int) -> None:
        self.kind = kind
        self.width = width
        self.lanes = lanes
        self.name = vector_type(kind, width, lanes)

    @property
    def element(self) -> str:
        """The C type of a lane."""
        return _ELEMENT[self.kind, self.width]

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole vector."""
        return self.width // 8 * self.lanes

    def mask(self) -> VectorType:
        """The type of a comparison's result."""
        return VectorType("int", self.width, self.lanes)

    def with_kind(self, kind: str) -> VectorType:
        """The same shape with another kind."""
        return VectorType(kind, self.width, self.lanes)

    def with_width(self, width: int, kind: str | None = None) -> VectorType:
        """The same lanes with another width."""
        return VectorType(kind or self.kind, width, self.lanes)


class Helpers:
    """The types and functions of one program, in the order in which they must be defined."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self.includes: set[str] = set()
        self._shuffles: dict[tuple[str, str, tuple[int, ...]], str] = {}

    def text(self) -> str:
        """All definitions."""
        return "\n".join([*self._types.values(), "", *self._functions.values()])

    def type(self, t: VectorType) -> str:
        """The name of the vector type, defined."""
        name = t.name
        if name not in self._types:
            self._types[name] = (
                f"typedef {t.element} {name} __attribute__((vector_size({t.size_bytes})));"
            )
        return name

    def memory(self, t: VectorType) -> str:
        """The type through which the vector lies in memory: aligned like an element."""
        name = f"{t.name}_mem"
        if name not in self._types:
            self.type(t)
            self._types[name] = (
                f"typedef {t.element} {name} __attribute__((vector_size({t.size_bytes}), "
                f"aligned({t.width // 8}), may_alias));"
            )
        return name

    def function(self, name: str, make: Callable[[], str]) -> str:
        """The name, its definition made at the first use (what it needs comes before it)."""
        if name not in self._functions:
            text = make()
            self._functions[name] = text
        return name

    # Memory

    def load(self, t: VectorType) -> str:
        """`load_T(p)`: consecutive elements."""
        name = f"load_{t.name}"
        if name not in self._functions:
            memory = self.memory(t)
            self._functions[name] = (
                f"BP_INLINE {t.name} {name}(const {t.element} *p) "
                f"{{ return *(const {memory} *)p; }}"
            )
        return name

    def store(self, t: VectorType) -> str:
        """`store_T(p, v)`: consecutive elements."""
        name = f"store_{t.name}"
        if name not in self._functions:
            memory = self.memory(t)
            self._functions[name] = (
                f"BP_INLINE void {name}({t.element} *p, {t.name} v) "
                f"{{ *({memory} *)p = v; }}"
            )
        return name

    def gather(self, t: VectorType, index: VectorType) -> str:
        """`gather_T(p, i)`: the elements p[i]."""
        self.type(t), self.type(index)
        name = f"gather_{t.name}_{index.name}"
        head = f"BP_INLINE {t.name} {name}(const {t.element} *p, {index.name} i) {{\n"
        # No loop: compilers do not unroll it, and then the lanes go through memory.
        lanes = [f"p[i[{k}]]" for k in range(t.lanes)]
        before = ""
        result = t.name
        if index.width == 32 and t.lanes >= 4 and t.lanes % 2 == 0:
            # Two indices leave the vector at a time; bytes and words go into one by twos.
            pairs = self.type(VectorType("int", 64, t.lanes // 2))
            before = f"    const {pairs} w = ({pairs})i;\n"
            if t.width <= 16 and t.kind != "float":
                both = VectorType("uint", 2 * t.width, t.lanes // 2)
                pair = self._element_pair(t)
                lanes = [f"{pair}(p, w[{k}])" for k in range(t.lanes // 2)]
                result = f"{t.name})({self.type(both)}"
            else:
                lanes = [x for k in range(t.lanes // 2)
                         for x in (f"p[(int32_t)w[{k}]]", f"p[w[{k}] >> 32]")]
        text = ", ".join(lanes)
        return self.function(name, lambda: f"{head}{before}    return ({result}){{{text}}};\n}}")

    def _element_pair(self, t: VectorType) -> str:
        """`pair_T(p, w)`: the elements of two indices side by side."""
        name = f"pair_{t.element}"
        wide = f"uint{2 * t.width}_t"
        narrow = f"(uint{t.width}_t)"
        # The empty asm keeps gcc from joining the pairs of a vector by one long chain of shifts.
        return self.function(
            name,
            lambda: (
                f"BP_INLINE {wide} {name}(const {t.element} *p, int64_t w) {{\n"
                f"    uint32_t x = {narrow}p[(int32_t)w] | "
                f"(uint32_t){narrow}p[w >> 32] << {t.width};\n"
                '    __asm__("" : "+r"(x));\n'
                f"    return ({wide})x;\n}}"
            ),
        )

    def scatter(self, t: VectorType, index: VectorType) -> str:
        """`scatter_T(p, i, v)`: p[i] = v, lane by lane."""
        self.type(t), self.type(index)
        return self.function(
            f"scatter_{t.name}_{index.name}",
            lambda: (
                f"BP_INLINE void scatter_{t.name}_{index.name}"
                f"({t.element} *p, {index.name} i, {t.name} v) {{\n"
                + "".join([f"    p[i[{k}]] = v[{k}];\n" for k in range(t.lanes)])
                + "}"
            ),
        )

    def strided_load(self, t: VectorType) -> str:
        """`stride_load_T(p, s)`: the elements p[0], p[s], p[2 s], ..."""
        self.type(t)
        lanes = ", ".join([f"p[{k} * s]" if k else "p[0]" for k in range(t.lanes)])
        return self.function(
            f"stride_load_{t.name}",
            lambda: (
                f"BP_INLINE {t.name} stride_load_{t.name}"
                f"(const {t.element} *p, ptrdiff_t s) {{\n"
                f"    return ({t.name}){{{lanes}}};\n}}"
            ),
        )

    def strided_store(self, t: VectorType) -> str:
        """`stride_store_T(p, s, v)`: p[0], p[s], p[2 s], ... = v."""
        self.type(t)
        return self.function(
            f"stride_store_{t.name}",
            lambda: (
                f"BP_INLINE void stride_store_{t.name}"
                f"({t.element} *p, ptrdiff_t s, {t.name} v) {{\n"
                + "".join([f"    p[{k} * s] = v[{k}];\n" for k in range(t.lanes)])
                + "}"
            ),
        )

    # Lanes

    def all(self, t: VectorType) -> str:
        """`all_T(x)`: x in every lane."""
        self.type(t)
        lanes = ", ".join(["x"] * t.lanes)
        return self.function(
            f"all_{t.name}",
            lambda: (
                f"BP_INLINE {t.name} all_{t.name}({t.element} x) "
                f"{{ return ({t.name}){{{lanes}}}; }}"
            ),
        )

    def select(self, t: VectorType) -> str:
        """`select_T(m, a, b)`: a where the mask is set, else b."""
        self.type(t)
        m = self.type(t.mask())
        return self.function(
            f"select_{t.name}",
            lambda: (
                f"BP_INLINE {t.name} select_{t.name}({m} m, {t.name} a, {t.name} b) "
                f"{{ return ({t.name})((({m})a & m) | (({m})b & ~m)); }}"
            ),
        )

    def shuffle(self, t: VectorType, indices: tuple[int, ...], sources: int = 2) -> str:
        """`pick_k(a, b)`: the lanes of a, then b, that the indices name."""
        result = VectorType(t.kind, t.width, len(indices))
        key = (t.name, result.name, indices)
        name = self._shuffles.get(key)
        if name is not None:
            return name
        self.type(t), self.type(result)
        name = _shuffle_name(t, indices, len(self._shuffles))
        self._shuffles[key] = name
        # Whole 64-bit lanes move faster than narrow ones.
        wide = 64 // t.width
        text = ", ".join([str(i) for i in indices])
        head = f"BP_INLINE {result.name} {name}({t.name} a, {t.name} b) "
        body = f"__builtin_shufflevector(a, b, {text})"
        if t.width < 64 and t.lanes % wide == 0 and _moves_whole(indices, wide):
            source = self.type(VectorType("int", 64, t.lanes // wide)) if t.lanes > wide else ""
            if source and len(indices) > wide:
                self.type(VectorType("int", 64, len(indices) // wide))
                text = ", ".join([str(i // wide) for i in indices[::wide]])
                body = f"({result.name})__builtin_shufflevector(({source})a, ({source})b, {text})"
        # gcc has this builtin since version 12.
        if len(indices) == t.lanes:
            mask = self.type(t.mask())
            numbers = ", ".join([str(i) for i in indices])
            other = f"__builtin_shuffle(a, b, ({mask}){{{numbers}}})"
        else:
            lanes = [f"a[{i}]" if i < t.lanes else f"b[{i - t.lanes}]" for i in indices]
            other = f"({result.name}){{{', '.join(lanes)}}}"
        self._functions[name] = (
            f"{head}{{\n#if BP_SHUFFLEVECTOR\n    return {body};\n#else\n"
            f"    return {other};\n#endif\n}}"
        )
        return name

    def per_lane(self, name: str, t: VectorType, result: VectorType, args: int, expr: str,
                 whole: str | None = None) -> str:
        """`name(a, b, c)`: `expr` for each lane, written with a[k], b[k], c[k].

        `whole` is the body for clang, an expression of whole vectors.
        """
        self.type(t), self.type(result)

        def make() -> str:
            letters = "abcd"[:args]
            parameters = ", ".join([f"{t.name} {x}" for x in letters])
            head = f"BP_INLINE {result.name} {name}({parameters}) {{\n"
            loop = (
                f"    {result.name} r;\n"
                f"    for (int k = 0; k < {t.lanes}; k++) r[k] = {expr};\n"
                "    return r;\n"
            )
            if whole is None:
                return f"{head}{loop}}}"
            return f"{head}#if defined(__clang__)\n    return {whole};\n#else\n{loop}#endif\n}}"

        return self.function(name, make)


def _moves_whole(indices: tuple[int, ...], wide: int) -> bool:
    if len(indices) % wide:
        return False
    for at in range(0, len(indices), wide):
        first = indices[at]
        if first % wide:
            return False
        for k in range(1, wide):
            if indices[at + k] != first + k:
                return False
    return True


def _shuffle_name(t: VectorType, indices: tuple[int, ...], number: int) -> str:
    n, lanes = len(indices), t.lanes
    if indices == tuple(range(lanes - 1, -1, -1)):
        return f"reverse_{t.name}"
    if n == 2 * lanes and indices == tuple(range(2 * lanes)):
        return f"join_{t.name}"
    if indices == tuple(range(indices[0], indices[0] + n)) and indices[-1] < lanes:
        return f"part{n}_at{indices[0]}_{t.name}"
    if n == lanes and indices[0] in (0, 1) and indices == tuple(range(indices[0], 2 * n, 2)):
        return f"{('even', 'odd')[indices[0]]}_{t.name}"
    if n == 2 * lanes and indices == tuple([i // 2 + (i % 2) * lanes for i in range(n)]):
        return f"interleave_{t.name}"
    return f"pick{number}_{t.name}"
