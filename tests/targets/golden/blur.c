static const bp_site bp_sites[] = {
    {"BP-B001", "Input buffer input is missing (null pointer)",
     "", 0, BP_ERROR},
    {"BP-B001", "Input buffer input has elements of type code {0} with {1} bits, but uint16 is needed",
     "", 0, BP_ERROR},
    {"BP-B001", "Input buffer input has {0} dimensions, but 2 are needed",
     "", 0, BP_ERROR},
    {"BP-B001", "Output buffer blur_y is missing (null pointer)",
     "", 0, BP_ERROR},
    {"BP-B001", "Output buffer blur_y has elements of type code {0} with {1} bits, but uint16 is needed",
     "", 0, BP_ERROR},
    {"BP-B001", "Output buffer blur_y has {0} dimensions, but 2 are needed",
     "", 0, BP_ERROR},
    {"BP-M002", "no memory for blur_x: {0} bytes",
     "", 0, BP_OUT_OF_MEMORY},
};

typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef uint16_t u16x16_mem __attribute__((vector_size(32), aligned(2), may_alias));
typedef int16_t i16x16 __attribute__((vector_size(32)));

BP_INLINE u16x16 load_u16x16(const uint16_t *p) { return *(const u16x16_mem *)p; }
BP_INLINE void store_u16x16(uint16_t *p, u16x16 v) { *(u16x16_mem *)p = v; }
BP_INLINE u16x16 even_u16x16(u16x16 a, u16x16 b) {
#if BP_SHUFFLEVECTOR
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#else
    return __builtin_shuffle(a, b, (i16x16){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
#endif
}
BP_INLINE u16x16 odd_u16x16(u16x16 a, u16x16 b) {
#if BP_SHUFFLEVECTOR
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
    return __builtin_shuffle(a, b, (i16x16){1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31});
#endif
}

/* The loop over blur_y.s0.x. */
static void blur_y_blur_y_s0_x_loop(bp_context *ctx, const uint16_t *__restrict input,
    const int32_t y, const int32_t input_stride_1, uint16_t *__restrict blur_x) {
    (void)ctx;
    for (int32_t x = 0; x < 8; x++) {
        const int32_t t1 = y * input_stride_1 + x * 16;
        const u16x16 t2 = load_u16x16(input + t1) + load_u16x16(input + ((int64_t)t1 + 1)) + load_u16x16(input + ((int64_t)t1 + 2));
        store_u16x16(blur_x + x * 16, t2 / 3);
    }
}

/* The loop over blur_y.s0.x. */
static void blur_y_blur_y_s0_x_loop_2(bp_context *ctx, uint16_t *__restrict blur_x,
    uint16_t *__restrict blur_y, const int32_t y) {
    (void)ctx;
    for (int32_t x = 0; x < 4; x++) {
        const u16x16 t1 = load_u16x16(blur_x + x * 32);
        const u16x16 t2 = load_u16x16(blur_x + ((int64_t)(x * 32) + 16));
        store_u16x16(blur_y + (y * 64 + x * 16), even_u16x16(t1, t2) + odd_u16x16(t1, t2));
    }
}

struct blur_y_blur_y_s0_y {
    const uint16_t *input;
    int32_t input_stride_1;
    uint16_t *blur_y;
};

/* The iterations of the parallel loop over blur_y.s0.y. */
static int32_t blur_y_blur_y_s0_y_task(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    (void)slot;
    const struct blur_y_blur_y_s0_y *const given = (const struct blur_y_blur_y_s0_y *)closure;
    const uint16_t *const input = given->input;
    const int32_t input_stride_1 = given->input_stride_1;
    uint16_t *const blur_y = given->blur_y;
    (void)ctx;
    uint16_t *blur_x = NULL;
    for (int32_t y = begin; y < end; y++) {
        if (bp_cancelled(ctx)) return BP_CANCELLED;
        /* blur_x: heap, 128 uint16 */
        blur_x = (uint16_t *)ctx->alloc(ctx, UINT64_C(256), 64, "blur_x");
        if (blur_x == NULL) {
            const bp_arg args[] = {bp_uint(UINT64_C(256))};
            return bp_fail(ctx, bp_sites, 6, args, 1);
        }
        /* blur_x */
        blur_y_blur_y_s0_x_loop(ctx, input, y, input_stride_1, blur_x);
        blur_y_blur_y_s0_x_loop_2(ctx, blur_x, blur_y, y);
        bp_release(ctx, blur_x, "blur_x");
        blur_x = NULL;
    }
    return 0;
}

static int32_t blur_y_body(bp_context *ctx, bp_buffer *input_buffer, bp_buffer *blur_y_buffer, void *workspace, uint64_t workspace_bytes, int64_t *query) {
    (void)ctx;
    (void)workspace;
    (void)workspace_bytes;
    (void)query;
    if (input_buffer == NULL) {
        return bp_fail(ctx, bp_sites, 0, NULL, 0);
    }
    if (input_buffer->type.code != 1 || input_buffer->type.bits != 16 || input_buffer->type.lanes != 1) {
        const bp_arg args[] = {bp_int(input_buffer->type.code), bp_int(input_buffer->type.bits)};
        return bp_fail(ctx, bp_sites, 1, args, 2);
    }
    if (input_buffer->dimensions != 2) {
        const bp_arg args[] = {bp_int(input_buffer->dimensions)};
        return bp_fail(ctx, bp_sites, 2, args, 1);
    }
    if (blur_y_buffer == NULL) {
        return bp_fail(ctx, bp_sites, 3, NULL, 0);
    }
    if (blur_y_buffer->type.code != 1 || blur_y_buffer->type.bits != 16 || blur_y_buffer->type.lanes != 1) {
        const bp_arg args[] = {bp_int(blur_y_buffer->type.code), bp_int(blur_y_buffer->type.bits)};
        return bp_fail(ctx, bp_sites, 4, args, 2);
    }
    if (blur_y_buffer->dimensions != 2) {
        const bp_arg args[] = {bp_int(blur_y_buffer->dimensions)};
        return bp_fail(ctx, bp_sites, 5, args, 1);
    }
    const uint16_t *const input = (const uint16_t *)input_buffer->host;
    (void)input;
    const int32_t input_stride_1 = input_buffer->dim[1].stride;
    uint16_t *const blur_y = (uint16_t *)blur_y_buffer->host;
    (void)blur_y;
    const int32_t blur_y_extent_1 = blur_y_buffer->dim[1].extent;
    int32_t status = 0;
    struct blur_y_blur_y_s0_y blur_y_blur_y_s0_y_closure = {.input = input, .input_stride_1 = input_stride_1, .blur_y = blur_y};
    status = ctx->parallel_for(ctx, blur_y_blur_y_s0_y_task, 0, blur_y_extent_1, bp_slots(ctx, blur_y_extent_1), &blur_y_blur_y_s0_y_closure);
    if (status < 0) return status;
    return status;
}

BP_EXPORT int32_t blur_y(bp_context *ctx, bp_buffer *input_buffer, bp_buffer *blur_y_buffer) {
    return blur_y_body(ctx, input_buffer, blur_y_buffer, NULL, 0, NULL);
}

BP_EXPORT int64_t blur_y_workspace_bytes(bp_context *ctx, bp_buffer *input_buffer, bp_buffer *blur_y_buffer) {
    (void)input_buffer;
    (void)blur_y_buffer;
    (void)ctx;
    return 0;
}

BP_EXPORT int32_t blur_y_with_workspace(bp_context *ctx, bp_buffer *input_buffer, bp_buffer *blur_y_buffer, void *workspace, uint64_t workspace_bytes) {
    static char none[1];
    return blur_y_body(ctx, input_buffer, blur_y_buffer, 
        workspace ? workspace : none, workspace ? workspace_bytes : 0, NULL);
}

BP_EXPORT int32_t blur_y_argv(bp_context *ctx, void **args) {
    (void)args;
    return blur_y(ctx, (bp_buffer *)args[0], (bp_buffer *)args[1]);
}

BP_EXPORT int64_t blur_y_workspace_bytes_argv(bp_context *ctx, void **args) {
    (void)args;
    return blur_y_workspace_bytes(ctx, (bp_buffer *)args[0], (bp_buffer *)args[1]);
}

BP_EXPORT int32_t blur_y_with_workspace_argv(bp_context *ctx, void **args, void *workspace, uint64_t workspace_bytes) {
    (void)args;
    return blur_y_with_workspace(ctx, (bp_buffer *)args[0], (bp_buffer *)args[1], workspace, workspace_bytes);
}

#ifdef __cplusplus
}
#endif
