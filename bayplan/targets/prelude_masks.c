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
/* An address for a builtin. Some compilers want that of an element, others that of a vector; in C
   a void * becomes either. */
#ifdef __cplusplus
extern "C++" {
struct bp_address {
    void *at;
    template <class T> __attribute__((always_inline)) operator T *() const { return (T *)at; }
};
}
#define BP_ADDRESS(p) (bp_address{(void *)(p)})
#else
#define BP_ADDRESS(p) ((void *)(p))
#endif
/* The vector's bytes as one of other elements. */
#define BP_VECTOR(element, bytes, ...) ((element __attribute__((vector_size(bytes))))(__VA_ARGS__))

/* How many of the lanes come before lane n. */
BP_INLINE int32_t bp_leading(int64_t n, int32_t lanes) {
    return n < 0 ? 0 : n > lanes ? lanes : (int32_t)n;
}

/* The lowest n bits, 0 <= n <= 64. */
BP_INLINE uint64_t bp_first_bits(int32_t n) {
    return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
}

/* Of the first n bytes those at `at` and after it, at most 8; zeros for the others. Two loads that
   may overlap instead of one for each byte; no byte but those is read. */
BP_INLINE uint64_t bp_low_bytes(const void *first, int32_t at, int32_t n) {
    if (n <= at) return 0;
    const unsigned char *const p = (const unsigned char *)first + at;
    uint64_t all = 0;
    n -= at;
    if (n >= 8) {
        __builtin_memcpy(&all, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    } else if (n >= 4) {
        uint32_t low, high;
        __builtin_memcpy(&low, p, 4);
        __builtin_memcpy(&high, p + n - 4, 4);
        all = low | (uint64_t)high << 8 * (n - 4);
    } else if (n >= 2) {
        uint16_t low, high;
        __builtin_memcpy(&low, p, 2);
        __builtin_memcpy(&high, p + n - 2, 2);
        all = low | (uint64_t)high << 8 * (n - 2);
    } else {
        all = *p;
    }
#else
    } else {
        for (int32_t k = 0; k < n; k++) ((unsigned char *)&all)[k] = p[k];
    }
#endif
    return all;
}

