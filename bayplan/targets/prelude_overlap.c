/* The bytes from the first to the last element of a buffer. */
static inline int bp_span(const bp_buffer *b, uintptr_t *begin, uintptr_t *end) {
    int64_t low = 0, high = 0;
    for (int32_t d = 0; d < b->dimensions; d++) {
        if (b->dim[d].extent <= 0) return 0;
        const int64_t reach = (int64_t)(b->dim[d].extent - 1) * b->dim[d].stride;
        if (reach < 0) low += reach;
        else high += reach;
    }
    const int64_t bytes = (b->type.bits + 7) / 8;
    *begin = (uintptr_t)b->host + (uintptr_t)(low * bytes);
    *end = (uintptr_t)b->host + (uintptr_t)((high + 1) * bytes);
    return 1;
}

static inline bool bp_buffers_overlap(const bp_buffer *a, const bp_buffer *b) {
    uintptr_t a0, a1, b0, b1;
    if (!a->host || !b->host) return false;
    if (!bp_span(a, &a0, &a1) || !bp_span(b, &b0, &b1)) return false;
    return a0 < b1 && b0 < a1;
}

/* Equal coordinates lie at equal addresses. */
static inline bool bp_buffers_coincide(const bp_buffer *a, const bp_buffer *b) {
    if (a->dimensions != b->dimensions || a->type.bits != b->type.bits) return false;
    int64_t offset = 0;
    for (int32_t d = 0; d < a->dimensions; d++) {
        if (a->dim[d].stride != b->dim[d].stride) return false;
        offset += (int64_t)(b->dim[d].min - a->dim[d].min) * a->dim[d].stride;
    }
    return b->host == a->host + offset * ((a->type.bits + 7) / 8);
}
