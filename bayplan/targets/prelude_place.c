/* Places temporaries whose sizes only the call knows; `Placement.place` gives the same numbers. */

/* Everything about a set of temporaries but their sizes. */
typedef struct bp_placement {
    int32_t count;              /* temporaries */
    int32_t relations;          /* ways to order them from the bottom to the top */
    int32_t cliques;            /* largest sets that are alive together */
    int64_t grain;              /* divides every alignment */
    const int32_t *begin;       /* of each life */
    const int32_t *end;
    const int64_t *alignment;   /* of each offset */
    const int32_t *order;       /* relations * count numbers, bottom first */
    const int32_t *below_end;   /* in that order: where its part of `below` ends */
    const int32_t *below;       /* numbers of those directly below */
    const int32_t *clique_end;  /* where the part of each clique ends */
    const int32_t *clique;      /* its members */
} bp_placement;

#define BP_PLACED_ANSWERS 4

/* The last answers: for each its bytes, the sizes asked for, and the offsets. */
typedef struct bp_placed {
    unsigned char busy;
    int32_t used;
    int32_t next;
    int64_t *answers;  /* BP_PLACED_ANSWERS * (1 + 2 * count) */
} bp_placed;

static inline bool bp_place_together(const bp_placement *p, int32_t i, int32_t j) {
    return p->begin[i] < p->end[j] && p->begin[j] < p->end[i];
}

/* Rounds up to a multiple; true where the result does not fit. */
static inline bool bp_place_align(int64_t *value, int64_t alignment) {
    if ((alignment & (alignment - 1)) == 0) {
        if (__builtin_add_overflow(*value, alignment - 1, value)) return true;
        *value &= -alignment;
        return false;
    }
    const int64_t rest = *value % alignment;
    return rest != 0 && __builtin_add_overflow(*value, alignment - rest, value);
}

/* Puts temporary i at `offset` or above; raises `total` to its end. True on overflow. */
static inline bool bp_place_put(const bp_placement *p, const int64_t *sizes, int64_t *offsets,
                                int32_t i, int64_t offset, int64_t *total) {
    int64_t end;
    if (bp_place_align(&offset, p->alignment[i])) return true;
    if (__builtin_add_overflow(offset, sizes[i], &end)) return true;
    offsets[i] = offset;
    if (end > *total) *total = end;
    return false;
}

/* Longest paths over relation r. Bytes, or -1 where they do not fit. */
static int64_t bp_place_stack(const bp_placement *p, int32_t r, const int64_t *sizes,
                              int64_t *offsets, bool empty) {
    const int32_t first = r * p->count;
    int32_t from = first > 0 ? p->below_end[first - 1] : 0;
    int64_t total = 0;
    for (int32_t k = first; k < first + p->count; k++) {
        const int32_t i = p->order[k];
        const int32_t to = p->below_end[k];
        int64_t top = 0;
        if (!empty) {
            for (int32_t e = from; e < to; e++) {
                const int64_t end = offsets[p->below[e]] + sizes[p->below[e]];
                if (end > top) top = end;
            }
        } else if (sizes[i] > 0) {
            /* Who lies directly below depends on who takes room at all. */
            for (int32_t e = first; e < k; e++) {
                const int32_t j = p->order[e];
                if (sizes[j] > 0 && bp_place_together(p, i, j) && offsets[j] + sizes[j] > top)
                    top = offsets[j] + sizes[j];
            }
        }
        from = to;
        if (bp_place_put(p, sizes, offsets, i, top, &total)) return -1;
    }
    return total;
}

