/* Exact search for a packing within a capacity; `search.py` does the same, slower.

   Requests are placed one on top of the others, in the order of their offsets, so each lies at the
   highest end among those already below it. What is cut away:
   - canonical order: of equal offsets the lower rank comes first;
   - dominance: nothing is placed at an offset under which another request would still fit;
   - sections: between two births the bytes still to come must fit over the lowest place that any
     of them can get;
   - parts: requests that no open request joins in time are searched apart;
   - memory: an open set with the same lowest places has failed before.
   All numbers are in a unit that divides every size. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { BP_NO_PACKING = 0, BP_PACKED = 1, BP_STOPPED = -1, BP_NO_MEMORY = -2 };

typedef struct {
    int32_t number;
    int64_t lowest;
} bp_change;

typedef struct {
    const int32_t *begin, *end; /* sections of each life */
    const int64_t *size, *alignment;
    const int64_t *pin; /* or -1 */
    const int32_t *rank;
    int64_t capacity, limit, nodes;
    const volatile int32_t *stop;
    int64_t *lowest;  /* where each open request can lie at the lowest */
    int64_t *open;    /* bytes still to come, for each section */
    int64_t *level;   /* the lowest place in each section, for the node at hand */
    int64_t *offset;
    bool *done;
    int32_t *conflict_end, *conflicts;
    int32_t *placed;
    int32_t placed_count;
    bp_change *changes;
    int64_t change_count, change_room;
    int32_t *lists;
    int64_t list_used, list_room;
    uint64_t *failed;
    uint64_t mask;
} bp_search;

static int search_all(bp_search *s, const int32_t *members, int32_t count, int64_t last,
                      int32_t last_rank);

static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int put(bp_search *s, int32_t i, int64_t offset) {
    const int64_t end = offset + s->size[i];
    s->offset[i] = offset;
    s->done[i] = true;
    s->placed[s->placed_count++] = i;
    for (int32_t k = s->begin[i]; k < s->end[i]; k++) s->open[k] -= s->size[i];
    for (int32_t k = i ? s->conflict_end[i - 1] : 0; k < s->conflict_end[i]; k++) {
        const int32_t j = s->conflicts[k];
        if (s->done[j] || s->lowest[j] >= end) continue;
        if (s->pin[j] >= 0) return BP_NO_PACKING;
        if (s->change_count == s->change_room) {
            s->change_room *= 2;
            bp_change *more = realloc(s->changes, (size_t)s->change_room * sizeof *more);
            if (!more) return BP_NO_MEMORY;
            s->changes = more;
        }
        s->changes[s->change_count].number = j;
        s->changes[s->change_count++].lowest = s->lowest[j];
        s->lowest[j] = (end + s->alignment[j] - 1) / s->alignment[j] * s->alignment[j];
    }
    return BP_PACKED;
}

static void undo(bp_search *s, int32_t placed_count, int64_t change_count) {
    while (s->change_count > change_count) {
        const bp_change *c = &s->changes[--s->change_count];
        s->lowest[c->number] = c->lowest;
    }
    while (s->placed_count > placed_count) {
        const int32_t i = s->placed[--s->placed_count];
        s->done[i] = false;
        for (int32_t k = s->begin[i]; k < s->end[i]; k++) s->open[k] += s->size[i];
    }
}

/* What the members of a part allow at the node at hand. */
typedef struct {
    int64_t below;    /* a candidate lies below this, or another would fit under it */
    int64_t highest;  /* the highest offset that leaves room for all that is to come */
    bool excluded;    /* the order of what is placed keeps some members from their place */
} bp_view;

