/* Memory of temporaries: freed blocks are kept for the next call.
 *
 * Blocks come in size classes, eight between two powers of two, so at most one byte in eight is
 * padding. Small blocks come from malloc, big ones from mmap with whole pages; those of 2 MiB and
 * more ask for huge pages: their first touch takes a quarter of the time or less. In front of each
 * block stands a header, for big blocks on its own page.
 *
 * Kept blocks stand in two lists: those of a class, the newest first, and all of them by age, so
 * that the oldest go back to the system first. They go back when a limit would be passed, when the
 * system refuses a request, and on request (`bp_rt_trim`).
 */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 64, PAGE = 4096, CLASSES = 8 * 64 };
static const uint64_t BIG = 256 << 10, HUGE_BYTES = 2 << 20, HUGE_PAGE = 2 << 20;
static const uint32_t MAGIC = 0xba9b10c5;

typedef struct header {
    uint32_t magic;
    uint16_t class_index;
    uint16_t is_mapped;  /* by mmap, else by malloc */
    uint64_t asked;      /* bytes of the last request */
    uint64_t capacity;   /* bytes that can be used */
    void *base;          /* what munmap or free takes */
    struct header *next; /* older block of the class */
    struct header *newer, *older;
    uint32_t generation; /* of the process it was made in; a fork begins a new one */
} header;

_Static_assert(sizeof(header) <= HEADER, "a header fits in front of its block");

static struct {
    pthread_mutex_t lock;
    header *classes[CLASSES]; /* kept blocks, the newest of each class */
    header *newest, *oldest;
    uint64_t asked_bytes, used_bytes; /* of live blocks, without and with padding */
    uint64_t kept_bytes;
    uint64_t limit_bytes; /* of used and kept bytes together; 0: none */
    uint64_t keep_bytes;  /* kept bytes stay below this; 0: not yet known */
    int64_t requests, refusals, system_calls;
    header *inherited; /* kept blocks of the process that forked, the newest */
    uint32_t generation;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The class of a size, and the bytes of its blocks: the size with its top four bits rounded up. */
static uint32_t find_class(uint64_t bytes, uint64_t *capacity) {
    if (bytes < 512) {
        *capacity = (bytes + 63) & ~(uint64_t)63;
        if (*capacity == 0) *capacity = 64;
        return (uint32_t)(*capacity / 64) - 1;
    }
    int shift = 63 - __builtin_clzll(bytes - 1) - 3;
    uint64_t steps = ((bytes - 1) >> shift) + 1; /* 9 ... 16 */
    *capacity = steps << shift;
    return (uint32_t)(shift * 8 + (int)steps - 9) & (CLASSES - 1);
}

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) & ~(unit - 1); }

/* The unit that a mapped block is aligned to, and all the bytes of its mapping. */
static uint64_t find_unit(uint64_t capacity) { return capacity >= HUGE_BYTES ? HUGE_PAGE : PAGE; }
static uint64_t find_mapping(uint64_t capacity) {
    return round_up(capacity, PAGE) + find_unit(capacity) + PAGE;
}

