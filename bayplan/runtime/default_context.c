/* The context of programs that are built ahead of time and take none: one for each thread. */
#include "runtime.h"

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