/* False where the bytes to come do not fit into some section. */
static bool look(bp_search *s, const int32_t *members, int32_t count, int32_t first, int32_t end,
                 int64_t last, int32_t last_rank, bp_view *view) {
    int64_t *level = s->level;
    const int64_t *open = s->open;
    view->below = view->highest = INT64_MAX;
    view->excluded = false;
    for (int32_t k = first; k < end; k++) level[k] = INT64_MAX;
    for (int32_t q = 0; q < count; q++) {
        const int32_t j = members[q];
        int64_t low = s->lowest[j];
        if (low + s->size[j] < view->below) view->below = low + s->size[j];
        if (s->pin[j] >= 0 && s->pin[j] < view->highest) view->highest = s->pin[j];
        if (low < last || (low == last && s->rank[j] < last_rank)) view->excluded = true;
        if (low < last) low = last;
        for (int32_t k = s->begin[j]; k < s->end[j]; k++)
            level[k] = level[k] < low ? level[k] : low;
    }
    int64_t most = 0, room = 0;
    for (int32_t k = first; k < end; k++) {
        if (level[k] == INT64_MAX) continue;
        room |= s->capacity - open[k] - level[k];
        most = most > open[k] ? most : open[k];
    }
    if (s->capacity - most < view->highest) view->highest = s->capacity - most;
    return room >= 0;
}

/* Identifies all that the search of a part depends on. */
static uint64_t sign(const bp_search *s, const int32_t *members, int32_t count, int64_t last,
                     int32_t last_rank, bool excluded) {
    uint64_t sum = excluded ? mix(mix((uint64_t)last + 1) + (uint64_t)last_rank) : 7;
    for (int32_t q = 0; q < count; q++) {
        const uint64_t j = (uint64_t)members[q] + 1;
        sum += mix(j * 0x9e3779b97f4a7c15u ^ mix((uint64_t)s->lowest[members[q]] + 12345));
    }
    sum = mix(sum);
    return sum ? sum : 1;
}

/* Those that may come next, the lowest first. */
static int32_t list_candidates(const bp_search *s, const int32_t *members, int32_t count,
                               int64_t last, int32_t last_rank, const bp_view *view,
                               int32_t *list) {
    int32_t found = 0;
    for (int32_t q = 0; q < count; q++) {
        const int32_t j = members[q];
        const int64_t low = s->lowest[j];
        if (low < last || (low == last && s->rank[j] < last_rank)) continue;
        if (low >= view->below || low > view->highest) continue;
        int32_t at = found++;
        for (; at > 0; at--) {
            const int32_t x = list[at - 1];
            if (s->lowest[x] < low || (s->lowest[x] == low && s->rank[x] < s->rank[j])) break;
            list[at] = x;
        }
        list[at] = j;
    }
    return found;
}

static int search_part(bp_search *s, const int32_t *members, int32_t count, int32_t end,
                       int64_t last, int32_t last_rank) {
    if (s->nodes++ >= s->limit || *s->stop) return BP_STOPPED;
    bp_view view;
    const int32_t first = s->begin[members[0]];
    if (!look(s, members, count, first, end, last, last_rank, &view)) return BP_NO_PACKING;
    const uint64_t key = sign(s, members, count, last, last_rank, view.excluded);
    if (s->failed[key & s->mask] == key) return BP_NO_PACKING;
    const int64_t used = s->list_used;
    if (used + 2 * count > s->list_room) return BP_NO_MEMORY;
    int32_t *candidates = s->lists + used;
    int32_t *rest = candidates + count;
    s->list_used = used + 2 * count;
    const int32_t found =
        list_candidates(s, members, count, last, last_rank, &view, candidates);
    const int32_t placed_count = s->placed_count;
    const int64_t change_count = s->change_count;
    int result = BP_NO_PACKING;
    for (int32_t c = 0; c < found && result == BP_NO_PACKING; c++) {
        const int32_t i = candidates[c];
        const int64_t offset = s->lowest[i];
        result = put(s, i, offset);
        if (result == BP_PACKED) {
            int32_t left = 0;
            for (int32_t q = 0; q < count; q++)
                if (members[q] != i) rest[left++] = members[q];
            result = search_all(s, rest, left, offset, s->rank[i]);
        }
        if (result == BP_NO_PACKING) undo(s, placed_count, change_count);
    }
    s->list_used = used;
    if (result == BP_NO_PACKING) s->failed[key & s->mask] = key;
    return result;
}