static header *map_block(uint64_t capacity) {
    uint64_t unit = find_unit(capacity);
    void *base = mmap(NULL, find_mapping(capacity), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    uintptr_t block = round_up((uintptr_t)base + PAGE, unit);
#ifdef MADV_HUGEPAGE
    if (unit == HUGE_PAGE) madvise((void *)block, capacity, MADV_HUGEPAGE);
#endif
    header *h = (header *)(block - HEADER);
    h->base = base;
    h->is_mapped = 1;
    return h;
}

static header *malloc_block(uint64_t capacity) {
    void *base = NULL;
    if (posix_memalign(&base, 64, capacity + HEADER) != 0) return NULL;
    header *h = base;
    h->base = base;
    h->is_mapped = 0;
    return h;
}

static void give_to_system(header *h) {
    h->magic = 0;
    if (h->is_mapped)
        munmap(h->base, find_mapping(h->capacity));
    else
        free(h->base);
}

/* Takes a block that is kept out of the lists. */
static void unlist(header *h) {
    header **link = &store.classes[h->class_index];
    while (*link != h) link = &(*link)->next;
    *link = h->next;
    *(h->newer ? &h->newer->older : &store.newest) = h->older;
    *(h->older ? &h->older->newer : &store.oldest) = h->newer;
    store.kept_bytes -= h->capacity;
}

static void list(header *h) {
    h->next = store.classes[h->class_index];
    store.classes[h->class_index] = h;
    h->newer = NULL;
    h->older = store.newest;
    *(h->older ? &h->older->newer : &store.oldest) = h;
    store.newest = h;
    store.kept_bytes += h->capacity;
}

/* Gives the oldest kept blocks to the system until no more than `bytes` are kept. */
static void shrink_kept(uint64_t bytes) {
    while (store.kept_bytes > bytes) {
        header *h = store.oldest;
        unlist(h);
        give_to_system(h);
    }
}

static void take_lock(void) {
    pthread_mutex_lock(&store.lock);
    while (store.inherited) {
        header *h = store.inherited;
        store.inherited = h->older;
        give_to_system(h);
    }
}

static void drop_lock(void) { pthread_mutex_unlock(&store.lock); }

void bp_allocator_lock(int take) {
    if (take)
        take_lock();
    else
        drop_lock();
}

/* In a forked child, which has the lock. The kept blocks of the parent are copies that nobody asked
 * for: they go back at the first request, so that a child that only calls exec pays nothing. */
void bp_allocator_forked(void) {
    store.inherited = store.newest;
    memset(store.classes, 0, sizeof store.classes);
    store.newest = store.oldest = NULL;
    store.asked_bytes = store.used_bytes = store.kept_bytes = 0;
    store.requests = store.refusals = store.system_calls = 0;
    store.generation++;
    pthread_mutex_init(&store.lock, NULL);
}

/* Gives all kept blocks back to the system; the bytes that were kept. */
uint64_t bp_rt_trim(void) {
    take_lock();
    uint64_t freed = store.kept_bytes;
    shrink_kept(0);
    drop_lock();
    return freed;
}

/* Sets the most bytes that live and kept blocks may have together, 0: no limit; the limit before.
 * Kept blocks beyond it go back at once. Live ones stay. */
uint64_t bp_rt_set_memory_limit(uint64_t bytes) {
    take_lock();
    uint64_t before = store.limit_bytes;
    store.limit_bytes = bytes;
    if (bytes) shrink_kept(bytes > store.used_bytes ? bytes - store.used_bytes : 0);
    drop_lock();
    return before;
}

void bp_rt_memory_statistics(bp_memory *out) {
    take_lock();
    *out = (bp_memory){.asked = store.asked_bytes,
                       .used = store.used_bytes,
                       .kept = store.kept_bytes,
                       .limit = store.limit_bytes,
                       .requests = store.requests,
                       .refusals = store.refusals,
                       .system_calls = store.system_calls};
    drop_lock();
}

/* Whether the limit allows a new block, after giving kept ones back. Where only the padding is too
 * much, the block gets none. */
static int make_room(uint64_t bytes, uint64_t *capacity) {
    if (!store.limit_bytes) return 1;
    if (store.used_bytes >= store.limit_bytes) return 0;
    uint64_t room = store.limit_bytes - store.used_bytes;
    if (*capacity > room) *capacity = round_up(bytes ? bytes : 1, 64);
    if (*capacity > room) *capacity = bytes ? bytes : 1;
    if (*capacity > room) return 0;
    shrink_kept(room - *capacity);
    return 1;
}

static header *new_block(uint64_t capacity, uint64_t alignment) {
    int mapped = capacity >= BIG || alignment > 64;
    header *h = mapped ? map_block(capacity) : malloc_block(capacity);
    if (!h && bp_rt_trim() > 0) h = mapped ? map_block(capacity) : malloc_block(capacity);
    return h;
}

static void count_live(uint64_t asked, uint64_t capacity) {
    store.asked_bytes += asked;
    store.used_bytes += capacity;
}

/* A refused request; `store` is locked. */
static void note_refusal(uint64_t bytes, bp_refusal *refusal) {
    store.refusals++;
    if (!refusal) return;
    refusal->asked = bytes;
    refusal->used = store.used_bytes;
    refusal->held = store.used_bytes + store.kept_bytes;
    refusal->limit = store.limit_bytes;
}

void *bp_pool_take(uint64_t bytes, uint64_t alignment, int64_t *system_calls, bp_refusal *refusal) {
    uint64_t capacity = 0;
    bp_watch_forks();
    int possible = bytes <= (UINT64_MAX >> 2) && alignment <= PAGE;
    /* More alignment than malloc blocks have: whole pages. */
    uint32_t k = find_class(alignment > 64 && bytes < BIG ? BIG : possible ? bytes : 1, &capacity);
    take_lock();
    store.requests++;
    header *h = possible ? store.classes[k] : NULL;
    if (h) unlist(h);
    if (!possible || (!h && !make_room(bytes, &capacity))) {
        note_refusal(bytes, refusal);
        drop_lock();
        return NULL;
    }
    count_live(bytes, capacity);
    if (!h) store.system_calls++;
    uint32_t generation = store.generation;
    drop_lock();
    if (!h) {
        ++*system_calls;
        h = new_block(capacity, alignment);
        if (!h) {
            take_lock();
            count_live(-bytes, -capacity);
            note_refusal(bytes, refusal);
            drop_lock();
            return NULL;
        }
        h->magic = MAGIC;
        h->capacity = capacity;
        h->class_index = (uint16_t)k;
        h->generation = generation;
    }
    h->asked = bytes;
    return (char *)h + HEADER;
}

static uint64_t find_keep_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 : (uint64_t)1 << 30;
}

