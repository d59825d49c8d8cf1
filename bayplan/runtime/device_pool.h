/* Memory of devices whose commands wait in queues, for whatever runs programs on a device. */
#ifndef BAYPLAN_DEVICE_POOL_H
#define BAYPLAN_DEVICE_POOL_H

#include <stdint.h>

/* What the pool needs of a device. Queues run their commands in order; an event is a place in a
 * queue, and each event given to the pool is one reference that it drops. */
typedef struct bp_pool_hooks {
    void *user;
    void *(*alloc)(void *user, uint64_t bytes); /* NULL: there is none */
    void (*release)(void *user, void *memory);
    int32_t (*is_done)(void *user, void *event);
    /* The queue's later commands begin after the event. */
    void (*wait_in_queue)(void *user, void *queue, void *event);
    void (*wait_on_host)(void *user, void *event);
    void (*drop_event)(void *user, void *event);
} bp_pool_hooks;

typedef struct bp_device_pool bp_device_pool;
typedef struct bp_device_block bp_device_block;

typedef struct bp_pool_statistics {
    uint64_t used, kept; /* bytes */
    int64_t events;      /* held for later */
    int64_t allocations; /* asked of the device */
} bp_pool_statistics;

/* `limit`: most bytes that blocks in use and kept ones have together; 0: none. */
bp_device_pool *bp_device_pool_new(const bp_pool_hooks *device, uint64_t limit);
/* All blocks must have been given back; waits for the commands that use them. */
void bp_device_pool_free(bp_device_pool *pool);

/* A block for commands of the queue, NULL where there is no memory. Commands of other queues that
 * still use it come first: the queue waits for them, or the block is another one. */
bp_device_block *bp_device_take(bp_device_pool *pool, void *queue, uint64_t bytes);
void *bp_device_address(const bp_device_block *block);
/* A number that who has the block keeps with it; what it was before stays. */
uint64_t *bp_device_note(bp_device_block *block);
/* The queue has a command that uses the block and is over with the event. */
void bp_device_use(bp_device_pool *pool, bp_device_block *block, void *queue, void *event);
/* The host is over with the block; commands that use it may still wait in their queues. */
void bp_device_give(bp_device_pool *pool, bp_device_block *block);
/* Gives kept blocks back to the device once their commands are over; the bytes that were kept. */
uint64_t bp_device_trim(bp_device_pool *pool);
void bp_device_statistics(bp_device_pool *pool, bp_pool_statistics *out);

#endif
