/* Contexts of the runtime's own hooks, and calls that Ctrl-C can end. */
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t (*bp_entry)(bp_context *ctx, void **args);
typedef int64_t (*bp_bytes_entry)(bp_context *ctx, void **args);
typedef int32_t (*bp_workspace_entry)(bp_context *ctx, void **args, void *workspace,
                                      uint64_t workspace_bytes);

static int64_t call_count;

void bp_rt_context_init(bp_rt_context *ctx) {
    memset(ctx, 0, sizeof *ctx);
    ctx->base.alloc = bp_rt_alloc;
    ctx->base.release = bp_rt_release;
    ctx->base.parallel_for = bp_rt_parallel_for;
    ctx->base.print = bp_rt_print;
    ctx->base.mark = bp_rt_mark;
#ifdef BP_WITH_DEVICES
    ctx->base.find_device = bp_rt_find_device;
#endif
    ctx->base.workers = bp_rt_num_threads();
}

bp_rt_context *bp_rt_context_new(void) {
    bp_rt_context *ctx = malloc(sizeof *ctx);
    if (ctx) bp_rt_context_init(ctx);
    return ctx;
}

void bp_rt_context_free(bp_rt_context *ctx) { free(ctx); }

/* The innermost call of the main thread that SIGINT ends, and the handler it replaced. */
static bp_context *volatile interruptible;
static struct sigaction replaced;

static void on_interrupt(int number, siginfo_t *info, void *state) {
    bp_context *ctx = interruptible;
    if (ctx) ctx->cancelled = 1;
    /* The handler that was there (Python's) notes the signal for after the call. */
    if (replaced.sa_flags & SA_SIGINFO) {
        if (replaced.sa_sigaction) replaced.sa_sigaction(number, info, state);
    } else if (replaced.sa_handler != SIG_IGN && replaced.sa_handler != SIG_DFL) {
        replaced.sa_handler(number);
    }
}

/* From here on SIGINT ends the call; only the main thread may ask for that. Gives the call around
 * it, which `restore_interrupts` is to be given. */
static bp_context *watch_interrupts(bp_rt_context *ctx) {
    bp_context *outer = interruptible;
    interruptible = &ctx->base;
    if (!outer) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = on_interrupt;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigemptyset(&action.sa_mask);
        /* `replaced` must be right before the handler can run. Who ignores SIGINT goes on. */
        sigaction(SIGINT, NULL, &replaced);
        if ((replaced.sa_flags & SA_SIGINFO) || replaced.sa_handler != SIG_IGN)
            sigaction(SIGINT, &action, NULL);
    }
    return outer;
}

static void restore_interrupts(bp_rt_context *ctx, bp_context *outer) {
    if (!outer) {
        sigaction(SIGINT, &replaced, NULL);
    } else if (ctx->base.cancelled) {
        outer->cancelled = 1;
    }
    interruptible = outer;
}

static void begin_call(bp_rt_context *ctx) {
    ctx->call = __atomic_add_fetch(&call_count, 1, __ATOMIC_RELAXED);
    memset(&ctx->counts, 0, sizeof ctx->counts);
    ctx->refused = 0;
    ctx->base.workers = bp_rt_num_threads();
    ctx->base.cancelled = 0;
    ctx->base.failed = 0;
    ctx->base.error.site = NULL;
}

/* Runs a program's argv entry. With `interrupt` SIGINT sets the context's cancelled flag while it
 * runs; the handler is put back. */
int32_t bp_rt_call(bp_rt_context *ctx, bp_entry entry, void **args, int32_t interrupt) {
    begin_call(ctx);
    if (!interrupt) return entry(&ctx->base, args);
    bp_context *outer = watch_interrupts(ctx);
    int32_t status = entry(&ctx->base, args);
    restore_interrupts(ctx, outer);
    return status;
}

/* As `bp_rt_call`, with the caller's memory for the temporaries. */
int32_t bp_rt_call_with_workspace(bp_rt_context *ctx, bp_workspace_entry entry, void **args,
                                  void *workspace, uint64_t workspace_bytes, int32_t interrupt) {
    begin_call(ctx);
    if (!interrupt) return entry(&ctx->base, args, workspace, workspace_bytes);
    bp_context *outer = watch_interrupts(ctx);
    int32_t status = entry(&ctx->base, args, workspace, workspace_bytes);
    restore_interrupts(ctx, outer);
    return status;
}

/* The bytes of workspace that a call with these arguments needs, or a negative result. */
int64_t bp_rt_workspace_bytes(bp_rt_context *ctx, bp_bytes_entry entry, void **args) {
    begin_call(ctx);
    return entry(&ctx->base, args);
}
