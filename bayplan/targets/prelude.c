/* Errors: the first one of a call is kept, whichever thread it comes from. */
static inline bp_arg bp_int(int64_t x) { return (bp_arg){BP_ARG_INT, {.i = x}}; }
static inline bp_arg bp_uint(uint64_t x) { return (bp_arg){BP_ARG_UINT, {.u = x}}; }
static inline bp_arg bp_double(double x) { return (bp_arg){BP_ARG_DOUBLE, {.d = x}}; }
static inline bp_arg bp_float(double x) { return (bp_arg){BP_ARG_FLOAT, {.d = x}}; }
static inline bp_arg bp_string(const char *x) { return (bp_arg){BP_ARG_STRING, {.s = x}}; }
static inline bp_arg bp_pointer(const void *x) { return (bp_arg){BP_ARG_POINTER, {.p = x}}; }

__attribute__((cold, noinline, unused)) static int32_t bp_fail(
    bp_context *ctx, const bp_site *sites, int32_t index, const bp_arg *args, int32_t count) {
    int32_t first = 0;
    if (__atomic_compare_exchange_n(&ctx->failed, &first, 1, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        for (int32_t i = 0; i < count; i++) ctx->error.args[i] = args[i];
        ctx->error.count = count;
        ctx->error.index = index;
        ctx->error.site = &sites[index];
    }
    return sites[index].result;
}

/* A call that comes from C: no error is noted yet. */
__attribute__((unused)) static void bp_begin(bp_context *ctx) {
    ctx->failed = 0;
    ctx->error.site = NULL;
}

/* Ctrl-C, or another wish to end the call. */
static inline int bp_cancelled(bp_context *ctx) {
    return __atomic_load_n(&ctx->cancelled, __ATOMIC_RELAXED);
}

/* The most tasks of a parallel loop that run at once. */
static inline int32_t bp_slots(const bp_context *ctx, int32_t extent) {
    const int32_t workers = ctx->workers > 1 ? ctx->workers : 1;
    return extent <= 0 ? 0 : extent < workers ? extent : workers;
}

/* Elements of a temporary: the product of its extents, -1 where it is beyond the limit. */
static inline int64_t bp_times(int64_t elements, int64_t extent) {
    int64_t product;
    if (elements < 0 || extent <= 0) return elements < 0 ? -1 : 0;
    return __builtin_mul_overflow(elements, extent, &product) ? -1 : product;
}

/* Bytes for messages about sizes; the greatest number where they do not fit. */
static inline uint64_t bp_size(int64_t elements, uint64_t bytes) {
    uint64_t size;
    if (elements < 0 || __builtin_mul_overflow((uint64_t)elements, bytes, &size))
        return UINT64_MAX;
    return size;
}
