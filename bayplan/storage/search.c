/* Exact search for a packing within a capacity; `search.py` does the same, slower.

   Requests are placed one on top of the others, in the order of their offsets, so each lies at the
   highest end among those already below it. What is cut away:
   - canonical order: of equal offsets the lower rank comes first;
   - dominance: nothing is placed at an offset under which another request would still fit;
   - sections: between two births the bytes still to come must fit over the lowest place that any
     of them can get;
   - parts: requests that no open request joins in time are searched apart;
   - memory: an open set with the same lowest places has failed before.
   All numbers are in a unit that divides every size.

   When asked to jump, a failure goes straight back to a request that it rests on: one that holds
   up somebody in the section without room. That is no proof, but it finds packings where the
   search would else try again and again what does not matter. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { BP_NO_PACKING = 0, BP_PACKED = 1, BP_STOPPED = -1, BP_NO_MEMORY = -2 };

typedef struct {
    int32_t number;
    int32_t support;
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
    /* Only for jumps; sets of requests are `words` words each. */
    bool jump, jumped;
    int32_t words;
    int32_t *support;   /* who raised each open request the last time, or -1 */
    uint64_t *pile;     /* of each placed request: itself and all that it rests on */
    uint64_t *reason;   /* what the last failure rests on */
    uint64_t *reasons;  /* for each number of placed requests: the reasons of its candidates */
    int64_t *blame;     /* how often each request was in the section without room */
} bp_search;

static int search_all(bp_search *s, const int32_t *members, int32_t count, int32_t latest);

static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void add_set(const bp_search *s, uint64_t *set, const uint64_t *other) {
    for (int32_t w = 0; w < s->words; w++) set[w] |= other[w];
}

static void add_pile(const bp_search *s, uint64_t *set, int32_t i) {
    if (i >= 0) add_set(s, set, s->pile + (size_t)i * (size_t)s->words);
}

static void clear_set(const bp_search *s, uint64_t *set) {
    for (int32_t w = 0; w < s->words; w++) set[w] = 0;
}

static int put(bp_search *s, int32_t i, int64_t offset) {
    const int64_t end = offset + s->size[i];
    s->offset[i] = offset;
    s->done[i] = true;
    s->placed[s->placed_count++] = i;
    if (s->jump) {
        uint64_t *pile = s->pile + (size_t)i * (size_t)s->words;
        clear_set(s, pile);
        add_pile(s, pile, s->support[i]);
        pile[i / 64] |= (uint64_t)1 << i % 64;
    }
    for (int32_t k = s->begin[i]; k < s->end[i]; k++) s->open[k] -= s->size[i];
    for (int32_t k = i ? s->conflict_end[i - 1] : 0; k < s->conflict_end[i]; k++) {
        const int32_t j = s->conflicts[k];
        if (s->done[j] || s->lowest[j] >= end) continue;
        if (s->pin[j] >= 0) {
            if (s->jump) add_pile(s, (clear_set(s, s->reason), s->reason), i);
            return BP_NO_PACKING;
        }
        if (s->change_count == s->change_room) {
            s->change_room *= 2;
            bp_change *more = realloc(s->changes, (size_t)s->change_room * sizeof *more);
            if (!more) return BP_NO_MEMORY;
            s->changes = more;
        }
        s->changes[s->change_count].number = j;
        s->changes[s->change_count].support = s->support[j];
        s->changes[s->change_count++].lowest = s->lowest[j];
        s->support[j] = i;
        s->lowest[j] = (end + s->alignment[j] - 1) / s->alignment[j] * s->alignment[j];
    }
    return BP_PACKED;
}

