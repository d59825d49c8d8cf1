/* The pool of device memory, and the order between a block's last users and its next one.
 *
 * A block that is given back may still be read by commands that have not run yet. In the same queue
 * the next user comes after them anyway, so it may have the block at once. For another queue the
 * block is free when those commands are over; until then that queue gets another block, or, where
 * the limit or the device has no more, this one after its queue was told to wait.
 *
 * A queue runs in order, so of each block only the last event of each queue is held, whatever the
 * number of commands.
 */
#include "device_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct use {
    void *queue, *event;
} use;

struct bp_device_block {
    void *memory;
    uint64_t bytes, note;
    use *uses; /* the last command of each queue that may not be over */
    int32_t count, capacity;
    void *ordered; /* the queue that was told to wait for all uses, or NULL */
    bp_device_block *next; /* older kept block */
};

struct bp_device_pool {
    pthread_mutex_t lock;
    bp_pool_hooks device;
    uint64_t limit;
    bp_pool_statistics counts;
    bp_device_block *kept; /* the newest first */
};

bp_device_pool *bp_device_pool_new(const bp_pool_hooks *device, uint64_t limit) {
    bp_device_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->device = *device;
    pool->limit = limit;
    return pool;
}

void *bp_device_address(const bp_device_block *block) { return block->memory; }
uint64_t *bp_device_note(bp_device_block *block) { return &block->note; }

static void drop_use(bp_device_pool *pool, bp_device_block *b, int32_t i) {
    pool->device.drop_event(pool->device.user, b->uses[i].event);
    b->uses[i] = b->uses[--b->count];
    pool->counts.events--;
}

/* Forgets the uses that are over; whether all that are left are the queue's own. */
static int is_free_for(bp_device_pool *pool, bp_device_block *b, void *queue) {
    int free_now = 1;
    for (int32_t i = b->count - 1; i >= 0; i--) {
        if (b->uses[i].queue == queue) continue;
        if (pool->device.is_done(pool->device.user, b->uses[i].event))
            drop_use(pool, b, i);
        else
            free_now = 0;
    }
    return free_now || b->ordered == queue;
}

static void release_block(bp_device_pool *pool, bp_device_block *b) {
    while (b->count > 0) {
        pool->device.wait_on_host(pool->device.user, b->uses[b->count - 1].event);
        drop_use(pool, b, b->count - 1);
    }
    pool->device.release(pool->device.user, b->memory);
    free(b->uses);
    free(b);
}

/* Releases the oldest kept blocks until no more than `bytes` are kept. */
static void shrink(bp_device_pool *pool, uint64_t bytes) {
    while (pool->counts.kept > bytes) {
        bp_device_block **link = &pool->kept;
        while ((*link)->next) link = &(*link)->next;
        bp_device_block *oldest = *link;
        *link = NULL;
        pool->counts.kept -= oldest->bytes;
        release_block(pool, oldest);
    }
}

/* A kept block of the size: one that the queue may have at once, else (`waiting`) the oldest. */
static bp_device_block *take_kept(bp_device_pool *pool, void *queue, uint64_t bytes, int waiting) {
    bp_device_block **found = NULL;
    for (bp_device_block **link = &pool->kept; *link; link = &(*link)->next) {
        if ((*link)->bytes != bytes) continue;
        if (waiting || is_free_for(pool, *link, queue)) found = link;
        if (found && !waiting) break;
    }
    if (!found) return NULL;
    bp_device_block *b = *found;
    *found = b->next;
    pool->counts.kept -= bytes;
    if (waiting && !is_free_for(pool, b, queue)) {
        for (int32_t i = 0; i < b->count; i++)
            if (b->uses[i].queue != queue)
                pool->device.wait_in_queue(pool->device.user, queue, b->uses[i].event);
        b->ordered = queue;
    }
    return b;
}

static bp_device_block *make_block(bp_device_pool *pool, uint64_t bytes) {
    bp_device_block *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->memory = pool->device.alloc(pool->device.user, bytes);
    pool->counts.allocations++;
    if (!b->memory) {
        free(b);
        return NULL;
    }
    b->bytes = bytes;
    return b;
}

bp_device_block *bp_device_take(bp_device_pool *pool, void *queue, uint64_t bytes) {
    pthread_mutex_lock(&pool->lock);
    const bp_pool_statistics *c = &pool->counts;
    bp_device_block *b = take_kept(pool, queue, bytes, 0);
    /* What blocks that are not in use may take together. */
    const uint64_t room = pool->limit ? pool->limit - c->used : UINT64_MAX;
    if (!b && bytes <= room && c->kept <= room - bytes) b = make_block(pool, bytes);
    if (!b) b = take_kept(pool, queue, bytes, 1);
    if (!b && bytes <= room && c->kept > 0) {
        /* The kept pieces are of other sizes. */
        shrink(pool, pool->limit ? room - bytes : 0);
        b = make_block(pool, bytes);
    }
    if (b) pool->counts.used += bytes;
    pthread_mutex_unlock(&pool->lock);
    return b;
}

void bp_device_use(bp_device_pool *pool, bp_device_block *b, void *queue, void *event) {
    pthread_mutex_lock(&pool->lock);
    /* This command comes after those it was told to wait for. */
    const int all = b->ordered == queue;
    for (int32_t i = b->count - 1; i >= 0; i--)
        if (all || b->uses[i].queue == queue) drop_use(pool, b, i);
    b->ordered = NULL;
    if (b->count == b->capacity) {
        const int32_t capacity = b->capacity ? 2 * b->capacity : 2;
        use *uses = realloc(b->uses, (size_t)capacity * sizeof *uses);
        if (!uses) {
            /* No memory to remember it by: it must be over. */
            pool->device.wait_on_host(pool->device.user, event);
            pool->device.drop_event(pool->device.user, event);
            pthread_mutex_unlock(&pool->lock);
            return;
        }
        b->uses = uses;
        b->capacity = capacity;
    }
    b->uses[b->count++] = (use){queue, event};
    pool->counts.events++;
    pthread_mutex_unlock(&pool->lock);
}

void bp_device_give(bp_device_pool *pool, bp_device_block *b) {
    pthread_mutex_lock(&pool->lock);
    pool->counts.used -= b->bytes;
    pool->counts.kept += b->bytes;
    b->next = pool->kept;
    pool->kept = b;
    pthread_mutex_unlock(&pool->lock);
}

uint64_t bp_device_trim(bp_device_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    const uint64_t kept = pool->counts.kept;
    shrink(pool, 0);
    pthread_mutex_unlock(&pool->lock);
    return kept;
}

void bp_device_statistics(bp_device_pool *pool, bp_pool_statistics *out) {
    pthread_mutex_lock(&pool->lock);
    *out = pool->counts;
    pthread_mutex_unlock(&pool->lock);
}

void bp_device_pool_free(bp_device_pool *pool) {
    bp_device_trim(pool);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
