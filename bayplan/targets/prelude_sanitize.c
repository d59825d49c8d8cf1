/* Lives of temporaries in a build with guards. All that live now are in one list, whichever call
 * or task they belong to, so two that are given the same bytes are found when the second begins. */
typedef struct bp_life {
    struct bp_life *next;
    const char *name;
    uint8_t *begin;
    uint64_t bytes;
    int32_t begun;
} bp_life;

enum { BP_GUARD = 64, BP_GUARD_BYTE = 0xFD, BP_DEAD_BYTE = 0xCD };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BP_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(BP_ADDRESS_SANITIZER)
void __asan_poison_memory_region(void const volatile *begin, size_t bytes);
void __asan_unpoison_memory_region(void const volatile *begin, size_t bytes);
#define BP_CLOSE(begin, bytes) __asan_poison_memory_region(begin, bytes)
#define BP_OPEN(begin, bytes) __asan_unpoison_memory_region(begin, bytes)
#else
#define BP_CLOSE(begin, bytes) ((void)(begin), (void)(bytes))
#define BP_OPEN(begin, bytes) ((void)(begin), (void)(bytes))
#endif

static bp_life *bp_lives;
static int32_t bp_lives_lock;

static void bp_lock_lives(void) {
    while (__atomic_exchange_n(&bp_lives_lock, 1, __ATOMIC_ACQUIRE)) {
    }
}

static void bp_unlock_lives(void) { __atomic_store_n(&bp_lives_lock, 0, __ATOMIC_RELEASE); }

static void bp_fill(uint8_t *begin, uint64_t bytes, int32_t value) {
    for (uint64_t i = 0; i < bytes; i++) begin[i] = (uint8_t)value;
}

static int32_t bp_is_damaged(const uint8_t *guard) {
    int32_t damaged = 0;
    for (int32_t i = 0; i < BP_GUARD; i++) damaged |= guard[i] != BP_GUARD_BYTE;
    return damaged;
}

/* Begins a life that has not begun; the name of one that has some of the same bytes, or NULL. */
static const char *bp_begin_life(bp_life *life, void *begin, int64_t bytes, const char *name) {
    const char *other = NULL;
    if (life->begun || bytes <= 0) return NULL;
    life->name = name;
    life->begin = (uint8_t *)begin;
    life->bytes = (uint64_t)bytes;
    uint8_t *const low = life->begin - BP_GUARD, *const high = life->begin + bytes + BP_GUARD;
    bp_lock_lives();
    for (bp_life *l = bp_lives; l && !other; l = l->next)
        if (l->begin - BP_GUARD < high && low < l->begin + l->bytes + BP_GUARD) other = l->name;
    if (!other) {
        life->next = bp_lives;
        life->begun = 1;
        bp_lives = life;
    }
    bp_unlock_lives();
    if (other) return other;
    BP_OPEN(low, (uint64_t)bytes + 2 * BP_GUARD);
    bp_fill(low, BP_GUARD, BP_GUARD_BYTE);
    bp_fill(life->begin, life->bytes, BP_DEAD_BYTE);
    bp_fill(life->begin + bytes, BP_GUARD, BP_GUARD_BYTE);
    BP_CLOSE(low, BP_GUARD);
    BP_CLOSE(life->begin + bytes, BP_GUARD);
    return NULL;
}

/* Ends a life that has begun; where bytes around it were written: "before" or "behind". */
static const char *bp_end_life(bp_life *life) {
    const char *where = NULL;
    if (!life->begun) return NULL;
    bp_lock_lives();
    bp_life **link = &bp_lives;
    while (*link != life) link = &(*link)->next;
    *link = life->next;
    life->begun = 0;
    bp_unlock_lives();
    uint8_t *const low = life->begin - BP_GUARD, *const end = life->begin + life->bytes;
    BP_OPEN(low, life->bytes + 2 * BP_GUARD);
    if (bp_is_damaged(low)) where = "before";
    else if (bp_is_damaged(end)) where = "behind";
    bp_fill(low, life->bytes + 2 * BP_GUARD, BP_DEAD_BYTE);
    return where;
}
