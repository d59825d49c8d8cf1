/* What the runtime's own files share. */
#ifndef BAYPLAN_RUNTIME_H
#define BAYPLAN_RUNTIME_H

#include "bayplan.h"

#include <pthread.h>

/* What one call took from its allocator. Bytes are those asked for, without padding. */
typedef struct bp_counts {
    int64_t allocations;
    int64_t releases;
    int64_t live_bytes;
    int64_t peak_bytes;
    int64_t system_calls; /* requests that had to go to the operating system or to malloc */
} bp_counts;

/* The pool of memory at the moment of a refusal: bytes asked for, of live blocks, of live and kept
 * blocks, and the limit (0: none). */
typedef struct bp_refusal {
    uint64_t asked, used, held, limit;
    int32_t from_check; /* refused by the checking allocator, which has no such numbers */
} bp_refusal;

/* The pool of memory; bytes, and requests since the process began. */
typedef struct bp_memory {
    uint64_t asked; /* of live blocks, as they were asked for */
    uint64_t used;  /* of live blocks, padding included */
    uint64_t kept;  /* of blocks kept for later calls */
    uint64_t limit; /* of used and kept bytes together; 0: none */
    int64_t requests, refusals, system_calls;
} bp_memory;

/* One line of the event log. */
typedef struct bp_event {
    int32_t is_alloc; /* 1 alloc, 0 release */
    int32_t thread;   /* 0: the caller; 1, 2, ...: workers */
    int64_t bytes;
    int64_t call; /* number of the call in this process */
    int64_t time_ns;
    const char *name;
    const void *block;
    int32_t marked; /* 1: the program marked a life inside an arena, 0: memory was taken or given */
} bp_event;

typedef struct bp_log bp_log;
typedef struct bp_check bp_check;

/* The context of the runtime's own hooks; `base` comes first, so a bp_context * is one of these. */
typedef struct bp_rt_context {
    bp_context base;
    bp_counts counts;
    int64_t call;
    bp_log *log;     /* NULL: nothing is logged */
    bp_check *check; /* NULL: the pooling allocator; else the checking one */
    /* Where printed text goes; NULL: file descriptor 1. */
    void (*write)(void *user, const char *text, uint64_t bytes);
    void *write_user;
    int32_t refused; /* nonzero: `refusal` is that of the call's first failed allocation */
    bp_refusal refusal;
} bp_rt_context;

int32_t bp_rt_thread(void); /* 0 for a caller, else the number of the worker */

/* allocator.c */
void *bp_pool_take(uint64_t bytes, uint64_t alignment, int64_t *system_calls, bp_refusal *refusal);
uint64_t bp_pool_give(void *block); /* the bytes that were asked for */
void bp_allocator_lock(int take);   /* around fork */
void bp_allocator_forked(void);     /* in the child instead of giving the lock back */
void *bp_rt_alloc(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name);
void bp_rt_release(bp_context *ctx, void *block, const char *name);
void bp_rt_mark(bp_context *ctx, int32_t begins, const char *name, uint64_t bytes,
                const void *address);

/* check_alloc.c */
void *bp_check_take(bp_check *check, uint64_t bytes, uint64_t alignment);
int64_t bp_check_give(bp_check *check, void *block); /* the bytes, or -1: not ours */

/* log.c */
void bp_log_add(bp_log *log, bp_event event);

/* pool.c */
void bp_watch_forks(void); /* from the first use of workers or memory on */
int32_t bp_rt_num_threads(void); /* of a parallel loop, caller included */
int32_t bp_rt_parallel_for(bp_context *ctx, bp_task task, int32_t min, int32_t extent,
                           int32_t slots, void *closure);

/* devices.c, where programs with kernels can run */
bp_device *bp_rt_find_device(bp_context *ctx, const char *api, const char **why);

/* messages.c */
void bp_rt_print(bp_context *ctx, const bp_arg *args, int32_t count);

#endif