/* The biggest first, each at the lowest free place. Bytes, or -1 where they do not fit. */
static int64_t bp_place_first_fit(const bp_placement *p, const int64_t *sizes, int64_t *offsets) {
    int64_t total = 0;
    for (int32_t i = 0; i < p->count; i++) offsets[i] = sizes[i] > 0 ? -1 : 0;
    for (;;) {
        int32_t i = -1;
        for (int32_t j = 0; j < p->count; j++)
            if (offsets[j] < 0 && (i < 0 || sizes[j] > sizes[i])) i = j;
        if (i < 0) return total;
        int64_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int32_t j = 0; j < p->count; j++) {
                if (offsets[j] < 0 || sizes[j] == 0 || !bp_place_together(p, i, j)) continue;
                if (offsets[j] + sizes[j] <= offset || offsets[j] - offset >= sizes[i]) continue;
                offset = offsets[j] + sizes[j];
                if (bp_place_align(&offset, p->alignment[i])) return -1;
                moved = true;
            }
        }
        if (bp_place_put(p, sizes, offsets, i, offset, &total)) return -1;
    }
}

/* The largest sum of sizes alive together, or -1 where it does not fit. */
static int64_t bp_place_floor(const bp_placement *p, const int64_t *sizes) {
    int64_t floor = 0;
    int32_t e = 0;
    for (int32_t c = 0; c < p->cliques; c++) {
        int64_t sum = 0;
        for (; e < p->clique_end[c]; e++) {
            int64_t size = sizes[p->clique[e]];
            if (bp_place_align(&size, p->grain)) return -1;
            if (__builtin_add_overflow(sum, size, &sum)) return -1;
        }
        if (sum > floor) floor = sum;
    }
    return floor;
}

static int64_t bp_place_anew(const bp_placement *p, const int64_t *sizes, int64_t *offsets) {
    bool empty = false;
    for (int32_t i = 0; i < p->count; i++) {
        if (sizes[i] < 0) return -1;
        if (sizes[i] == 0) empty = true;
    }
    const int64_t floor = bp_place_floor(p, sizes);
    if (floor < 0) return -1;
    int64_t best = -1;
    int32_t chosen = 0;
    for (int32_t r = 0; r < p->relations; r++) {
        const int64_t total = bp_place_stack(p, r, sizes, offsets, empty);
        if (total >= 0 && (best < 0 || total < best)) {
            best = total;
            chosen = r;
        }
    }
    if (best < 0 || best - floor > floor / 20 * 3 + floor % 20 * 3 / 20) {
        const int64_t total = bp_place_first_fit(p, sizes, offsets);
        if (total >= 0 && (best < 0 || total < best)) return total;
    } else if (chosen == p->relations - 1) {
        return best;
    }
    return best < 0 ? best : bp_place_stack(p, chosen, sizes, offsets, empty);
}

/* The offsets of all temporaries and the bytes of their arena; -1 where they do not fit into 63
   bits. Any number of threads may share `cache`: who finds it busy goes without. */
static int64_t bp_place(const bp_placement *p, bp_placed *cache, const int64_t *sizes,
                        int64_t *offsets) {
    const int32_t n = p->count;
    const int32_t row = 1 + 2 * n;
    if (!__atomic_exchange_n(&cache->busy, (unsigned char)1, __ATOMIC_ACQUIRE)) {
        int64_t total = -1;
        for (int32_t a = 0; a < cache->used && total < 0; a++) {
            const int64_t *known = cache->answers + a * row;
            int32_t i = 0;
            while (i < n && known[1 + i] == sizes[i]) i++;
            if (i < n) continue;
            total = known[0];
            for (i = 0; i < n; i++) offsets[i] = known[1 + n + i];
        }
        __atomic_store_n(&cache->busy, (unsigned char)0, __ATOMIC_RELEASE);
        if (total >= 0) return total;
    }
    const int64_t total = bp_place_anew(p, sizes, offsets);
    if (total >= 0 && !__atomic_exchange_n(&cache->busy, (unsigned char)1, __ATOMIC_ACQUIRE)) {
        int64_t *known = cache->answers + cache->next * row;
        known[0] = total;
        for (int32_t i = 0; i < n; i++) {
            known[1 + i] = sizes[i];
            known[1 + n + i] = offsets[i];
        }
        cache->next = (cache->next + 1) % BP_PLACED_ANSWERS;
        if (cache->used < BP_PLACED_ANSWERS) cache->used++;
        __atomic_store_n(&cache->busy, (unsigned char)0, __ATOMIC_RELEASE);
    }
    return total;
}
