"""Shuffles: lanes of one or several vectors in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.ir import exprs as E
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_text import Text, call
from bayplan.targets.c_vectors import assemble

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer


def shuffle_vector(w: Writer, e: E.Shuffle, first: int, lanes: int) -> Text:
    """Lanes first ... of the shuffle."""
    indices = e.indices[first : first + lanes]
    sources = []
    at = 0
    for v in e.vectors:
        sources.append((at, v))
        at += v.type.lane_count
    straight = indices == tuple(range(indices[0], indices[0] + lanes))
    if straight:
        for start, v in sources:
            if start <= indices[0] and indices[-1] < start + v.type.lane_count:
                return w.vector(v, indices[0] - start, lanes)
    return pick_lanes(w, e, sources, indices)


def pick_lanes(
    w: Writer, e: E.Expr, sources: list[tuple[int, E.Expr]], indices: tuple[int, ...]
) -> Text:
    """Any lanes of the sources (first lane, vector) laid end to end."""
    lanes = len(indices)
    cap = max(lanes, w.cap())
    pieces: dict[tuple[E.Expr, int, int], int] = {}
    where: list[tuple[int, int]] = []
    order: list[tuple[E.Expr, int, int]] = []
    for i in indices:
        start, v = [(s, v) for s, v in sources if s <= i][-1]
        local = i - start
        total = v.type.lane_count
        if total == 1:
            return _assemble_shuffle(w, e, sources, indices)
        for first, n in w.chunks(total, min(cap, _native(w, v))):
            if first <= local < first + n:
                break
        key = (v, first, n)
        if key not in pieces:
            pieces[key] = len(order)
            order.append(key)
        where.append((pieces[key], local - first))
    sizes = {n for _, _, n in order}
    if len(sizes) != 1 or len(order) > 8 or 1 in sizes:
        return _assemble_shuffle(w, e, sources, indices)
    n = sizes.pop()
    texts = [w.vector(v, first, n) for v, first, n in order]
    return merge_lanes(w, w.vector_type(e.type, n), texts, where)


def merge_lanes(
    w: Writer, v: VectorType, texts: list[Text], where: list[tuple[int, int]]
) -> Text:
    """Lanes (which text, which lane of it) of vectors of one type as one vector."""
    lanes = len(where)
    if len(texts) <= 2:
        second = texts[-1]
        indices = tuple([p * v.lanes + k for p, k in where])
        return call(w.helpers.shuffle(v, indices), texts[0], second)
    # Two vectors at a time, each result already in its final places; then the results are joined.
    partial: list[Text] = []
    owner: list[int] = [0] * lanes
    for at in range(0, len(texts), 2):
        pair = texts[at : at + 2]
        indices = []
        for k, (p, lane) in enumerate(where):
            if at <= p < at + len(pair):
                indices.append((p - at) * v.lanes + lane)
                owner[k] = at // 2
            else:
                indices.append(0)
        name = w.helpers.shuffle(v, tuple(indices))
        text = call(name, pair[0], pair[-1])
        result = VectorType(v.kind, v.width, lanes)
        partial.append(w.local(w.helpers.type(result), text[0]))
    result = VectorType(v.kind, v.width, lanes)
    return merge_lanes(w, result, partial, [(owner[k], k) for k in range(lanes)])


def _native(w: Writer, v: E.Expr) -> int:
    return max(2, w.unit.register_bytes // max(1, w.vector_type(v.type, 2).width // 8))


def _assemble_shuffle(
    w: Writer, e: E.Expr, sources: list[tuple[int, E.Expr]], indices: tuple[int, ...]
) -> Text:
    vectors = tuple([v for _, v in sources])
    return assemble(w, E.Shuffle(vectors, indices), 0, len(indices))
