/* Memory of temporaries: freed blocks are kept for the next call.
 *
 * Blocks come in size classes, eight between two powers of two, so at most one byte in eight is
 * padding. Small blocks come from malloc, big ones from mmap with whole pages; those of 4 MiB and
 * more ask for huge pages. In front of each block stands a header, for big blocks on its own page.
 */
#include "runtime.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 64, PAGE = 4096, CLASSES = 8 * 64 };
static const uint64_t BIG = 256 << 10, HUGE_BYTES = 4 << 20, HUGE_PAGE = 2 << 20;
static const uint64_t MAGIC = 0xba9b10c5ba9b10c5;

typedef struct header {
    uint64_t magic;
    uint64_t asked;    /* bytes of the last request */
    uint64_t capacity; /* bytes of the class */
    void *base;        /* what munmap or free takes */
    uint64_t mapped;   /* bytes for munmap; 0: from malloc */
    struct header *next;
    uint32_t class_index;
} header;

static struct {
    pthread_mutex_t lock;
    header *free_blocks[CLASSES];
    uint64_t kept_bytes; /* in free_blocks */
    uint64_t limit_bytes;
    int64_t system_calls;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

void bp_allocator_lock(int take) {
    if (take)
        pthread_mutex_lock(&store.lock);
    else
        pthread_mutex_unlock(&store.lock);
}

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

static header *map_block(uint64_t capacity) {
    uint64_t unit = capacity >= HUGE_BYTES ? HUGE_PAGE : PAGE;
    uint64_t mapped = round_up(capacity, PAGE) + unit + PAGE;
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    uintptr_t block = round_up((uintptr_t)base + PAGE, unit);
#ifdef MADV_HUGEPAGE
    if (unit == HUGE_PAGE) madvise((void *)block, capacity, MADV_HUGEPAGE);
#endif
    header *h = (header *)(block - HEADER);
    h->base = base;
    h->mapped = mapped;
    return h;
}

static header *malloc_block(uint64_t capacity) {
    void *base = NULL;
    if (posix_memalign(&base, 64, capacity + HEADER) != 0) return NULL;
    header *h = base;
    h->base = base;
    h->mapped = 0;
    return h;
}

static void give_to_system(header *h) {
    h->magic = 0;
    if (h->mapped)
        munmap(h->base, h->mapped);
    else
        free(h->base);
}

/* Gives all kept blocks back to the system; the bytes that were kept. */
uint64_t bp_rt_trim(void) {
    pthread_mutex_lock(&store.lock);
    uint64_t freed = store.kept_bytes;
    for (int i = 0; i < CLASSES; i++) {
        while (store.free_blocks[i]) {
            header *h = store.free_blocks[i];
            store.free_blocks[i] = h->next;
            give_to_system(h);
        }
    }
    store.kept_bytes = 0;
    pthread_mutex_unlock(&store.lock);
    return freed;
}

void *bp_pool_take(uint64_t bytes, uint64_t alignment, int64_t *system_calls) {
    uint64_t capacity;
    if (bytes > (UINT64_MAX >> 2) || alignment > PAGE) return NULL;
    /* More alignment than malloc blocks have: whole pages. */
    uint32_t k = find_class(alignment > 64 && bytes < BIG ? BIG : bytes, &capacity);
    pthread_mutex_lock(&store.lock);
    header *h = store.free_blocks[k];
    if (h && h->capacity == capacity) {
        store.free_blocks[k] = h->next;
        store.kept_bytes -= capacity;
    } else {
        h = NULL;
    }
    pthread_mutex_unlock(&store.lock);
    if (!h) {
        int big = capacity >= BIG;
        h = big ? map_block(capacity) : malloc_block(capacity);
        if (!h && bp_rt_trim() > 0) h = big ? map_block(capacity) : malloc_block(capacity);
        if (!h) return NULL;
        ++*system_calls;
        __atomic_add_fetch(&store.system_calls, 1, __ATOMIC_RELAXED);
        h->magic = MAGIC;
        h->capacity = capacity;
        h->class_index = k;
    }
    h->asked = bytes;
    return (char *)h + HEADER;
}

static uint64_t find_limit(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 : (uint64_t)1 << 30;
}

uint64_t bp_pool_give(void *block) {
    header *h = (header *)((char *)block - HEADER);
    if (h->magic != MAGIC) abort(); /* a block that is not ours, or freed twice */
    uint64_t asked = h->asked;
    pthread_mutex_lock(&store.lock);
    if (!store.limit_bytes) store.limit_bytes = find_limit();
    int keep = store.kept_bytes + h->capacity <= store.limit_bytes;
    if (keep) {
        h->next = store.free_blocks[h->class_index];
        store.free_blocks[h->class_index] = h;
        store.kept_bytes += h->capacity;
    }
    pthread_mutex_unlock(&store.lock);
    if (!keep) give_to_system(h);
    return asked;
}

/* Bytes that are kept for later calls. */
uint64_t bp_rt_kept_bytes(void) {
    pthread_mutex_lock(&store.lock);
    uint64_t kept = store.kept_bytes;
    pthread_mutex_unlock(&store.lock);
    return kept;
}

/* Requests of this process that went to the system. */
int64_t bp_rt_system_calls(void) { return __atomic_load_n(&store.system_calls, __ATOMIC_RELAXED); }

static void log_event(bp_rt_context *ctx, int is_alloc, const char *name, int64_t bytes,
                      const void *block) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    bp_event event = {.is_alloc = is_alloc, .thread = bp_rt_thread(), .bytes = bytes,
                      .call = ctx->call, .name = name, .block = block,
                      .time_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
    bp_log_add(ctx->log, event);
}

void *bp_rt_alloc(bp_context *base, uint64_t bytes, uint64_t alignment, const char *name) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    int64_t system_calls = 0;
    void *block = ctx->check ? bp_check_take(ctx->check, bytes, alignment)
                             : bp_pool_take(bytes, alignment, &system_calls);
    bp_counts *counts = &ctx->counts;
    __atomic_add_fetch(&counts->allocations, 1, __ATOMIC_RELAXED);
    if (system_calls)
        __atomic_add_fetch(&counts->system_calls, system_calls, __ATOMIC_RELAXED);
    if (!block) return NULL;
    int64_t live = __atomic_add_fetch(&counts->live_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    int64_t peak = __atomic_load_n(&counts->peak_bytes, __ATOMIC_RELAXED);
    while (live > peak && !__atomic_compare_exchange_n(&counts->peak_bytes, &peak, live, 1,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    if (ctx->log) log_event(ctx, 1, name, (int64_t)bytes, block);
    return block;
}

void bp_rt_release(bp_context *base, void *block, const char *name) {
    bp_rt_context *ctx = (bp_rt_context *)base;
    if (!block) return;
    int64_t bytes = ctx->check ? bp_check_give(ctx->check, block) : (int64_t)bp_pool_give(block);
    if (bytes < 0) return;
    __atomic_add_fetch(&ctx->counts.releases, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&ctx->counts.live_bytes, bytes, __ATOMIC_RELAXED);
    if (ctx->log) log_event(ctx, 0, name, bytes, block);
}
