/* The context of programs that are built ahead of time and take none: one for each thread. */
#include "runtime.h"

#include <stdlib.h>

/* BAYPLAN_NUM_THREADS or HL_NUM_THREADS, and BAYPLAN_MEMORY_LIMIT, before the program can say
 * otherwise. */
__attribute__((constructor)) static void read_environment(void) {
    const char *text = getenv("BAYPLAN_NUM_THREADS");
    if (!text || !*text) text = getenv("HL_NUM_THREADS");
    const long threads = text ? strtol(text, NULL, 10) : 0;
    if (threads > 0 && threads <= INT32_MAX) bp_rt_set_num_threads((int32_t)threads);
    text = getenv("BAYPLAN_MEMORY_LIMIT");
    const unsigned long long limit = text ? strtoull(text, NULL, 0) : 0;
    if (limit > 0) bp_rt_set_memory_limit(limit);
}

bp_context *bp_default_context(void) {
    static __thread bp_rt_context context;
    static __thread int ready;
    if (!ready) {
        bp_rt_context_init(&context);
        ready = 1;
    }
    context.base.workers = bp_rt_num_threads();
    return &context.base;
}
