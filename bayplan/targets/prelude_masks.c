/* Accesses under a mask: 2 are those of AVX-512, 1 those of AVX, 0 plain ones, which are all that
   the address sanitizer checks. */
#if !defined(__has_builtin) || defined(__SANITIZE_ADDRESS__)
#define BP_MASKS 0
#elif defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define BP_MASKS (2 * __has_builtin(__builtin_ia32_loadups512_mask))
#elif defined(__AVX__)
#define BP_MASKS __has_builtin(__builtin_ia32_maskloadps256)
#else
#define BP_MASKS 0
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef BP_MASKS
#define BP_MASKS 0
#endif
#endif
/* The vector's bytes as one of other elements. */
#define BP_VECTOR(element, bytes, v) ((element __attribute__((vector_size(bytes))))(v))

/* How many of the lanes come before lane n. */
BP_INLINE int32_t bp_leading(int64_t n, int32_t lanes) {
    return n < 0 ? 0 : n > lanes ? lanes : (int32_t)n;
}

/* The lowest n bits, 0 <= n <= 64. */
BP_INLINE uint64_t bp_first_bits(int32_t n) {
    return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
}

