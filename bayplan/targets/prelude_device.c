/* Kernels: the device of a call, its memory, copies, launches. */

__attribute__((cold, noinline, unused)) static int32_t bp_device_failed(
    bp_context *ctx, int32_t status, int32_t memory_site, int32_t site, const char *why) {
    const bp_arg args[] = {bp_string(why)};
    return bp_fail(ctx, bp_sites, status == BP_OUT_OF_MEMORY ? memory_site : site, args, 1);
}

/* NULL: there is none, and the error is noted. */
static bp_device *bp_device_of(bp_context *ctx) {
    const char *why = "the context finds no devices";
    bp_device *d = BP_FIND_DEVICE(ctx, bp_kernels.api, &why);
    if (!d) bp_device_failed(ctx, BP_ERROR, BP_NO_DEVICE, BP_NO_DEVICE, why);
    return d;
}

/* The most shared memory of a block, -1: there is no device, and the error is noted. */
__attribute__((unused)) static int64_t bp_shared_limit(bp_context *ctx) {
    const bp_device *d = bp_device_of(ctx);
    if (!d) return -1;
    const bp_device_limits *l = &d->limits;
    return (int64_t)(l->shared_bytes_opt_in > l->shared_bytes ? l->shared_bytes_opt_in
                                                              : l->shared_bytes);
}

/* Memory of a temporary. */
__attribute__((unused)) static int32_t bp_device_take(bp_context *ctx, uint64_t bytes, int32_t site,
                                                      bp_device_pointer *out) {
    bp_device *d = bp_device_of(ctx);
    const char *why = "";
    if (!d) return BP_ERROR;
    if (d->allocate(d, bytes, out, &why) >= 0) return 0;
    const bp_arg args[] = {bp_uint(bytes), bp_string(why)};
    return bp_fail(ctx, bp_sites, site, args, 2);
}

__attribute__((unused)) static void bp_device_give(bp_device_pointer *memory) {
    if (memory->block) memory->device->release(memory);
}

__attribute__((unused)) static bp_device_pointer bp_device_place(bp_device_pointer arena,
                                                                 int64_t offset) {
    arena.offset += (uint64_t)offset;
    return arena;
}

/* Buffers: sites are those of too little memory and of other failures. */

__attribute__((unused)) static int32_t bp_buffer_in(bp_context *ctx, bp_buffer *b, int32_t site) {
    bp_device *d = bp_device_of(ctx);
    const char *why = "";
    if (!d) return BP_ERROR;
    const int32_t status = d->to_device(d, b, &why);
    return status < 0 ? bp_device_failed(ctx, status, site, site + 1, why) : 0;
}

__attribute__((unused)) static int32_t bp_buffer_out(bp_context *ctx, bp_buffer *b, int32_t site) {
    const char *why = "";
    bp_device *d = (bp_device *)(uintptr_t)b->device_interface;
    if (!d) return 0;
    const int32_t status = d->to_host(d, b, &why);
    return status < 0 ? bp_device_failed(ctx, status, site, site + 1, why) : 0;
}

__attribute__((unused)) static void bp_buffer_written(bp_buffer *b, int32_t by, int32_t other) {
    __atomic_or_fetch(&b->flags, (uint64_t)by, __ATOMIC_ACQ_REL);
    __atomic_and_fetch(&b->flags, ~(uint64_t)(other | BP_NO_VALUES), __ATOMIC_ACQ_REL);
}

/* Buffers that were made for the call of a function: what it left on a device comes home, and the memory
 * there is given back, also where the call failed. */
__attribute__((unused)) static int32_t bp_buffers_back(bp_context *ctx, bp_buffer *buffers,
                                                       int32_t count, int32_t status, int32_t site) {
    for (int32_t i = 0; i < count; i++) {
        bp_buffer *const b = &buffers[i];
        bp_device *const d = (bp_device *)(uintptr_t)b->device_interface;
        if (!b->device || !d) continue;
        if (status >= 0) status = bp_buffer_out(ctx, b, site);
        d->forget(d, b);
    }
    return status;
}

/* The twin of the element at the minimum of every dimension. */
__attribute__((unused)) static bp_device_pointer bp_buffer_twin(const bp_buffer *b) {
    const bp_device_pointer none = {0, 0, NULL, NULL};
    if (!b->device) return none;
    int64_t low = 0;
    for (int32_t i = 0; i < b->dimensions; i++)
        if (b->dim[i].stride < 0 && b->dim[i].extent > 0)
            low += (int64_t)b->dim[i].stride * (b->dim[i].extent - 1);
    return bp_device_place(((const bp_twin *)(uintptr_t)b->device)->at,
                           -low * ((b->type.bits + 7) / 8));
}

