/* Writes `after` where `before` is found; what was found. */
#ifndef BP_EMULATED
BP_INLINE uint32_t bp_swap(uint32_t *p, uint32_t before, uint32_t after) {
    return atomicCAS(p, before, after);
}

BP_INLINE uint64_t bp_swap(uint64_t *p, uint64_t before, uint64_t after) {
    return (uint64_t)atomicCAS((unsigned long long *)p, (unsigned long long)before,
                               (unsigned long long)after);
}

/* Less than a word: the word around it, the rest of which stays as it is. */
BP_INLINE uint32_t bp_swap_part(void *p, uint32_t bits, uint32_t before, uint32_t after) {
    uint32_t *const word = (uint32_t *)((size_t)p & ~(size_t)3);
    const uint32_t shift = (uint32_t)((size_t)p & 3) * 8, mask = bits << shift;
    uint32_t seen = *(volatile uint32_t *)word, old;
    do {
        old = seen;
        if (((old & mask) >> shift) != before) break;
        seen = atomicCAS(word, old, (old & ~mask) | (after << shift));
    } while (seen != old);
    return (old & mask) >> shift;
}

BP_INLINE uint8_t bp_swap(uint8_t *p, uint8_t before, uint8_t after) {
    return (uint8_t)bp_swap_part(p, 0xffu, before, after);
}

BP_INLINE uint16_t bp_swap(uint16_t *p, uint16_t before, uint16_t after) {
    return (uint16_t)bp_swap_part(p, 0xffffu, before, after);
}
#endif