/* Keeps a block where the limits allow it; older ones make room for it. */
static int keep_block(header *h) {
    uint64_t whole, most = store.keep_bytes;
    uint32_t k = find_class(h->capacity, &whole);
    if (store.limit_bytes) {
        uint64_t room =
            store.limit_bytes > store.used_bytes ? store.limit_bytes - store.used_bytes : 0;
        if (room < most) most = room;
    }
    /* A block without padding may not have all the bytes of its class. */
    if (h->capacity > most || whole != h->capacity || k != h->class_index) return 0;
    shrink_kept(most - h->capacity);
    list(h);
    return 1;
}

uint64_t bp_pool_give(void *block) {
    header *h = (header *)((char *)block - HEADER);
    if (h->magic != MAGIC) abort(); /* a block that is not ours, or freed twice */
    uint64_t asked = h->asked;
    int keep = 0;
    take_lock();
    if (!store.keep_bytes) store.keep_bytes = find_keep_bytes();
    if (h->generation == store.generation) {
        count_live(-asked, -h->capacity);
        keep = keep_block(h);
    }
    drop_lock();
    if (!keep) give_to_system(h);
    return asked;
}

/* Bytes that are kept for later calls. */
uint64_t bp_rt_kept_bytes(void) {
    take_lock();
    uint64_t kept = store.kept_bytes;
    drop_lock();
    return kept;
}

/* Requests of this process that went to the system. */
int64_t bp_rt_system_calls(void) {
    take_lock();
    int64_t calls = store.system_calls;
    drop_lock();
    return calls;
}

static void log_event(bp_rt_context *ctx, int is_alloc, const char *name, int64_t bytes,
                      const void *block, int marked) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    bp_event event = {.is_alloc = is_alloc, .thread = bp_rt_thread(), .bytes = bytes,
                      .call = ctx->call, .name = name, .block = block, .marked = marked,
                      .time_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
    bp_log_add(ctx->log, event);
}

void *bp_rt_alloc(bp_context *base, uint64_t bytes, uint64_t alignment, const char *name) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    int64_t system_calls = 0;
    bp_refusal refusal = {0};
    void *block = ctx->check ? bp_check_take(ctx->check, bytes, alignment)
                             : bp_pool_take(bytes, alignment, &system_calls, &refusal);
    bp_counts *counts = &ctx->counts;
    __atomic_add_fetch(&counts->allocations, 1, __ATOMIC_RELAXED);
    if (system_calls)
        __atomic_add_fetch(&counts->system_calls, system_calls, __ATOMIC_RELAXED);
    if (!block) {
        int32_t first = 0;
        refusal.from_check = ctx->check != NULL;
        if (__atomic_compare_exchange_n(&ctx->refused, &first, 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            ctx->refusal = refusal;
        return NULL;
    }
    int64_t live = __atomic_add_fetch(&counts->live_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    int64_t peak = __atomic_load_n(&counts->peak_bytes, __ATOMIC_RELAXED);
    while (live > peak && !__atomic_compare_exchange_n(&counts->peak_bytes, &peak, live, 1,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    if (ctx->log) log_event(ctx, 1, name, (int64_t)bytes, block, 0);
    return block;
}

void bp_rt_release(bp_context *base, void *block, const char *name) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    if (!block) return;
    int64_t bytes = ctx->check ? bp_check_give(ctx->check, block) : (int64_t)bp_pool_give(block);
    if (bytes < 0) return;
    __atomic_add_fetch(&ctx->counts.releases, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&ctx->counts.live_bytes, bytes, __ATOMIC_RELAXED);
    if (ctx->log) log_event(ctx, 0, name, bytes, block, 0);
}

/* A temporary inside an arena: nothing is taken or given. */
void bp_rt_mark(bp_context *base, int32_t begins, const char *name, uint64_t bytes,
                const void *address) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    if (ctx->log) log_event(ctx, begins, name, (int64_t)bytes, address, 1);
}