/* Temporaries that host and device both use. Tasks of a parallel loop may share one: the flag is
 * cleared before a copy, so that what is written meanwhile sets it again, and who needs the bytes waits
 * for a copy that is under way. */

typedef struct bp_home {
    void *host;
    bp_device_pointer device;
    uint64_t bytes;
    int32_t newer; /* BP_HOST_DIRTY, BP_DEVICE_DIRTY, or 0: both have the same */
    int32_t lock;
} bp_home;

static int32_t bp_home_copy(bp_context *ctx, bp_home *h, int32_t from, int32_t site) {
    const char *why = "";
    bp_region region;
    region.chunk = h->bytes;
    region.dimensions = 0;
    bp_device *d = h->device.device;
    if (!h->bytes || !d) return 0;
    while (__atomic_exchange_n(&h->lock, 1, __ATOMIC_ACQUIRE)) {
    }
    int32_t status = 0, newer = from;
    if (__atomic_compare_exchange_n(&h->newer, &newer, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        status = d->copy(d, h->device, h->host, &region, from == BP_HOST_DIRTY, &why);
    if (status < 0) __atomic_store_n(&h->newer, from, __ATOMIC_RELEASE);
    __atomic_store_n(&h->lock, 0, __ATOMIC_RELEASE);
    return status < 0 ? bp_device_failed(ctx, status, site, site + 1, why) : 0;
}

__attribute__((unused)) static int32_t bp_home_in(bp_context *ctx, bp_home *h, int32_t site) {
    return bp_home_copy(ctx, h, BP_HOST_DIRTY, site);
}

__attribute__((unused)) static int32_t bp_home_out(bp_context *ctx, bp_home *h, int32_t site) {
    return bp_home_copy(ctx, h, BP_DEVICE_DIRTY, site);
}

/* Launches */

static inline bp_kernel_arg bp_memory_arg(bp_device_pointer at) {
    const bp_kernel_arg arg = {BP_KERNEL_MEMORY, 0, 0, at};
    return arg;
}

static inline bp_kernel_arg bp_value_arg(const void *value, int32_t bytes) {
    bp_kernel_arg arg = {BP_KERNEL_VALUE, bytes, 0, {0, 0, NULL, NULL}};
    __builtin_memcpy(&arg.value, value, (size_t)bytes);
    return arg;
}

/* Sites: too many threads, too many blocks, too much shared memory, no memory, a failure. */
__attribute__((unused)) static int32_t bp_run_kernel(bp_context *ctx, const bp_launch *l,
                                                     int32_t site) {
    int64_t threads = 1;
    for (int i = 0; i < 3; i++)
        if (l->blocks[i] <= 0 || l->threads[i] <= 0) return 0;
    bp_device *d = bp_device_of(ctx);
    if (!d) return BP_ERROR;
    const bp_device_limits *limits = &d->limits;
    int fits = 1;
    for (int i = 0; i < 3; i++) {
        threads *= l->threads[i];
        if (l->threads[i] > limits->block_threads[i]) fits = 0;
        if (l->blocks[i] > limits->blocks[i]) {
            const bp_arg args[] = {bp_int(l->blocks[0]), bp_int(l->blocks[1]), bp_int(l->blocks[2]),
                                   bp_int(limits->blocks[0]), bp_int(limits->blocks[1]),
                                   bp_int(limits->blocks[2])};
            return bp_fail(ctx, bp_sites, site + 1, args, 6);
        }
    }
    if (!fits || threads > limits->threads) {
        const bp_arg args[] = {bp_int(threads), bp_int(l->threads[0]), bp_int(l->threads[1]),
                               bp_int(l->threads[2]), bp_int(limits->threads),
                               bp_int(limits->block_threads[0]), bp_int(limits->block_threads[1]),
                               bp_int(limits->block_threads[2])};
        return bp_fail(ctx, bp_sites, site, args, 8);
    }
    const int64_t most = bp_shared_limit(ctx);
    if (l->shared_bytes > (uint64_t)most) {
        const bp_arg args[] = {bp_uint(l->shared_bytes), bp_int(most)};
        return bp_fail(ctx, bp_sites, site + 2, args, 2);
    }
    const char *why = "";
    const int32_t status = d->launch(d, l, &why);
    return status < 0 ? bp_device_failed(ctx, status, site + 3, site + 4, why) : 0;
}
