/* Storage of temporaries. Bytes of a temporary; the greatest number where they do not fit. */
static inline int64_t bp_bytes(int64_t elements, int64_t padding, int64_t element_bytes) {
    int64_t sum, bytes;
    if (elements == 0) return 0;
    if (elements < 0 || __builtin_add_overflow(elements, padding, &sum) ||
        __builtin_mul_overflow(sum, element_bytes, &bytes))
        return INT64_MAX;
    return bytes;
}

/* The bytes that the caller's workspace must have: those of the arena and those that align it. */
static inline uint64_t bp_workspace_need(const void *workspace, uint64_t bytes,
                                         uint64_t alignment) {
    return bytes + (alignment - (uintptr_t)workspace % alignment) % alignment;
}

/* The arena in the caller's workspace, NULL where it is too small. */
static inline void *bp_in_workspace(void *workspace, uint64_t given, uint64_t bytes,
                                    uint64_t alignment) {
    const uint64_t need = bp_workspace_need(workspace, bytes, alignment);
    return need < bytes || given < need ? NULL : (char *)workspace + (need - bytes);
}

/* Tells who wants to know that the life of a temporary in an arena begins or ends. */
__attribute__((unused)) static void bp_mark(bp_context *ctx, int32_t begins, const char *name,
                                            int64_t bytes, const void *address) {
    if (ctx->mark && bytes > 0) ctx->mark(ctx, begins, name, (uint64_t)bytes, address);
}

__attribute__((unused)) static void bp_release(bp_context *ctx, void *block, const char *name) {
    if (block) ctx->release(ctx, block, name);
}