/* Searches each part apart; members are in the order of their births. */
static int search_all(bp_search *s, const int32_t *members, int32_t count, int64_t last,
                      int32_t last_rank) {
    const int32_t placed_count = s->placed_count;
    const int64_t change_count = s->change_count;
    for (int32_t q = 0; q < count;) {
        const int32_t from = q;
        int32_t end = s->end[members[q]];
        for (q++; q < count && s->begin[members[q]] < end; q++)
            if (s->end[members[q]] > end) end = s->end[members[q]];
        const int result = search_part(s, members + from, q - from, end, last, last_rank);
        if (result == BP_PACKED) continue;
        if (result == BP_NO_PACKING) undo(s, placed_count, change_count);
        return result;
    }
    return BP_PACKED;
}

static bool together(const bp_search *s, int32_t i, int32_t j) {
    return i != j && s->begin[i] < s->end[j] && s->begin[j] < s->end[i];
}

/* Takes all memory and finds who conflicts with whom. */
static bool begin_search(bp_search *s, int32_t count, int32_t sections) {
    const size_t n = (size_t)count + 1, m = (size_t)sections + 1;
    size_t pairs = 0;
    for (int32_t i = 0; i < count; i++)
        for (int32_t j = 0; j < count; j++) pairs += together(s, i, j);
    s->lowest = calloc(n, sizeof *s->lowest);
    s->open = calloc(m, sizeof *s->open);
    s->level = calloc(m, sizeof *s->level);
    s->done = calloc(n, sizeof *s->done);
    s->placed = calloc(n, sizeof *s->placed);
    s->conflict_end = calloc(n, sizeof *s->conflict_end);
    s->conflicts = calloc(pairs + 1, sizeof *s->conflicts);
    s->change_room = 1024;
    s->changes = calloc((size_t)s->change_room, sizeof *s->changes);
    s->list_room = (int64_t)count * (count + 3);
    s->lists = calloc((size_t)s->list_room + 1, sizeof *s->lists);
    s->mask = 1023;
    while ((int64_t)s->mask < s->limit && s->mask < (1u << 21) - 1) s->mask = 2 * s->mask + 1;
    s->failed = calloc((size_t)s->mask + 1, sizeof *s->failed);
    if (!s->lowest || !s->open || !s->level || !s->done || !s->placed || !s->conflict_end ||
        !s->conflicts || !s->changes || !s->lists || !s->failed)
        return false;
    pairs = 0;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < count; j++)
            if (together(s, i, j)) s->conflicts[pairs++] = j;
        s->conflict_end[i] = (int32_t)pairs;
        if (s->pin[i] >= 0) s->lowest[i] = s->pin[i];
        for (int32_t k = s->begin[i]; k < s->end[i]; k++) s->open[k] += s->size[i];
    }
    return true;
}

static void end_search(bp_search *s) {
    free(s->lowest);
    free(s->open);
    free(s->level);
    free(s->done);
    free(s->placed);
    free(s->conflict_end);
    free(s->conflicts);
    free(s->changes);
    free(s->lists);
    free(s->failed);
}

/* Requests in the order of their births. Returns 1 (packed, see `offset`), 0 (there is no packing),
   -1 (stopped by the limit of nodes or by *stop), -2 (no memory). */
__attribute__((visibility("default"))) int32_t bp_search_packing(
    int32_t count, int32_t sections, const int32_t *begin, const int32_t *end,
    const int64_t *size, const int64_t *alignment, const int64_t *pin, const int32_t *rank,
    int64_t capacity, int64_t limit, const volatile int32_t *stop, int64_t *offset,
    int64_t *nodes) {
    bp_search s = {0};
    s.begin = begin;
    s.end = end;
    s.size = size;
    s.alignment = alignment;
    s.pin = pin;
    s.rank = rank;
    s.capacity = capacity;
    s.limit = limit;
    s.stop = stop;
    s.offset = offset;
    int result = BP_NO_MEMORY;
    if (begin_search(&s, count, sections)) {
        /* The first list of members: all of them. */
        for (int32_t i = 0; i < count; i++) s.lists[i] = i;
        s.list_used = count;
        result = search_all(&s, s.lists, count, 0, -1);
    }
    *nodes = s.nodes;
    end_search(&s);
    return result;
}