static void undo(bp_search *s, int32_t placed_count, int64_t change_count) {
    while (s->change_count > change_count) {
        const bp_change *c = &s->changes[--s->change_count];
        s->lowest[c->number] = c->lowest;
        s->support[c->number] = c->support;
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

static int64_t offset_of(const bp_search *s, int32_t latest) {
    return latest < 0 ? 0 : s->offset[latest];
}

static int32_t rank_of(const bp_search *s, int32_t latest) {
    return latest < 0 ? -1 : s->rank[latest];
}

/* False where the bytes to come do not fit into some section. */
static bool look(bp_search *s, const int32_t *members, int32_t count, int32_t first, int32_t end,
                 int32_t latest, bp_view *view) {
    const int64_t last = offset_of(s, latest);
    const int32_t last_rank = rank_of(s, latest);
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
static uint64_t sign(const bp_search *s, const int32_t *members, int32_t count, int32_t latest,
                     bool excluded) {
    uint64_t sum = 7;
    if (excluded)
        sum = mix(mix((uint64_t)offset_of(s, latest) + 1) + (uint64_t)rank_of(s, latest));
    for (int32_t q = 0; q < count; q++) {
        const uint64_t j = (uint64_t)members[q] + 1;
        sum += mix(j * 0x9e3779b97f4a7c15u ^ mix((uint64_t)s->lowest[members[q]] + 12345));
    }
    sum = mix(sum);
    return sum ? sum : 1;
}

/* Those that may come next, the lowest first. */
static int32_t list_candidates(const bp_search *s, const int32_t *members, int32_t count,
                               int32_t latest, const bp_view *view, int32_t *list) {
    const int64_t last = offset_of(s, latest);
    const int32_t last_rank = rank_of(s, latest);
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

/* The smallest reason for a section without room: who holds up those that are to come. */
static void explain_section(bp_search *s, const int32_t *members, int32_t count, int32_t first,
                            int32_t end, int32_t latest) {
    uint64_t *set = s->reasons + (size_t)s->placed_count * (size_t)s->words;
    int32_t least = INT32_MAX, section = first;
    for (int32_t k = first; k < end; k++) {
        const int64_t room = s->capacity - s->open[k];
        if (s->level[k] == INT64_MAX || s->level[k] <= room) continue;
        clear_set(s, set);
        for (int32_t q = 0; q < count && s->begin[members[q]] <= k; q++) {
            const int32_t j = members[q];
            if (s->end[j] > k) add_pile(s, set, s->lowest[j] > room ? s->support[j] : latest);
        }
        int32_t size = 0;
        for (int32_t w = 0; w < s->words; w++) size += __builtin_popcountll(set[w]);
        if (size >= least) continue;
        least = size;
        section = k;
        clear_set(s, s->reason);
        add_set(s, s->reason, set);
    }
    for (int32_t q = 0; q < count && s->begin[members[q]] <= section; q++)
        if (s->end[members[q]] > section) s->blame[members[q]]++;
}

/* The reason for all that the search of a part depends on. */
static void explain_part(bp_search *s, const int32_t *members, int32_t count, int32_t latest,
                         bool excluded) {
    clear_set(s, s->reason);
    for (int32_t q = 0; q < count; q++) add_pile(s, s->reason, s->support[members[q]]);
    if (excluded) add_pile(s, s->reason, latest);
}

/* Takes the failure of candidate i into the reason of its node; true where it does not rest on i,
   so that no other candidate would help. */
static bool take_reason(bp_search *s, int32_t i, uint64_t *sum) {
    const uint64_t bit = (uint64_t)1 << i % 64;
    if (!(s->reason[i / 64] & bit)) return s->jumped = true;
    s->reason[i / 64] &= ~bit;
    add_set(s, sum, s->reason);
    return false;
}

static int try_candidates(bp_search *s, const int32_t *members, int32_t count, int32_t latest,
                          const bp_view *view, int32_t *lists) {
    int32_t *candidates = lists, *rest = lists + count;
    const int32_t found = list_candidates(s, members, count, latest, view, candidates);
    const int32_t placed_count = s->placed_count;
    const int64_t change_count = s->change_count;
    uint64_t *sum = s->reasons + (size_t)placed_count * (size_t)s->words;
    if (s->jump) clear_set(s, sum);
    for (int32_t c = 0; c < found; c++) {
        const int32_t i = candidates[c];
        int result = put(s, i, s->lowest[i]);
        if (result == BP_PACKED) {
            int32_t left = 0;
            for (int32_t q = 0; q < count; q++)
                if (members[q] != i) rest[left++] = members[q];
            result = search_all(s, rest, left, i);
        }
        if (result != BP_NO_PACKING) return result;
        undo(s, placed_count, change_count);
        if (s->jump && take_reason(s, i, sum)) return BP_NO_PACKING;
    }
    if (s->jump && found == 0) {
        explain_part(s, members, count, latest, view->excluded);
    } else if (s->jump) {
        if (view->excluded) add_pile(s, sum, latest);
        clear_set(s, s->reason);
        add_set(s, s->reason, sum);
    }
    return BP_NO_PACKING;
}

static int search_part(bp_search *s, const int32_t *members, int32_t count, int32_t end,
                       int32_t latest) {
    if (s->nodes++ >= s->limit || *s->stop) return BP_STOPPED;
    bp_view view;
    const int32_t first = s->begin[members[0]];
    if (!look(s, members, count, first, end, latest, &view)) {
        if (s->jump) explain_section(s, members, count, first, end, latest);
        return BP_NO_PACKING;
    }
    const uint64_t key = sign(s, members, count, latest, view.excluded);
    if (s->failed[key & s->mask] == key) {
        if (s->jump) explain_part(s, members, count, latest, view.excluded);
        return BP_NO_PACKING;
    }
    const int64_t used = s->list_used;
    if (used + 2 * count > s->list_room) return BP_NO_MEMORY;
    s->list_used = used + 2 * count;
    const int result = try_candidates(s, members, count, latest, &view, s->lists + used);
    s->list_used = used;
    if (result == BP_NO_PACKING) s->failed[key & s->mask] = key;
    return result;
}

/* Searches each part apart; members are in the order of their births. */
static int search_all(bp_search *s, const int32_t *members, int32_t count, int32_t latest) {
    const int32_t placed_count = s->placed_count;
    const int64_t change_count = s->change_count;
    for (int32_t q = 0; q < count;) {
        const int32_t from = q;
        int32_t end = s->end[members[q]];
        for (q++; q < count && s->begin[members[q]] < end; q++)
            if (s->end[members[q]] > end) end = s->end[members[q]];
        const int result = search_part(s, members + from, q - from, end, latest);
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
    s->support = calloc(n, sizeof *s->support);
    s->words = s->jump ? count / 64 + 1 : 0;
    const size_t words = (size_t)s->words;
    s->pile = calloc(n * words + 1, sizeof *s->pile);
    s->reason = calloc(words + 1, sizeof *s->reason);
    s->reasons = calloc(n * words + 1, sizeof *s->reasons);
    s->mask = 1023;
    while ((int64_t)s->mask < s->limit && s->mask < (1u << 21) - 1) s->mask = 2 * s->mask + 1;
    s->failed = calloc((size_t)s->mask + 1, sizeof *s->failed);
    if (!s->lowest || !s->open || !s->level || !s->done || !s->placed || !s->conflict_end ||
        !s->conflicts || !s->changes || !s->lists || !s->failed ||
        !s->support || !s->pile || !s->reason || !s->reasons)
        return false;
    pairs = 0;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < count; j++)
            if (together(s, i, j)) s->conflicts[pairs++] = j;
        s->conflict_end[i] = (int32_t)pairs;
        s->support[i] = -1;
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
    free(s->support);
    free(s->pile);
    free(s->reason);
    free(s->reasons);
}

/* Requests in the order of their births. Returns 1 (packed, see `offset`), 0 (there is no packing),
   -1 (stopped by the limit of nodes or by *stop, or gave up after jumps), -2 (no memory). Jumps if
   `blame` is given, and counts there. */
__attribute__((visibility("default"))) int32_t bp_search_packing(
    int32_t count, int32_t sections, const int32_t *begin, const int32_t *end,
    const int64_t *size, const int64_t *alignment, const int64_t *pin, const int32_t *rank,
    int64_t capacity, int64_t limit, const volatile int32_t *stop, int64_t *offset,
    int64_t *nodes, int64_t *blame) {
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
    s.jump = blame != NULL;
    s.blame = blame;
    int result = BP_NO_MEMORY;
    if (begin_search(&s, count, sections)) {
        /* The first list of members: all of them. */
        for (int32_t i = 0; i < count; i++) s.lists[i] = i;
        s.list_used = count;
        result = search_all(&s, s.lists, count, -1);
    }
    if (result == BP_NO_PACKING && s.jumped) result = BP_STOPPED;
    *nodes = s.nodes;
    end_search(&s);
    return result;
}
